// A report: the page's renderers fed with recorded views. Nothing here reaches a server.
//
// frame    the views at a stop of a branch, written as what differs from another frame
(() => {
  const data = JSON.parse(document.getElementById("sg-report-data").textContent);
  const redraws = {};
  const values = {};
  let branch = data.current;
  let cursor = Math.max(...stops());
  let candidate = null;

  function stops() {
    return Object.keys(data.branches[branch]).filter((key) => !key.includes(" ")).map(Number).sort((a, b) => a - b);
  }

  // As report.laid_over: a list is a whole value, an object holds changes by key.
  function laidOver(base, change) {
    if (change === null || change === undefined) return base;
    if (Array.isArray(change)) return change[0];
    const whole = {};
    for (const key of Object.keys(base)) whole[key] = laidOver(base[key], change[key]);
    return whole;
  }

  function views() {
    const frames = data.branches[branch];
    const first = frames[0][0];
    const stop = cursor === 0 ? first : laidOver(first, frames[cursor]);
    return candidate === null ? stop : laidOver(stop, frames[`${cursor} ${candidate}`]);
  }

  function show() {
    const now = views();
    now.status = { ...now.status, models: data.note };
    for (const name of data.panels) {
      values[name].value = JSON.stringify(now[name]);
      redraws[name]();
    }
  }

  function bus(event, asked) {
    if (event === "save") return;
    if (event === "setup" && asked.branch in data.branches) {
      branch = asked.branch;
      cursor = Math.max(...stops());
      candidate = null;
      show();
    } else if (event !== "look" || !looked(asked)) SpecGuard.notice(data.locked);
  }

  function looked(asked) {
    const all = stops();
    const at = all.indexOf(cursor);
    const goals = { first: 0, back: all[at - 1], "back phase": all[at - 1], step: all[at + 1], phase: all[at + 1], run: all[all.length - 1] };
    if (asked.move in goals) return go(goals[asked.move]);
    if (Number.isInteger(asked.cursor)) return go(all.find((stop) => stop >= asked.cursor));
    if (Number.isInteger(asked.step)) return go(all[asked.step + 1]);
    if (!Number.isInteger(asked.candidate)) return false;
    candidate = `${cursor} ${asked.candidate}` in data.branches[branch] ? asked.candidate : null;
    show();
    return true;
  }

  function go(stop) {
    cursor = stop ?? cursor;
    candidate = null;
    show();
    return true;
  }

  const opening = views();
  for (const name of data.panels) {
    values[name] = { value: JSON.stringify(opening[name]) };
    const watch = (_, redraw) => { redraws[name] = redraw; };
    SpecGuard.mount(name, document.getElementById(`sg-${name}`), values[name], watch, bus, name === "top");
  }
  for (const name of ["problem", "knobs"]) document.getElementById(`sg-${name}`).inert = true;
  show();
})();

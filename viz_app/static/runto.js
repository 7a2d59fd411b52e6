// Where a run pauses: a step, the end, and the list of breakpoints. The menu stays open while set.
(() => {
  const { h, icon, send, views } = SpecGuard;
  let open = false;

  SpecGuard.runTo = (view) => {
    const armed = view.breakpoints.some((point) => point.armed);
    const menu = h("details", { class: "menu breaks" },
      h("summary", { title: "Run to: a step, the end, breakpoints", "aria-label": "Run to", data: { key: "run to" } },
        view.breakpoints.length ? h("i", { class: armed ? "hit" : "hit armed" }) : "", "\u25be"),
      h("div", { class: "sheet left runto" },
        h("h3", {}, "Run to"), goals(view),
        h("h3", {}, `Breakpoints: Run pauses after a ${view.unit} where`),
        view.breakpoints.length > 0 && h("ul", {}, view.breakpoints.map((point, index) => pointRow(view, point, index))),
        h("div", { class: "kinds" }, view.kinds.map((kind) => kindRow(view, kind))), cannot(view)));
    menu.open = open;
    menu.addEventListener("toggle", () => { open = menu.open; });
    return menu;
  };

  // What can never hold in such a run is named all the same, with the reason.
  function cannot(view) {
    const reasons = [...new Set(view.kinds.map((kind) => kind.off).filter(Boolean))];
    return reasons.map((reason) => h("p", { class: "quiet" }, `${reason[0].toUpperCase()}${reason.slice(1)}: `,
      `${view.kinds.filter((kind) => kind.off === reason).map((kind) => plain(kind.words)).join("; ")}.`));
  }

  // A kind's words by themselves, the place of its value in words.
  const plain = (words) => words.replace("\u2026", "so much");

  function shut() {
    open = false;
    const menu = document.querySelector(".sg-top .breaks");
    if (menu) menu.open = false;
  }

  // What is recorded is looked at; only beyond it do models work.
  function goals(view) {
    const can = view.can.on;
    const input = h("input", {
      type: "number", min: 1, max: 1000, step: 1, value: view.kept_units + 2, "aria-label": `${view.unit} to run to`,
      disabled: view.running, data: { key: "run to step number" },
    });
    const toStep = () => {
      const step = Number(input.value) - 1;
      if (!Number.isInteger(step) || step < 0) return;
      shut();
      if (step < view.kept_units) send("look", { step });
      else if (can) send("drive", { move: "run to", step });
    };
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") toStep(); });
    const go = (move) => () => { shut(); SpecGuard.goOn(move); };
    return h("div", { class: "goals" },
      h("button", { type: "button", disabled: !can, data: { key: "run to breakpoint" }, title: "Space", onclick: go("run") },
        icon("run"), view.breakpoints.length ? "the next breakpoint" : "a breakpoint or the end"),
      h("button", { type: "button", disabled: !can, data: { key: "run to end" }, title: "Past every breakpoint", onclick: go("end") },
        icon("step"), "the end"),
      h("span", { class: "row-line" }, input,
        h("button", { type: "button", disabled: view.running, data: { key: "run to step" }, onclick: toStep }, icon("phase"), `this ${view.unit}`)));
  }

  function pointRow(view, point, index) {
    return h("li", { class: "row-line" }, h("button", {
      type: "button", role: "switch", "aria-checked": String(point.armed), disabled: view.running, class: "row",
      title: point.armed ? "On: click to turn it off" : "Off: click to turn it on",
      data: { key: `arm ${index}` }, onclick: () => send("setup", { arm: index }),
    }, h("i", { class: point.armed && !point.off ? "hit" : "hit armed" }),
    h("span", { class: point.armed && !point.off ? "" : "quiet" }, point.words, point.armed ? "" : ", off", point.off && `, ${point.off}`)),
    h("button", {
      type: "button", class: "plain quiet", disabled: view.running, title: `Delete: ${point.words}`, "aria-label": `Delete the breakpoint ${point.words}`,
      data: { key: `unbreak ${index}` }, onclick: () => send("setup", { unbreak: index }),
    }, icon("no")));
  }

  // What is typed into a row outlives a redraw of the bar.
  const typed = {};

  function kindRow(view, kind) {
    if (kind.off) return null;
    const needs = kind.value !== null;
    const number = typeof kind.value === "number";
    const input = needs && h("input", {
      type: number ? "number" : "text", step: "any", "aria-label": kind.words, disabled: view.running,
      placeholder: number ? null : "pattern", data: { key: `value ${kind.kind}` },
    });
    if (input) {
      input.value = typed[kind.kind] ?? kind.value;
      input.addEventListener("input", () => { typed[kind.kind] = input.value; });
    }
    const add = () => send("setup", {
      breakpoint: kind.kind, value: !needs ? null : number ? Number(input.value) : input.value,
    });
    if (input) input.addEventListener("keydown", (event) => { if (event.key === "Enter") add(); });
    const words = plain(kind.words);
    return h("div", { class: "row-line" }, h("button", {
      type: "button", disabled: view.running, class: "row", data: { key: `break ${kind.kind}` }, onclick: add,
      title: `Pause where: ${kind.words}`,
    }, icon("plus"), words), input);
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && open) shut();
    if (SpecGuard.typing(event) || (event.key !== "b" && event.key !== "B")) return;
    const { top, timeline } = views;
    if (!top || top.running || !timeline) return;
    event.preventDefault();
    const step = Math.max(Math.ceil(timeline.cursor / timeline.n_phases), 1);
    send("setup", { breakpoint: "step", value: step });
  });
})();

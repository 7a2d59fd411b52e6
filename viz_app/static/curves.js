// Readings along the tokens: a curve each, the least marked, the threshold's equivalent dashed.
// Tokens that count in no minimum are hollow. The target's view, where measured, is a second line.
(() => {
  const { h, svg } = SpecGuard;
  const CROWDED = 120;
  const CLOSE = 34;

  SpecGuard.curves = (view) => view.curves.map((curve) => one(curve, view));

  function one(curve, view) {
    const gutter = h("div", { class: "gutter" }, h("p", {}, h("b", {}, curve.name), h("em", {}, curve.unit),
      curve.target && h("em", { class: "pair" }, "draft ", h("i", {}), " target ", h("i", { class: "target" }))));
    if (curve.absent) {
      return h("div", { class: `curve ${curve.name}` }, gutter, h("div", { class: "plot" },
        h("p", { class: "quiet" }, curve.absent)));
    }
    const y = (value) => (100 * (curve.high - value)) / (curve.high - curve.low);
    const x = (index) => (100 * (index + 0.5)) / curve.values.length;
    const near = (value) => curve.threshold && Math.abs(y(value) - y(curve.threshold.value)) < 22;
    // A wide number near the top would stand on the name, which then moves to the foot. The words
    // for two lines are as wide as the gutter: no number has room at their height.
    const low = curve.threshold && y(curve.threshold.value) < (curve.target ? 66 : 36);
    const covered = (at) => curve.target && (low ? at > 50 : at < 50);
    for (const tick of curve.ticks) {
      const at = y(tick.value);
      if (!near(tick.value) && !covered(at)) gutter.append(h("span", { class: at < 36 ? "beside" : null, style: { top: `${at}%` } }, tick.text));
    }
    if (curve.threshold) {
      gutter.classList.toggle("low", low);
      gutter.append(h("span", { class: "at", style: { top: `${y(curve.threshold.value)}%` } }, curve.threshold.text));
    }
    const plot = h("div", { class: "plot" }, picture(curve, view, x, y), points(curve, view, x, y));
    if (curve.threshold) {
      const low = y(curve.threshold.value) > 72;
      plot.append(h("span", {
        class: `under ${low ? "above" : ""} ${freer(curve, y, low)}`, style: { top: `${y(curve.threshold.value)}%` },
      }, curve.threshold.label));
    }
    const other = curve.target && curve.target.marked;
    // Two marks on one token share their words, which would stand on each other.
    const shared = other && curve.marked && other.index === curve.marked.index;
    // Words of two marks that stand close go to either side of them.
    const close = other && curve.marked && !shared && Math.abs(x(other.index) - x(curve.marked.index)) < CLOSE;
    const left = (mine, its) => (close ? mine.index < its.index : mine.index >= (shared ? 0.4 : 0.66) * curve.values.length);
    if (curve.marked) plot.append(marked(shared ? { ...curve.marked, text: `${curve.marked.text}, target ${other.text}` } : curve.marked, curve.values, "", x, y, left(curve.marked, other)));
    if (other) plot.append(marked(shared ? { ...other, text: "" } : other, curve.target.values, "target", x, y, left(other, curve.marked)));
    return h("div", { class: `curve ${curve.name}` }, gutter, plot);
  }

  // The side of the plot on which fewer points lie where the threshold's words would stand.
  function freer(curve, y, low) {
    const at = y(curve.threshold.value);
    const taken = (value) => value !== null && (low ? y(value) < at && y(value) > at - 30 : y(value) > at && y(value) < at + 30);
    const side = Math.ceil(0.3 * curve.values.length);
    const all = [curve.values, ...(curve.target ? [curve.target.values] : [])];
    const crowd = (from, to) => all.reduce((sum, values) => sum + values.slice(from, to).filter(taken).length, 0);
    const near = (from, to) => (curve.marked && curve.marked.index >= from && curve.marked.index < to ? 2 : 0);
    const n = curve.values.length;
    return crowd(0, side) + near(0, side) > crowd(n - side, n) + near(n - side, n) ? "right" : "";
  }

  function picture(curve, view, x, y) {
    const lines = [];
    for (const tick of curve.ticks) lines.push(level("grid", y(tick.value)));
    if (curve.threshold) {
      const at = y(curve.threshold.value);
      lines.push(svg("rect", { class: "below", x: 0, width: 100, y: at, height: Math.max(100 - at, 0) }),
        level("threshold", at));
    }
    const line = (values, kind) => {
      for (const run of runs(values, view.tokens)) {
        lines.push(svg("polyline", {
          class: `${kind} ${run.dotted ? "dotted" : ""}`,
          points: run.points.map((i) => `${x(i).toFixed(2)},${y(values[i]).toFixed(2)}`).join(" "),
        }));
      }
    };
    if (curve.target) line(curve.target.values, "target");
    line(curve.values, "");
    return svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img",
      "aria-label": `${curve.name} per token${curve.marked ? `, ${curve.marked.text}` : ""}` }, lines);
  }

  function level(name, at) {
    return svg("line", { class: name, x1: 0, x2: 100, y1: at, y2: at });
  }

  // Unbroken runs of measured tokens; the way to a boundary token is dotted.
  function runs(values, tokens) {
    const found = [];
    let run = [];
    values.forEach((value, index) => {
      if (value === null) { if (run.length) found.push({ points: run }); run = []; return; }
      if (tokens[index].boundary && run.length) {
        found.push({ points: run }, { points: [run[run.length - 1], index], dotted: true });
        run = [];
        return;
      }
      run.push(index);
    });
    if (run.length) found.push({ points: run });
    return found;
  }

  function points(curve, view, x, y) {
    if (curve.values.length > CROWDED) return [];
    return curve.values.flatMap((value, index) => {
      if (value === null || (curve.marked && curve.marked.index === index)) return [];
      return [h("u", {
        class: view.tokens[index].counted ? "" : "left-out",
        style: { left: `${x(index)}%`, top: `${y(value)}%` }, "aria-hidden": "true",
      })];
    });
  }

  function marked({ index, text }, values, kind, x, y, late) {
    const value = values[index];
    // Both neighbours of a least value lie above it, so the space below is free.
    const flat = !late && y(value) <= 86;
    const spot = { left: `${x(index)}%`, top: `${y(value)}%` };
    const fragment = document.createDocumentFragment();
    fragment.append(h("u", { class: `least ${kind}`, style: spot }));
    if (text) fragment.append(h("span", {
      class: `least-text ${kind} ${late ? "late" : ""} ${flat ? "level" : ""} ${y(value) > 86 ? "deep" : ""}`, style: spot,
    }, kind ? `${kind} ${text}` : text));
    return fragment;
  }
})();

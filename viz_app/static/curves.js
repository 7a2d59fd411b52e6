// Readings along the tokens: a curve each, the least marked, the threshold's equivalent dashed.
(() => {
  const { h, svg } = SpecGuard;
  const CROWDED = 120;

  SpecGuard.curves = (view) => view.curves.map((curve) => one(curve, view));

  function one(curve, view) {
    const gutter = h("div", { class: "gutter" }, h("b", {}, curve.name), h("em", {}, curve.unit));
    if (curve.absent) {
      return h("div", { class: `curve ${curve.name}` }, gutter, h("div", { class: "plot" },
        h("p", { class: "quiet" }, curve.absent)));
    }
    const y = (value) => (100 * (curve.high - value)) / (curve.high - curve.low);
    const x = (index) => (100 * (index + 0.5)) / curve.values.length;
    const near = (value) => curve.threshold && Math.abs(y(value) - y(curve.threshold.value)) < 22;
    for (const tick of curve.ticks) {
      if (!near(tick.value)) gutter.append(h("span", { style: { top: `${y(tick.value)}%` } }, tick.text));
    }
    if (curve.threshold) {
      gutter.append(h("span", { class: "at", style: { top: `${y(curve.threshold.value)}%` } }, curve.threshold.text));
    }
    const plot = h("div", { class: "plot" }, picture(curve, view, x, y), points(curve, view, x, y));
    if (curve.threshold) {
      const early = curve.marked && curve.marked.index < 0.4 * curve.values.length;
      const low = y(curve.threshold.value) > 72;
      plot.append(h("span", {
        class: `under ${low ? "above" : ""} ${early ? "right" : ""}`, style: { top: `${y(curve.threshold.value)}%` },
      }, curve.threshold.label));
    }
    if (curve.marked) plot.append(marked(curve, x, y));
    return h("div", { class: `curve ${curve.name}` }, gutter, plot);
  }

  function picture(curve, view, x, y) {
    const lines = [];
    for (const tick of curve.ticks) lines.push(level("grid", y(tick.value)));
    if (curve.threshold) {
      const at = y(curve.threshold.value);
      lines.push(svg("rect", { class: "below", x: 0, width: 100, y: at, height: Math.max(100 - at, 0) }),
        level("threshold", at));
    }
    for (const run of runs(curve.values, view.tokens)) {
      lines.push(svg("polyline", {
        class: run.dotted ? "dotted" : "",
        points: run.points.map((i) => `${x(i).toFixed(2)},${y(curve.values[i]).toFixed(2)}`).join(" "),
      }));
    }
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
        class: view.tokens[index].boundary ? "boundary" : "",
        style: { left: `${x(index)}%`, top: `${y(value)}%` }, "aria-hidden": "true",
      })];
    });
  }

  function marked(curve, x, y) {
    const { index, text } = curve.marked;
    const value = curve.values[index];
    const late = index >= 0.66 * curve.values.length;
    // Both neighbours of a least value lie above it, so the space below is free.
    const flat = !late && y(value) <= 86;
    return [h("u", { class: "least", style: { left: `${x(index)}%`, top: `${y(value)}%` } }),
      h("span", { class: `least-text ${late ? "late" : ""} ${flat ? "level" : ""} ${y(value) > 86 ? "deep" : ""}`, style: { left: `${x(index)}%`, top: `${y(value)}%` } }, text)]
      .reduce((fragment, node) => { fragment.append(node); return fragment; }, document.createDocumentFragment());
  }
})();

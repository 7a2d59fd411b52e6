// The ledger: tokens and milliseconds by role, in all and per step; the chosen step is tinted.
(() => {
  const { h } = SpecGuard;

  function draw(root, view) {
    const at = (index) => (index === view.selected ? "on" : "");
    const quietZero = (text) => (text === "0.0" ? "quiet" : "");
    SpecGuard.put(root, h("div", { class: "ledger" },
      h("div", { class: "table" }, h("table", {},
        h("colgroup", {}, h("col", { style: { width: "136px" } }), h("col", { style: { width: "44px" } }), h("col"),
          h("col", { style: { width: "48px" } }), h("col"),
          view.steps.map(() => h("col", { style: { width: "56px" } }))),
        h("thead", {}, h("tr", {}, h("th", {}), h("td", {}, "tokens"), h("td", {}), h("td", {}, "ms"), h("td", {}),
          view.steps.map((name, i) => h("td", { class: at(i) }, name)))),
        h("tbody", {},
          view.rows.map((row) => h("tr", {},
            h("th", { scope: "row" }, h("i", { class: row.key }), row.name),
            h("td", {}, row.tokens), bar(row.key, row.tokens_width),
            h("td", {}, row.ms), bar(row.key, row.ms_width),
            row.steps.map((ms, i) => h("td", { class: `${at(i)} ${quietZero(ms)}` }, ms === "0.0" ? "0" : ms)))),
          h("tr", { class: "total" }, h("th", { scope: "row" }, "This run"), h("td", {}, view.total.tokens), h("td", {}),
            h("td", {}, view.total.ms), h("td", {}), view.total.steps.map((ms, i) => h("td", { class: at(i) }, ms)))))),
      against(view)));
  }

  function bar(key, width) {
    return h("td", { class: "bar" }, width > 0 && h("s", { class: key, style: { width: `${width}%` } }));
  }

  function against(view) {
    const { alone } = view;
    return h("div", { class: "against" }, h("h3", {}, "Against the target alone"),
      alone
        ? [line("this run", alone.run_width, alone.run, "measured", ""),
          line("target only", alone.target_width, alone.target, alone.basis, alone.basis),
          h("p", {}, `${alone.ratio} of its time. ${view.target}`)]
        : h("p", {}, `${view.unknown} ${view.target}`));
  }

  function line(name, width, milliseconds, basis, kind) {
    return h("div", {}, h("span", {}, name), h("span", { class: "bar" }, h("s", { class: kind || "run", style: { width: `${width}%` } })),
      h("b", {}, `${milliseconds} ms`), h("em", {}, basis));
  }

  SpecGuard.table("ledger", draw);
})();

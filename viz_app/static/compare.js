// Two branches side by side, a row per step; what the second one says otherwise is marked.
(() => {
  const { h, send, icon } = SpecGuard;

  SpecGuard.table("compare", (root, view) => {
    const list = h("select", {
      "aria-label": "compare with", data: { key: "compare with" },
      onchange: () => send("look", { compare: list.value }),
    }, view.others.map((name) => h("option", { value: name, selected: name === view.names[0] }, name)));
    SpecGuard.put(root, h("table", { class: "compare" },
      h("thead", {}, h("tr", {}, h("th", {}),
        h("th", { scope: "col" }, list, h("span", { class: "quiet" }, ` ${view.answers[0]}`)),
        h("th", { scope: "col" }, h("b", {}, view.names[1]), h("span", { class: "quiet" },
          ` ${view.answers[1]}, ${view.same} of ${view.rows.length} steps the same`)))),
      h("tbody", {}, view.rows.map((row) => h("tr", { class: row.same ? "quiet" : "" },
        h("th", { scope: "row" }, row.step), side(row.left), side(row.right))))));
  });

  function side(step) {
    if (!step) return h("td", { class: "quiet" }, "no such step");
    const tags = { same: "span", cut: "del", new: "ins" };
    return h("td", {},
      h("span", { class: step.refused ? "word refused" : "word" }, icon(step.refused ? "no" : "yes"), step.source, " ", step.score),
      h("span", { class: "mono" }, step.text.map((part) => h(tags[part.kind], {}, part.text))));
  }
})();

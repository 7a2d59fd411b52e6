// The branches: a line per branch, steps as stops on it; a click shows the branch.
(() => {
  const { h, svg, send } = SpecGuard;
  const ROW = 22;
  const LEFT = 10;

  SpecGuard.table("tree", (root, view) => {
    const width = 26;
    const x = (column) => LEFT + column * width;
    const y = (row) => row * ROW + ROW / 2;
    const picture = svg("svg", {
      class: "tree", width: x(view.columns) + 14, height: view.rows.length * ROW, role: "img",
      "aria-label": `${view.rows.length} branches`,
    }, view.rows.map((row) => [
      row.parent_row !== null && svg("path", {
        class: "fork", d: `M${x(row.first)} ${y(row.parent_row)}V${y(row.row) - 6}q0 6 6 6H${x(row.last)}`,
      }),
      row.parent_row === null && svg("path", { class: "fork", d: `M${x(0)} ${y(row.row)}H${x(row.last)}` }),
      Array.from({ length: row.last - row.first }, (_, i) => {
        const step = row.first + i;
        const fallback = row.fallbacks.includes(step);
        return svg(fallback ? "rect" : "circle", fallback
          ? { class: "stop fallback", x: x(step + 1) - 4, y: y(row.row) - 4, width: 8, height: 8 }
          : { class: "stop", cx: x(step + 1), cy: y(row.row), r: 4 });
      }),
    ]));
    SpecGuard.put(root, h("div", { class: "tree-table" }, picture, h("ul", {}, view.rows.map((row) => h("li", {
      class: row.current ? "on" : "", style: { height: `${ROW}px` },
    }, h("button", {
      type: "button", class: "plain", data: { key: `branch ${row.name}` }, "aria-pressed": String(row.current),
      onclick: () => send("setup", { branch: row.name }),
    }, h("b", {}, row.name), h("span", { class: "quiet" }, row.reason), h("span", {}, row.end)),
    row.parent_row !== null && h("button", {
      type: "button", class: "plain quiet", title: `Delete the branch ${row.name}`, "aria-label": `Delete the branch ${row.name}`,
      data: { key: `drop ${row.name}` }, onclick: () => send("setup", { drop: row.name }),
    }, SpecGuard.icon("no")))))));
  });
})();

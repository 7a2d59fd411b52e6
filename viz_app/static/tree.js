// The branches: a line per branch, steps as stops on it; a click shows the branch.
(() => {
  const { h, svg, send } = SpecGuard;
  const ROW = 22;
  // The branch whose name is being written, and the name so far; both outlive a redraw.
  let writing = null;
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
    if (writing && !view.rows.some((row) => row.name === writing.name)) writing = null;
    SpecGuard.put(root, h("div", { class: "tree-table" }, picture, h("ul", {}, view.rows.map((row) => h("li", {
      class: row.current ? "on" : "", style: { height: `${ROW}px` },
    }, writing && writing.name === row.name ? nameBox(row) : h("button", {
      type: "button", class: "plain", data: { key: `branch ${row.name}` }, "aria-pressed": String(row.current),
      onclick: () => send("setup", { branch: row.name }),
    }, h("b", {}, row.name), h("span", { class: "quiet" }, row.reason), h("span", {}, row.end)),
    h("button", {
      type: "button", class: "plain quiet", title: "Rename (F2)", "aria-label": `Rename the branch ${row.name}`,
      data: { key: `rename ${row.name}` }, onclick: () => write(row.name),
    }, SpecGuard.icon("edit")),
    row.parent_row !== null && h("button", {
      type: "button", class: "plain quiet", title: `Delete the branch ${row.name}`, "aria-label": `Delete the branch ${row.name}`,
      data: { key: `drop ${row.name}` }, onclick: () => send("setup", { drop: row.name }),
    }, SpecGuard.icon("no")))))));
  });

  function write(name) {
    writing = { name, text: name };
    SpecGuard.openTable("tree");
    const box = document.querySelector(".sg-tables .tree-table input");
    if (box) box.select();
  }

  function nameBox(row) {
    const box = h("input", {
      type: "text", maxlength: 40, "aria-label": `New name of the branch ${row.name}`, spellcheck: "false", data: { key: "branch name" },
    });
    box.value = writing.text;
    const close = () => { writing = null; SpecGuard.openTable("tree"); };
    const save = () => {
      const to = box.value.trim();
      if (to && to !== row.name) send("setup", { rename: row.name, to });
      close();
    };
    box.addEventListener("input", () => { writing.text = box.value; });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); save(); }
      if (event.key === "Escape") { event.preventDefault(); close(); }
    });
    box.title = "Enter keeps it, Esc leaves it";
    return h("span", { class: "name-box" }, box);
  }

  // F2: a new name for the branch on the page.
  document.addEventListener("keydown", (event) => {
    const tree = SpecGuard.views.tables && SpecGuard.views.tables.tree;
    if (event.key !== "F2" || SpecGuard.typing(event) || !tree || !tree.rows) return;
    event.preventDefault();
    write(tree.rows.find((row) => row.current).name);
  });
})();

// The tables at the foot, one tab at a time; which one is a choice of the browser.
(() => {
  const { h, choice } = SpecGuard;
  const TABS = [["ledger", "Ledger"], ["tree", "Tree"], ["compare", "Compare"], ["log", "Log"]];
  const drawers = {};

  SpecGuard.table = (name, draw) => { drawers[name] = draw; };

  function draw(root, view) {
    const tab = choice.tab || "ledger";
    const count = { tree: view.tree.rows && view.tree.rows.length > 1 ? view.tree.rows.length : 0, log: view.log.rows.length };
    const body = h("div", { class: "body", role: "tabpanel", "aria-label": tab });
    SpecGuard.put(root, h("nav", { role: "tablist", "aria-label": "Tables" }, TABS.map(([key, name], order) => h("button", {
      type: "button", role: "tab", "aria-selected": String(key === tab), title: `${name} (${order + 1})`,
      data: { key: `tab ${key}` }, onclick: () => open(key),
    }, name, count[key] ? h("u", {}, ` ${count[key]}`) : ""))), body);
    if (view[tab].empty) SpecGuard.put(body, h("p", { class: "empty" }, view[tab].empty));
    else drawers[tab](body, view[tab]);
  }

  function open(key) {
    choice.tab = key;
    draw(SpecGuard.roots.tables, SpecGuard.views.tables);
  }

  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const tab = TABS[Number(event.key) - 1];
    if (tab && SpecGuard.views.tables) open(tab[0]);
  });

  SpecGuard.register("tables", { draw });
})();

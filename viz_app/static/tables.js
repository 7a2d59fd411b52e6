// The tables at the foot, one tab at a time; which one is a choice of the browser. A table that the
// server makes only while it is open is null until then.
(() => {
  const { h, choice } = SpecGuard;
  const TABS = [["ledger", "Ledger"], ["tree", "Tree"], ["compare", "Compare"], ["thresholds", "Thresholds"],
    ["log", "Log"], ["notes", "Notes"], ["raw", "Raw"]];
  const drawers = {};

  SpecGuard.table = (name, draw) => { drawers[name] = draw; };

  function scrolledBy(root) {
    const old = root.querySelector(`.body[aria-label="${choice.tab || "ledger"}"]`);
    return old ? old.scrollTop : 0;
  }

  function draw(root, view, scrolled = scrolledBy(root)) {
    const tab = choice.tab || "ledger";
    SpecGuard.frameCompare(tab === "compare");
    const count = { tree: view.tree.rows && view.tree.rows.length > 1 ? view.tree.rows.length : 0, notes: (view.notes.rows || []).length, log: view.log.rows.length };
    const body = h("div", { class: "body", role: "tabpanel", "aria-label": tab });
    SpecGuard.put(root, h("nav", { role: "tablist", "aria-label": "Tables" }, TABS.map(([key, name], order) => h("button", {
      type: "button", role: "tab", "aria-selected": String(key === tab), title: `${name} (${order + 1})`,
      data: { key: `tab ${key}` }, onclick: () => open(key),
    }, name, count[key] ? h("u", {}, ` ${count[key]}`) : ""))), body);
    if (view[tab] === null) { ask(tab, body); return; }
    if (view[tab].empty) SpecGuard.put(body, h("p", { class: "empty" }, view[tab].empty));
    else drawers[tab](body, view[tab]);
    if (scrolled && tab !== "log") SpecGuard.settle(() => () => { body.scrollTop = scrolled; });
  }

  function ask(tab, body) {
    if (SpecGuard.isReport) { SpecGuard.put(body, h("p", { class: "empty" }, "Not in a report: open its session in the debugger.")); return; }
    SpecGuard.put(body, h("p", { class: "empty" }, "A moment."));
    SpecGuard.send("look", { tab });
  }

  function open(key) {
    const closed = choice.tab;
    choice.tab = key;
    const { tables } = SpecGuard.views;
    // What is open no more is not made any more.
    if (key !== closed && tables[key] !== null && (closed === "raw" || closed === "thresholds") && !SpecGuard.isReport) {
      SpecGuard.send("look", { tab: key });
    }
    draw(SpecGuard.roots.tables, SpecGuard.views.tables);
  }
  SpecGuard.openTable = open;

  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const tab = TABS[Number(event.key) - 1];
    if (tab && SpecGuard.views.tables) open(tab[0]);
  });

  SpecGuard.register("tables", { draw, keep: scrolledBy });
})();

// The menu of strategies in the top bar: a sentence each, and why one cannot be chosen here.
(() => {
  const { h, icon, send } = SpecGuard;
  let known = {};

  SpecGuard.knowAbilities = (abilities) => { known = abilities; };

  SpecGuard.strategyMenu = (view) => {
    const menu = h("details", { class: "menu strategies" },
      h("summary", { class: "chip", title: "Strategy", data: { key: "strategy" } }, h("em", {}, "strategy"), h("b", {}, view.strategy)),
      h("div", { class: "sheet" }));
    // Filled when it opens: what the models can run is known only once they are loaded.
    menu.addEventListener("toggle", () => {
      if (menu.open) SpecGuard.put(menu.querySelector(".sheet"), view.strategies.map((row) => rowOf(view, { ...row, ...(view.at_home ? known[row.name] : {}) })), h("p", { class: "quiet" },
        "A strategy starts the problem afresh; the knobs follow it. To see two beside each other, use Compare."));
    });
    menu.addEventListener("keydown", (event) => { if (event.key === "Escape") menu.open = false; });
    return menu;
  };

  function rowOf(view, row) {
    return h("button", {
      type: "button", class: row.chosen ? "row on" : "row", disabled: view.running || Boolean(row.off),
      "aria-pressed": String(row.chosen), data: { key: `strategy ${row.name}` }, onclick: () => send("setup", row.set),
    }, h("b", {}, row.name), h("span", { class: "told" }, row.text,
      row.needs && h("em", { class: "quiet" }, ` needs ${row.needs}`),
      row.note && h("em", { class: "quiet" }, row.note),
      row.off && h("em", { class: "off" }, icon("no"), row.off)));
  }
})();

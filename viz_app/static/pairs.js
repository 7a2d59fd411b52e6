// The menu of pairs behind the models' names: those on offer and, where any may be named, two fields.
(() => {
  const { h, send } = SpecGuard;
  // What is typed outlives a redraw of the bar.
  const typed = { draft: "", target: "" };

  SpecGuard.pairMenu = (view, chip) => {
    const others = view.pairs.filter((pair) => !pair.chosen);
    if (!others.length && !view.free) return chip;
    const menu = h("details", { class: "menu pairs" },
      h("summary", { "aria-label": `Models: ${view.draft}, ${view.target}`, data: { key: "pair" } }, chip),
      h("div", { class: "sheet" },
        h("ul", {}, view.pairs.map((pair) => h("li", {}, row(view, pair)))),
        view.free && named(view),
        h("p", { class: "quiet" }, "Other models start the problem afresh, unless the run on the page is theirs; they load with the next step.")));
    menu.addEventListener("keydown", (event) => { if (event.key === "Escape") menu.open = false; });
    return menu;
  };

  function row(view, pair) {
    return h("button", {
      type: "button", class: pair.chosen ? "row on" : "row", disabled: view.running, "aria-pressed": String(pair.chosen),
      data: { key: `pair ${pair.name}` }, onclick: () => send("setup", { pair: pair.sources }),
    }, h("b", {}, pair.name), h("span", { class: "quiet" }, pair.text));
  }

  function named(view) {
    const field = (role) => {
      const input = h("input", {
        type: "text", "aria-label": `${role}: a folder or a hub id`, placeholder: `${role}: folder or hub id`, spellcheck: "false",
        disabled: view.running, data: { key: `pair ${role}` },
      });
      input.value = typed[role];
      input.addEventListener("input", () => { typed[role] = input.value; });
      input.addEventListener("keydown", (event) => { if (event.key === "Enter") load(); });
      return input;
    };
    const load = () => send("setup", { pair: [typed.draft, typed.target] });
    return h("div", { class: "row-line" }, field("draft"), field("target"),
      h("button", { type: "button", disabled: view.running, data: { key: "pair load" }, onclick: load }, "Use"));
  }
})();

// The log: each transition in a line; a click goes there.
(() => {
  const { h, send } = SpecGuard;

  SpecGuard.table("log", (root, view) => {
    const list = h("ol", { class: "log" }, view.rows.map((row) => h("li", { class: row.number === view.at ? "on" : "" },
      h("button", {
        type: "button", class: "plain", data: { key: `event ${row.number}` }, onclick: () => send("look", { cursor: row.number }),
      }, h("span", { class: "quiet" }, row.number), h("span", {}, `${view.unit} ${row.step}`), h("b", {}, row.phase),
      h("span", { class: "told" }, row.text)))));
    SpecGuard.put(root, view.rows.length ? list : h("p", { class: "empty" }, "What happened will stand here, a line per transition."));
    const on = list.querySelector(".on");
    if (on) SpecGuard.settle(() => {
      const at = on.offsetTop - 40;
      return () => { list.scrollTop = at; };
    });
  });
})();

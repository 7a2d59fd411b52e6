// The menu of what leaves the page: a report, token signals, a link. Files are kept by files.js.
(() => {
  const { h, icon, send } = SpecGuard;

  const ITEMS = [
    ["report", "Report", "one HTML file that opens offline and shows what the page shows"],
    ["csv", "Tokens, CSV", "the signals of every token, one row each"],
    ["parquet", "Tokens, Parquet", "the same as typed columns with their units"],
    ["evidence", "Evidence", "attention rows, so that rollout knobs turn again where it is loaded"],
  ];

  SpecGuard.shareMenu = (view) => {
    const menu = h("details", { class: "menu share" },
      h("summary", { class: "bare", title: "Export and share", "aria-label": "Export and share", data: { key: "share" } }, icon("share")),
      h("div", { class: "sheet" },
        ITEMS.map(([what, name, words]) => item(view, `export ${what}`, name, words, () => send("save", { what }))),
        item(view, "link", "Copy a link", "to this run as it stands, for whoever can reach this page", () => send("save", { what: "link" })),
        h("p", { class: "quiet said", role: "status" }, view.can.reset ? "" : "There is no run to export yet.")));
    menu.addEventListener("keydown", (event) => { if (event.key === "Escape") menu.open = false; });
    return menu;
  };

  function item(view, key, name, words, act) {
    return h("button", { type: "button", class: "row", disabled: !view.can.reset, data: { key }, onclick: act },
      h("b", {}, name), h("span", { class: "quiet" }, words));
  }

  // What came of it stands in the menu, where the person looks.
  SpecGuard.shared = async (view) => {
    const said = document.querySelector(".sg-top .share .said");
    if (view.trouble) { SpecGuard.notice(view.trouble); return; }
    if (!view.link || !said) return;
    const address = new URL(view.link, location.href);
    address.search = view.link;
    address.hash = "";
    said.textContent = "";
    const field = h("input", { readonly: true, value: address.href, "aria-label": "Link to this run", data: { key: "link text" } });
    let words = "Copied.";
    try { await navigator.clipboard.writeText(address.href); } catch { words = "Copy it from here:"; }
    SpecGuard.put(said, words, field, h("span", {}, view.lasts));
    field.select();
  };
})();

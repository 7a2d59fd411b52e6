// The trace as its file has it, unfolded node by node; the server sends only the rows in sight.
(() => {
  const { h, send, icon } = SpecGuard;

  SpecGuard.table("raw", (root, view) => {
    const copy = h("button", {
      type: "button", class: "copy", title: "Copy the whole trace as JSON", data: { key: "copy raw" },
    }, icon("copy"), h("span", {}, "Copy"));
    copy.addEventListener("click", () => { copy.lastChild.textContent = "Asked for"; send("save", { what: "trace" }); });
    SpecGuard.put(root, h("div", { class: "raw" }, copy, h("ul", { role: "tree", "aria-label": "The trace" }, view.rows.map(row)),
      view.left_out > 0 && h("p", { class: "quiet" }, `${view.left_out} more rows are open: fold something above.`)));
  });

  function row([depth, path, name, value, state]) {
    const parts = [h("b", {}, name), h("span", { class: "value" }, value)];
    const style = { "padding-left": `${12 * depth}px` };
    if (state === "leaf") return h("li", { role: "treeitem", "aria-level": depth + 1, class: "leaf", style }, parts);
    return h("li", { role: "treeitem", "aria-level": depth + 1, "aria-expanded": String(state === "open"), style }, h("button", {
      type: "button", class: "plain", data: { key: `raw ${path}` }, onclick: () => send("look", { raw: path }),
    }, h("i", { "aria-hidden": "true" }, state === "open" ? "\u25be" : "\u25b8"), parts));
  }

  // The answer to Copy: the text, which only now is here.
  SpecGuard.copied = async (text) => {
    let said = "Copied";
    try { await navigator.clipboard.writeText(text); } catch { said = "Not allowed"; }
    const word = document.querySelector(".sg-tables .raw .copy span");
    if (!word) return;
    word.textContent = said;
    setTimeout(() => { word.textContent = "Copy"; }, 1500);
  };
})();

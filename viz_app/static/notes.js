// Notes on steps: the one under the cursor to write, all of them to read; a click goes to the step.
(() => {
  const { h, send, icon, views } = SpecGuard;
  // What is being typed outlives a redraw; it leaves when it is saved or given up.
  const drafts = {};
  let wanted = false;

  SpecGuard.table("notes", (root, view) => {
    const held = root.ownerDocument.activeElement;
    const caret = held && held.dataset.key === "note text" ? [held.selectionStart, held.selectionEnd] : null;
    SpecGuard.put(root, h("div", { class: "notes" }, writer(view), list(view)));
    const box = root.querySelector("textarea");
    if (box && (caret || wanted)) {
      box.focus({ preventScroll: true });
      if (caret) box.setSelectionRange(...caret);
    }
    wanted = false;
  });

  function writer(view) {
    if (!view.can) {
      return h("p", { class: "empty" }, `Go to a kept ${view.unit} to write a note on it.`);
    }
    const place = `${view.branch} ${view.step}`;
    const busy = () => views.top && views.top.running;
    const box = h("textarea", {
      rows: 3, maxlength: view.most, "aria-label": `Note on ${view.unit} ${view.step + 1} of ${view.branch}`, spellcheck: "false",
      placeholder: "What to remember of it", data: { key: "note text" },
    });
    box.value = drafts[place] ?? view.text;
    const button = h("button", { type: "button", class: "main", data: { key: "note save" }, onclick: () => save() }, "Save note");
    const show = () => { button.disabled = busy() || box.value.trim() === view.text; };
    const save = () => {
      if (button.disabled) return;
      delete drafts[place];
      box.blur();
      send("setup", { note: box.value, step: view.step });
    };
    box.addEventListener("input", () => { drafts[place] = box.value; show(); });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); save(); }
      if (event.key === "Escape") { delete drafts[place]; box.value = view.text; show(); box.blur(); }
    });
    show();
    return h("div", { class: "writer" },
      h("div", { class: "line" }, h("b", {}, `${view.unit} ${view.step + 1}`), h("span", { class: "quiet" }, `of ${view.branch}`),
        h("span", { class: "space" }), h("span", { class: "quiet" }, "Ctrl+Enter saves"), button),
      box);
  }

  function list(view) {
    if (!view.rows.length) return h("p", { class: "empty" }, "No notes yet. They are saved with the session.");
    return h("ul", {}, view.rows.map((row) => h("li", { class: row.on ? "on" : "" },
      h("button", {
        type: "button", class: "plain", data: { key: `note ${row.branch} ${row.step}` }, title: row.about,
        onclick: () => (row.branch === view.branch ? send("look", { step: row.step }) : send("setup", { branch: row.branch, at: row.step })),
      }, h("b", {}, `${view.unit} ${row.step + 1}`), h("span", { class: "quiet" }, row.branch), h("span", { class: "told" }, row.text)),
      row.branch === view.branch && h("button", {
        type: "button", class: "plain quiet", title: "Delete this note", "aria-label": `Delete the note on ${view.unit} ${row.step + 1}`,
        data: { key: `unnote ${row.step}` }, onclick: () => send("setup", { note: "", step: row.step }),
      }, icon("no")))));
  }

  // N: to the note on the step under the cursor.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "n" && event.key !== "N") return;
    if (SpecGuard.typing(event) || !views.tables) return;
    event.preventDefault();
    wanted = true;
    SpecGuard.openTable("notes");
  });
})();

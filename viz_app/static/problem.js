// The problem line: the question, editable; gold and given answer, right or wrong in words.
(() => {
  const { h, icon, send } = SpecGuard;
  const LONG = 24;
  let editing = false;

  function draw(root, view) {
    if (editing && root.querySelector("textarea")) return;
    const open = () => edit(root, view);
    SpecGuard.put(root, h("span", { class: "quiet" }, "Problem"),
      h("button", {
        type: "button", class: "question", title: "Edit, or choose an example: a new run",
        data: { key: "question" }, onclick: open,
      }, h("span", {}, words(view.question || "Write a problem, or choose an example"))),
      h("span", { class: "space" }),
      answer(view));
  }

  // The pencil stays on the line of the last word.
  function words(text) {
    const last = text.lastIndexOf(" ") + 1;
    return h("span", {}, text.slice(0, last), h("span", { class: text.length - last < LONG ? "last" : null }, text.slice(last), icon("edit")));
  }

  function answer(view) {
    const parts = [];
    if (view.begun) parts.push(h("span", { class: "quiet" }, "no answer yet"));
    if (view.answered) {
      const how = [view.stale && "as run", view.hand && `with ${view.hand}`].filter(Boolean).join(", ");
      parts.push(h("span", { class: "quiet" }, "answer"), h("b", {}, view.answer), how && h("span", { class: "quiet" }, how));
    }
    if (view.gold !== null) parts.push(h("span", { class: "quiet" }, "gold"), h("b", {}, view.gold));
    if (view.right === true) parts.push(h("span", { class: "judged" }, icon("yes"), "right"));
    if (view.right === false) parts.push(h("span", { class: "judged wrong" }, icon("no"), "wrong"));
    if (view.fault) parts.push(h("button", {
      type: "button", class: "plain link fault", data: { key: "first wrong" }, title: `Look at it: ${view.fault.reason}`,
      onclick: () => send("look", { step: view.fault.step }),
    }, `first wrong step: ${view.fault.step + 1}`));
    if (view.answered && view.right === null) parts.push(h("span", { class: "quiet" }, "no gold answer"));
    return h("span", { class: "answer", role: "status" }, parts);
  }

  function edit(root, view) {
    editing = true;
    const box = h("textarea", {
      rows: 4, "aria-label": "Problem", spellcheck: "false", data: { key: "problem text" },
    });
    box.value = view.question;
    const close = () => { editing = false; draw(root, SpecGuard.views.problem); };
    const ask = () => {
      editing = false;
      if (box.value.trim() !== view.question.trim()) send("setup", { question: box.value });
      else close();
    };
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
      if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); ask(); }
    });
    const sheet = h("div", { class: "sheet editor" }, box,
      h("div", { class: "line" },
        h("span", { class: "quiet" }, "Enter asks, Shift+Enter breaks the line, Esc leaves it"),
        h("span", { class: "space" }),
        h("button", { type: "button", onclick: close }, "Cancel"),
        h("button", { type: "button", class: "main", onclick: ask }, "Ask")),
      SpecGuard.recordingList(() => { editing = false; }),
      view.examples.length > 0 && h("h3", {}, "Held-out examples"),
      h("ul", {}, view.examples.map((example) => h("li", {}, h("button", {
        type: "button", class: "row",
        onclick: () => { editing = false; send("setup", { example: example.id }); },
      }, h("span", {}, example.question), h("b", {}, example.gold))))));
    SpecGuard.put(root, h("span", { class: "quiet" }, "Problem"), sheet);
    box.focus();
    box.setSelectionRange(box.value.length, box.value.length);
    const outside = (event) => {
      if (!sheet.isConnected) document.removeEventListener("mousedown", outside);
      else if (!sheet.contains(event.target)) { document.removeEventListener("mousedown", outside); close(); }
    };
    setTimeout(() => document.addEventListener("mousedown", outside));
  }

  SpecGuard.register("problem", { draw });
})();

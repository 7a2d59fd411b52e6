// A step's text, rewritten by hand: a branch goes on from it. Stands over the evidence of the step.
(() => {
  const { h, icon, send, views } = SpecGuard;
  // The step whose text is being written; it outlives a redraw, and a text that was refused.
  let writing = null;

  const placeOf = (view) => `${view.edit.branch} ${view.step} ${view.name}`;
  const busy = () => !views.top || views.top.running || Boolean(views.top.locked);

  SpecGuard.editButton = (view) => view.edit && h("button", {
    type: "button", class: "edit", disabled: busy(), data: { key: "edit step" },
    title: (views.top && views.top.locked) || "Edit this step's text (E): a branch goes on from it", "aria-label": "Edit this step",
    onclick: () => open(view),
  }, icon("edit"), h("span", {}, "Edit"));

  SpecGuard.stepEditor = (view) => {
    if (!writing || !view.edit || writing.place !== placeOf(view)) { writing = null; return null; }
    return sheet(view);
  };

  function open(view) {
    if (busy() || !view.edit) return;
    close();
    writing = { place: placeOf(view), text: view.edit.text };
    const element = sheet(view);
    SpecGuard.roots.evidence.append(element);
    const box = element.querySelector("textarea");
    box.focus();
    box.setSelectionRange(box.value.length, box.value.length);
  }

  function close() {
    writing = null;
    const element = document.querySelector(".sg-evidence .step-editor");
    if (element) element.remove();
  }

  function sheet(view) {
    const box = h("textarea", { rows: 4, class: "mono", "aria-label": `Text of step ${view.step}`, spellcheck: "false", data: { key: "step text" } });
    box.value = writing.text;
    box.addEventListener("input", () => { writing.text = box.value; });
    const save = () => { if (!busy()) send("drive", { move: "edit", step: view.step - 1, text: box.value }); };
    const leave = () => {
      close();
      const button = document.querySelector('[data-key="edit step"]');
      if (button) button.focus({ preventScroll: true });
    };
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.stopPropagation(); leave(); }
      if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); save(); }
    });
    return h("div", { class: "sheet step-editor", role: "dialog", "aria-label": `Edit step ${view.step}` },
      h("h3", {}, `Step ${view.step} in your words`), box,
      h("div", { class: "line" },
        h("span", { class: "quiet" }, "Enter keeps it, Shift+Enter breaks the line, Esc leaves it"),
        h("span", { class: "space" }),
        h("button", { type: "button", data: { key: "edit cancel" }, onclick: leave }, "Cancel"),
        h("button", { type: "button", class: "main", data: { key: "edit keep" }, onclick: save }, "Keep on a branch")));
  }

  document.addEventListener("keydown", (event) => {
    if ((event.key !== "e" && event.key !== "E") || SpecGuard.typing(event)) return;
    const view = views.evidence;
    if (!view || !view.edit || busy()) return;
    event.preventDefault();
    open(view);
  });
})();

// The line at the foot: the keys that work, and the state of things.
(() => {
  const { h } = SpecGuard;
  const KEYS = [["\u2190 \u2192", "step"], ["\u21e7 \u2192", "phase"], ["Space", "run, stop"], ["Home", "first"], ["[ ]", "token"], ["F", "force"], ["R", "redraw"], ["B", "breakpoint"], ["1-7", "tables"]];

  function draw(root, view) {
    SpecGuard.put(root, KEYS.map(([key, name]) => h("span", { class: "key" }, h("kbd", {}, key), name)),
      h("button", { type: "button", class: "plain", data: { key: "help" }, onclick: help }, h("kbd", {}, "?"), "all keys"),
      h("span", { class: "space" }),
      view.facts.map((fact) => h("span", {}, fact)), h("span", { class: "models" }, view.models));
  }

  // The models' state comes by itself while they load; the rest of the line stays as it is.
  function drawModels(root, view) {
    const place = document.querySelector(".sg-status .models");
    if (place && view.models) place.textContent = view.models;
    if (view.abilities) SpecGuard.knowAbilities(view.abilities);
  }

  const ALL = [
    ["\u2192 \u2190", "one step on, one step back"], ["\u21e7 \u2192, \u21e7 \u2190", "one phase on, one phase back"],
    ["Home", "before the first step"], ["Space", "run to a breakpoint or the end; stop a run"], ["Esc", "stop a run; close what is open"],
    ["[ ]", "the token before, the token after"], ["R", "draw the step again, on a branch"],
    ["F", "decide the step otherwise, on a branch"], ["E", "edit the step\u2019s text, on a branch"],
    ["B", "pause a run after this step, or no more"], ["N", "write a note on this step"], ["F2", "a new name for the branch"],
    ["1 to 7", "ledger, tree, compare, thresholds, log, notes, raw"],
    ["C", "two runs side by side"],
    ["arrows on a slider", "turn it; with \u21e7 ten times as far"], ["double click on a slider", "as it was in the run"],
    ["double click on a card", "let that candidate stand for the step, on a branch"],
  ];

  function help() {
    let box = document.querySelector(".sg-help");
    if (!box) {
      box = h("dialog", { class: "sg sg-help", "aria-label": "Keys" });
      document.getElementById("sg-page").append(box);
      box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
    }
    SpecGuard.put(box, h("h2", {}, "Keys"), h("dl", {}, ALL.map(([key, name]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, name)])),
      h("form", { method: "dialog" }, h("button", { class: "main" }, "Close")));
    if (!box.open) box.showModal();
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "?" && !event.target.closest("input, textarea, select")) help();
  });

  SpecGuard.register("status", { draw });
  SpecGuard.register("models", { draw: drawModels });
})();

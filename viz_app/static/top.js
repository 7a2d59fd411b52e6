// The top bar: transport, phases, place, settings. Keys of the transport live here too.
(() => {
  const { h, icon, send, views } = SpecGuard;

  // Where the future is recorded, going on is looking; only at the head do models work. A
  // breakpoint holds among what is recorded too.
  function goOn(move) {
    const view = views.top;
    if (!view || view.running || !view.can.on) return;
    const far = move === "run" || move === "end";
    if (move === "run" && view.next_hit !== null) send("look", { cursor: view.next_hit });
    else send(view.ahead && (!far || view.finished || view.locked) ? "look" : "drive", { move });
  }
  SpecGuard.goOn = goOn;

  function look(move) {
    const view = views.top;
    if (view && view.can.back) send("look", { move });
  }

  function button(key, name, label, enabled, act, extra) {
    return h("button", {
      type: "button", "aria-label": label, title: (!enabled && views.top.locked) || label, disabled: !enabled,
      class: extra || null, data: { key }, onclick: act,
    }, icon(key), name);
  }

  function draw(root, view) {
    root.classList.toggle("running", view.running);
    SpecGuard.put(root, logo(),
      h("h1", {}, "SpecGuard", h("span", {}, " Debugger")),
      h("div", { class: "transport", role: "group", "aria-label": "Transport" },
        button("first", "", "First: before step 1 (Home)", view.can.back, () => look("first")),
        button("back", "", "Back one step (\u2190)", view.can.back, () => look("back")),
        button("step", "Step", "One reasoning step (\u2192)", view.can.on, () => goOn("step"), "main"),
        button("phase", "Phase", "One transition (shift \u2192)", view.can.on, () => goOn("phase")),
        button("run", "Run", "To the end (Space)", view.can.on, () => goOn("run")),
        SpecGuard.runTo(view),
        button("stop", "Stop", "Stop within one token (Esc)", view.can.stop, () => send("stop")),
        button("reset", "", "Reset: the same problem from the start", view.can.reset,
          () => send("setup", { reset: true }))),
      h("div", { class: "where" },
        h("div", { class: "phases", "aria-label": "Phase reached" },
          view.phases.map((phase) => h("span", { class: phase.state }, phase.name))),
        h("span", { class: "position quiet", role: "status", title: view.position }, view.position)),
      h("span", { class: "space" }),
      pairChip(view),
      SpecGuard.strategyMenu(view),
      presetMenu(view),
      seedChip(view),
      h("span", { class: "files" },
        bare("load", "Load a session or a trace (or drop a file)", !view.running, () => SpecGuard.choose()),
        bare("save", "Save the session: every branch, as one file", view.can.reset, () => send("save")),
        SpecGuard.shareMenu(view)),
      h("button", {
        type: "button", class: "bare", "aria-label": "Light or dark", title: "Light or dark",
        data: { key: "theme" }, onclick: toggleTheme,
      }, moon()),
      view.notice && h("p", { class: "notice", role: "alert" }, icon("no"), h("span", {}, view.notice), h("button", {
        type: "button", class: "plain", "aria-label": "Dismiss", data: { key: "dismiss" }, onclick: (event) => dismiss(event.currentTarget.parentElement),
      }, icon("no"))));
  }

  function pairChip(view) {
    const model = (role, name) => h("span", { class: "model" }, h("em", {}, role), h("b", {}, name));
    const chip = h("span", { class: "chip pair", title: `draft: ${view.sources[0]}\ntarget: ${view.sources[1]}` },
      model("draft", view.draft), h("i", { class: "to", "aria-hidden": "true" }, "\u2192"), model("target", view.target));
    return SpecGuard.pairMenu(view, chip);
  }

  function bare(key, label, enabled, act) {
    return h("button", {
      type: "button", class: "bare", "aria-label": label, title: label, disabled: !enabled, data: { key }, onclick: act,
    }, icon(key));
  }

  SpecGuard.notice = (text) => {
    SpecGuard.altered("top");
    draw(SpecGuard.roots.top, { ...views.top, notice: text });
  };

  function dismiss(notice) {
    SpecGuard.altered("top");
    notice.remove();
  }

  function presetMenu(view) {
    const changed = view.changes.length > 0;
    const menu = h("details", { class: "menu" },
      h("summary", { class: "chip", title: "Preset", data: { key: "preset" } },
        changed && h("i", { class: "dot", title: `differs: ${view.changes.join(", ")}` }),
        h("em", {}, "preset"), h("b", {}, view.preset)),
      h("div", { class: "sheet" },
        view.presets.map((preset) => h("button", {
          type: "button", class: preset.chosen && !changed ? "row on" : "row",
          disabled: view.running, data: { key: `preset ${preset.name}` },
          onclick: () => send("setup", { preset: preset.name }),
        }, h("b", {}, preset.name), h("span", { class: "quiet" }, preset.text))),
        changed && h("p", { class: "quiet" }, `Differs from ${view.preset}: ${view.changes.join(", ")}.`),
        h("p", { class: "quiet" }, "A preset starts the problem afresh.")));
    closing(menu);
    return menu;
  }

  function seedChip(view) {
    const input = h("input", {
      type: "number", min: 0, max: 2147483647, step: 1, value: view.seed,
      "aria-label": "Seed of the run", disabled: view.running, data: { key: "seed" },
    });
    input.addEventListener("change", () => {
      const seed = Number(input.value);
      if (Number.isInteger(seed) && input.value !== "") send("setup", { seed });
    });
    return h("label", { class: "chip", title: "A seed starts the problem afresh" }, h("em", {}, "seed"), input);
  }

  function closing(menu) {
    menu.addEventListener("keydown", (event) => {
      if (event.key === "Escape") menu.open = false;
    });
  }

  // One listener for all menus there will ever be: the bar is drawn anew at every step.
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(".sg-top details.menu[open]")) {
      if (!menu.contains(event.target) && event.target.isConnected) menu.open = false;
    }
  });

  function toggleTheme() {
    const dark = document.body.classList.toggle("dark");
    try { localStorage.setItem("specguard theme", dark ? "dark" : "light"); } catch { /* private mode */ }
  }

  function startTheme() {
    let kept = null;
    try { kept = localStorage.getItem("specguard theme"); } catch { /* private mode */ }
    const asked = new URLSearchParams(location.search).get("__theme");
    const wanted = asked || kept;
    if (wanted) document.body.classList.toggle("dark", wanted === "dark");
  }

  function logo() {
    const { svg } = SpecGuard;
    return svg("svg", { class: "logo", viewBox: "0 0 18 18", "aria-hidden": "true" },
      svg("path", { fill: "var(--ink)", d: "M1.500 10h2.500v6H1.500zM5 6.500h2.500V16H5z" }),
      svg("path", { fill: "var(--target)", d: "M8.500 2H11v14H8.500z" }),
      svg("path", { fill: "var(--ink)", d: "M12 8h2.500v8H12zM15.500 11H18v5h-2.500z" }));
  }

  function moon() {
    const { svg } = SpecGuard;
    return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" },
      svg("circle", { cx: 8, cy: 8, r: 5.5 }),
      svg("path", { d: "M8 2.500v11a5.500 5.500 0 0 0 0-11z", fill: "currentColor" }));
  }

  const typing = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

  document.addEventListener("keydown", (event) => {
    if (typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const onButton = event.target.closest("button, summary, [role=slider]") !== null;
    const view = views.top;
    if (event.key === "ArrowRight" && !onSlider(event)) goOn(event.shiftKey ? "phase" : "step");
    else if (event.key === "ArrowLeft" && !onSlider(event)) look(event.shiftKey ? "back phase" : "back");
    else if (event.key === "Home") look("first");
    else if (event.key === " " && !onButton && view) view.running ? send("stop") : goOn("run");
    else if (event.key === "Escape" && view && view.running) send("stop");
    else return;
    event.preventDefault();
  });

  function onSlider(event) {
    return event.target.closest("[role=slider], [role=radiogroup]") !== null;
  }

  SpecGuard.register("top", {
    draw: (root, view) => {
      draw(root, view);
      // The bus is ready once every panel is mounted.
      setTimeout(() => SpecGuard.afterTop && SpecGuard.afterTop(view));
    },
  });
  startTheme();
})();

// Evidence: one column per token through chips, curves and heatmap; the context is painted by
// where the chosen token's mass enters. Choosing a token or a colouring stays in the browser.
(() => {
  const { h, head, empty, segments, token, ramp, choice, pick, views } = SpecGuard;
  const MODES = { confidence: "signal", grounding: "signal", entropy: "signal", target: "split" };
  const BESIDE = 8;
  let parts = null;

  function draw(root, view) {
    if (view.empty) { parts = null; empty(root, "Evidence", view.empty); return; }
    if (!view.unpacked) {
      view.unpacked = true;
      view.shares = view.shares.map((column) => column && column.map((share) => share / 10_000));
    }
    const identity = `${view.step} ${view.name} ${view.tokens.map((t) => t.id).join()}`;
    // Once a step is judged another token may be its weakest: who has not chosen one goes along.
    const unmoved = choice.token === Number(root.dataset.opened) && choice.token !== view.selected;
    if (root.dataset.identity !== identity || choice.token === null || unmoved) {
      root.dataset.identity = identity;
      choice.token = view.selected;
      choice.lit = null;
    }
    root.dataset.opened = view.selected;
    choice.token = Math.min(choice.token, view.tokens.length - 1);
    // Until a person chooses, tokens are coloured by the reading that is weakest.
    if (!choice.coloured) choice.mode = view.mode;
    const mode = view.modes.find((known) => known.key === choice.mode) || {};
    if (mode.off || mode.ask) choice.mode = "confidence";
    parts = build(root, view);
    SpecGuard.put(root, parts.head, parts.apart, parts.sources, parts.strip, SpecGuard.stepEditor(view));
    apartOf(view);
    showToken(view, true);
  }

  // What depends on how wide and high things became. A long step scrolls: how much of it is in view
  // is said, not left to be noticed. `opening`: the strip goes to the chosen token.
  function place(view, opening) {
    if (!parts) return null;
    const { strip, board, chips, popover } = parts;
    const n = view.tokens.length;
    const gutter = gutterOf(board);
    const whole = board.offsetWidth;
    const room = strip.clientWidth;
    const width = (whole - gutter) / n;
    const seen = Math.floor((room - gutter) / Math.max(width, 1e-6));
    const before = strip.scrollLeft;
    const middle = choice.token * width - (room - gutter) / 2;
    const left = opening && whole > room ? Math.min(Math.max(middle, 0), whole - room) : before;
    const pop = popover.getBoundingClientRect();
    const chip = chips.querySelector(".chip-token.on");
    const box = chip && chip.getBoundingClientRect();
    const x = box && box.left + box.width / 2 - (left - before) - pop.left;
    const context = parts.settleContext();
    const heat = parts.heat.settle();
    return () => {
      if (left !== before) strip.scrollLeft = left;
      across(parts.heat, n, left, room, whole, gutter);
      chips.querySelector(".under-counts").textContent = seen < n ? `${seen} in view` : "";
      popover.classList.toggle("pointing", box !== null && pop.width > 0 && x > 12 && x < pop.width - 12);
      if (box) popover.style.setProperty("--arrow", `${x}px`);
      context();
      heat();
    };
  }

  // The heatmap fills the columns in view, and some more at either side.
  function across(heat, n, left, room, whole, gutter) {
    const width = Math.max((whole - gutter) / n, 1);
    heat.across(Math.floor(left / width) - BESIDE, Math.ceil((left + room - gutter) / width) + BESIDE);
  }

  function build(root, view) {
    const n = view.tokens.length;
    const columns = { "--n": n };
    const chips = h("div", { class: "chips columns" });
    const band = h("div", { class: "band", "aria-hidden": "true" });
    const hover = h("div", { class: "band hover", "aria-hidden": "true" });
    const heat = SpecGuard.heatmap(view, (index, lit) => select(view, index, lit));
    const board = h("div", { class: "board", style: columns }, band, hover, chips,
      SpecGuard.curves(view), heat.element);
    const strip = h("div", { class: "strip" }, board);
    // The heatmap's rows scroll by themselves, so their labels cannot stick to the strip's edge.
    strip.addEventListener("scroll", () => {
      board.style.setProperty("--scrolled", `${strip.scrollLeft}px`);
      across(heat, n, strip.scrollLeft, strip.clientWidth, board.offsetWidth, gutterOf(board));
    });
    watchColumns(board, hover, view);
    const built = {
      band, chips, heat, strip, board,
      head: null,
      apart: h("p", { class: "apart" }),
      context: h("div", { class: "context" }),
      popover: h("aside", { class: "popover", "aria-label": "Selected token" }),
    };
    built.sources = h("div", { class: "sources" }, built.context, built.popover);
    built.head = headOf(view, root);
    return built;
  }

  function headOf(view, root) {
    const mode = view.modes.find((m) => m.key === choice.mode);
    return head("Evidence", `step ${view.step}, ${view.name}`, SpecGuard.editButton(view), SpecGuard.picture("curves"),
      h("span", { class: "quiet legend", title: mode.range }, ramp(MODES[mode.key], mode.ends)),
      segments("colour tokens by", view.modes, choice.mode, (key) => {
        choice.coloured = true;
        if (view.modes.find((known) => known.key === key).ask) { measure(view); return; }
        pick({ mode: key });
        const before = parts.head;
        parts.head = headOf(view, root);
        before.replaceWith(parts.head);
        chipsOf(view);
        showPopover(view);
        apartOf(view);
        SpecGuard.settle(() => place(view, false));
      }));
  }

  // The target looks at the step once; the answer comes with the next view of this panel.
  function measure(view) {
    if (views.top && views.top.running) return;
    choice.mode = "target";
    SpecGuard.send("drive", { move: "target view", step: view.step - 1, candidate: view.candidate });
  }

  // Where draft and target are apart, in words; each token named is a way to it.
  function apartOf(view) {
    const { disagreement } = view;
    parts.apart.hidden = choice.mode !== "target" || !disagreement;
    if (parts.apart.hidden) return;
    const named = (item) => h("button", {
      type: "button", class: "plain", data: { key: `apart ${item.token}` }, title: "show this token", onclick: () => select(view, item.token),
    }, h("span", { class: `tag mono split-${item.level}` }, token(item.text)), item.value);
    SpecGuard.put(parts.apart, disagreement.least && ["Target\u2019s least ", named(disagreement.least)],
      disagreement.most.length > 0 ? ["differs most at ", disagreement.most.map(named), "nat, draft minus target"]
        : "draft and target agree on every token");
  }

  function chipsOf(view) {
    SpecGuard.put(parts.chips, h("b", { class: "counts", title: view.counts.title }, "tokens", h("em", {}, view.counts.text)),
      view.chips.map((chip) => chipOf(view, chip)),
      h("b", { class: "under-counts" }),
      view.tokens.map((item, index) => {
        const value = item.modes[choice.mode];
        return h("u", {
          class: `${index === choice.token ? "on" : ""} ${item.counted ? "" : "left-out"}`,
        }, value ? value[1] : "\u2013");
      }));
  }

  function chipOf(view, chip) {
    const members = view.tokens.slice(chip.start, chip.stop);
    const levels = members.map((item) => item.modes[choice.mode]).filter(Boolean).map((value) => value[0]);
    const boundary = members.every((item) => item.boundary);
    const counted = members.some((item) => item.counted);
    const on = choice.token >= chip.start && choice.token < chip.stop;
    const ramped = levels.length && !boundary ? `${MODES[choice.mode]}-${extreme(levels)}` : "";
    const kind = boundary ? "boundary" : counted ? ramped : "left-out";
    const left = members[0].left_out;
    const over = view.taken_over >= chip.start && view.taken_over < chip.stop && view.taken_over !== null;
    const turn = over ? "the target took over here" : "";
    return h("button", {
      type: "button", style: { "grid-column": `span ${chip.stop - chip.start}`, "--tone": ramped && !counted ? `var(--${ramped})` : "" },
      class: `chip-token mono ${kind} ${on ? "on" : ""} ${over ? "taken-over" : ""} ${[...chip.text].length > 5 ? "long" : ""}`,
      "aria-pressed": String(on), data: { key: `token ${chip.start}` },
      title: chip.text + (left ? `\n${left}` : "") + (turn ? `\n${turn}` : "") + (levels.length ? "" : "\nnot measured"),
      "aria-label": `token ${chip.start + 1}: ${chip.text}${left ? `, ${left}` : ""}${turn ? `, ${turn}` : ""}`,
      onclick: () => select(view, chip.start),
    }, token(chip.text));
  }

  // Of several levels the one farthest from the ramp's quiet end, or from its middle.
  function extreme(levels) {
    const middle = MODES[choice.mode] === "split" ? 4 : 0;
    return levels.reduce((best, level) => (Math.abs(level - middle) > Math.abs(best - middle) ? level : best));
  }

  function select(view, index, lit) {
    const bounded = Math.min(Math.max(index, 0), view.tokens.length - 1);
    choice.lit = lit || null;
    pick({ token: bounded });
  }

  function showToken(view, opening) {
    const index = choice.token;
    parts.band.style.setProperty("--column", index);
    const held = parts.chips.contains(document.activeElement);
    chipsOf(view);
    if (held) focusChip();
    const context = SpecGuard.context(view, index);
    SpecGuard.put(parts.context, context.parts);
    parts.settleContext = context.settle;
    showPopover(view);
    parts.heat.show(index);
    SpecGuard.settle(() => place(view, opening));
  }

  function focusChip() {
    const on = parts.chips.querySelector(".chip-token.on");
    if (on) on.focus({ preventScroll: true });
  }

  function showPopover(view) {
    const item = view.tokens[choice.token];
    const mode = item.modes[choice.mode];
    const tint = mode && item.counted ? `${MODES[choice.mode]}-${mode[0]}` : "boundary";
    const known = item.alternatives;
    SpecGuard.put(parts.popover, h("header", {}, h("span", { class: `tag mono ${tint}` }, token(item.text)),
        h("b", {}, item.logprob), h("span", { class: "quiet" }, `entropy ${item.entropy}`),
        h("span", { class: "space" }), h("span", { class: "quiet bytes" }, `bytes ${item.bytes}`)),
      known ? table(known) : h("p", { class: "quiet" }, "Alternatives were not recorded here."),
      (item.left_out || item.target) && h("p", { class: "aside" }, item.target && ["target ", h("b", {}, item.target)],
        item.left_out && h("span", { class: "quiet" }, item.left_out)));
    parts.popover.style.setProperty("--at", (choice.token + 0.5) / view.tokens.length);
  }

  function table(known) {
    return h("table", {},
      h("thead", {}, h("tr", {}, ["token", "alternatives", "id", "p", "sampled"].map((name) => h("th", { scope: "col", class: name }, name)))),
      h("tbody", {}, known.rows.map(([text, id, width, p, sampled, drawn]) => h("tr", { class: drawn ? "drawn" : "" },
        h("td", { class: "mono", title: text }, token(text)),
        h("td", { class: "bar" }, h("s", { style: { width: `${width}%` } })),
        h("td", { class: "quiet id" }, id), h("td", { class: "p" }, p), h("td", { class: "sampled" }, sampled))),
      h("tr", { class: "quiet" }, h("td", { colspan: 2 }, "all others"), h("td", { class: "id" }),
        known.others.map((value) => h("td", {}, value)))));
  }

  function watchColumns(board, hover, view) {
    board.addEventListener("pointermove", (event) => {
      const cell = columnAt(board, event.clientX, view.tokens.length);
      hover.classList.toggle("shown", cell !== null);
      if (cell !== null) hover.style.setProperty("--column", cell);
    });
    board.addEventListener("pointerleave", () => hover.classList.remove("shown"));
    board.addEventListener("click", (event) => {
      if (!event.target.closest(".curve")) return;
      const cell = columnAt(board, event.clientX, view.tokens.length);
      if (cell !== null) select(view, cell);
    });
  }

  function gutterOf(board) {
    return parseFloat(getComputedStyle(board).getPropertyValue("--gutter")) || 104;
  }

  function columnAt(board, clientX, n) {
    const box = board.getBoundingClientRect();
    const gutter = gutterOf(board);
    const at = ((clientX - box.left - gutter) / (box.width - gutter)) * n;
    return at >= 0 && at < n ? Math.floor(at) : null;
  }

  SpecGuard.onPick((changes) => {
    if (parts && "token" in changes && views.evidence && !views.evidence.empty) showToken(views.evidence);
  });

  document.addEventListener("keydown", (event) => {
    const view = views.evidence;
    if (!view || view.empty || event.target.closest("input, textarea, select")) return;
    if (event.key === "[") select(view, choice.token - 1);
    else if (event.key === "]") select(view, choice.token + 1);
  });

  SpecGuard.register("evidence", { draw });
})();

// Evidence: one column per token through chips, curves and heatmap; the context is painted by
// where the chosen token's mass enters. Choosing a token or a colouring stays in the browser.
(() => {
  const { h, head, empty, segments, token, ramp, choice, pick, views } = SpecGuard;
  const MODES = { confidence: "signal", grounding: "signal", entropy: "signal", target: "split" };
  const shareLevel = (view, share) => Math.min(Math.max(Math.round((9 * share) / view.most), 0), 9);
  const shareText = (share) => share.toFixed(3);
  let parts = null;

  function draw(root, view) {
    if (view.empty) { parts = null; empty(root, "Evidence", view.empty); return; }
    if (!view.unpacked) {
      view.unpacked = true;
      view.shares = view.shares.map((column) => column && column.map((share) => share / 10_000));
    }
    const identity = `${view.step} ${view.name} ${view.tokens.map((t) => t.id).join()}`;
    if (root.dataset.identity !== identity || choice.token === null) {
      root.dataset.identity = identity;
      choice.token = view.selected;
      choice.lit = null;
    }
    choice.token = Math.min(choice.token, view.tokens.length - 1);
    const mode = view.modes.find((known) => known.key === choice.mode) || {};
    if (mode.off || mode.ask) choice.mode = "confidence";
    parts = build(root, view);
    SpecGuard.put(root, parts.head, parts.apart, parts.sources, parts.strip, SpecGuard.stepEditor(view));
    apartOf(view);
    showToken(view);
    openAt(parts.strip, choice.token, view.tokens.length);
    countHidden(view);
  }

  // A long step scrolls: how much of it is in view is said, not left to be noticed.
  function countHidden(view) {
    const { strip, board } = parts;
    const n = view.tokens.length;
    const gutter = gutterOf(board);
    const seen = Math.floor(((strip.clientWidth - gutter) * n) / Math.max(board.offsetWidth - gutter, 1));
    const note = parts.chips.querySelector(".under-counts");
    note.textContent = seen < n ? `${seen} in view` : "";
    parts.heat.count();
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
    strip.addEventListener("scroll", () => board.style.setProperty("--scrolled", `${strip.scrollLeft}px`));
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
        if (view.modes.find((known) => known.key === key).ask) { measure(view); return; }
        pick({ mode: key });
        const before = parts.head;
        parts.head = headOf(view, root);
        before.replaceWith(parts.head);
        countHidden(view);
        chipsOf(view);
        showPopover(view);
        apartOf(view);
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
    return h("button", {
      type: "button", style: { "grid-column": `span ${chip.stop - chip.start}`, "--tone": ramped && !counted ? `var(--${ramped})` : "" },
      class: `chip-token mono ${kind} ${on ? "on" : ""} ${[...chip.text].length > 5 ? "long" : ""}`,
      "aria-pressed": String(on), data: { key: `token ${chip.start}` },
      title: chip.text + (left ? `\n${left}` : "") + (levels.length ? "" : "\nnot measured"),
      "aria-label": `token ${chip.start + 1}: ${chip.text}${left ? `, ${left}` : ""}`,
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

  function showToken(view) {
    const index = choice.token;
    parts.band.style.setProperty("--column", index);
    const held = parts.chips.contains(document.activeElement);
    chipsOf(view);
    if (held) focusChip();
    if (parts.strip.isConnected) countHidden(view);
    showContext(view, index);
    showPopover(view);
    parts.heat.show(index);
  }

  function focusChip() {
    const on = parts.chips.querySelector(".chip-token.on");
    if (on) on.focus({ preventScroll: true });
  }

  // Where the token's mass enters: painted per context token where that was recorded.
  function showContext(view, index) {
    const shares = view.shares[index];
    const item = view.tokens[index];
    const cells = SpecGuard.contextCells(view, index);
    const rows = view.rows.slice(1);
    const largest = shares ? Math.max(...shares.slice(1)) : 0;
    const chips = SpecGuard.contextChips(view);
    const top = cells ? Math.max(...chips.map((chip) => massOf(cells, chip)), 0) : 0;
    const lit = choice.lit || {};
    SpecGuard.put(parts.context, caption(view, item, shares),
      h("div", { class: "rows" }, rows.map((row, place) => {
        const share = shares ? shares[place + 1] : null;
        const most = share !== null && share === largest && largest > 0;
        return h("div", { class: `row ${most ? "most" : ""} ${lit.row === place + 1 ? "lit" : ""}` },
          h("b", {}, row.where),
          h("p", { class: "mono" }, chips.filter((chip) => chip[3] === place + 1).map((chip, first) => {
            const level = cells && top > 0 ? Math.round((9 * massOf(cells, chip)) / top)
              : !cells && share ? shareLevel(view, share) : 0;
            const words = chip[2].trimStart();
            const gap = first ? chip[2].slice(0, chip[2].length - words.length) : "";
            const here = lit.position >= chip[0] && lit.position < chip[1];
            return [gap, words && h("span", { class: `${level > 0 ? `mass-${level}` : ""} ${here ? "lit" : ""}` }, mark(words))];
          })),
          h("u", {}, share === null ? "" : shareText(share)));
      })));
    const most = parts.context.querySelector("span.lit, .row.lit") || parts.context.querySelector(".row.most");
    if (most) {
      const box = parts.context.querySelector(".rows");
      if (most.offsetTop < box.scrollTop || most.offsetTop + most.offsetHeight > box.scrollTop + box.clientHeight) {
        box.scrollTop = most.offsetTop - box.clientHeight / 2;
      }
    }
  }

  const mark = (text) => [...text].map((c) => (c === "\u21b5" ? h("i", {}, c) : c));

  function massOf(cells, span) {
    let most = 0;
    for (let i = span[0]; i < span[1]; i += 1) most = Math.max(most, cells[i] || 0);
    return most;
  }

  function caption(view, item, shares) {
    if (!shares) {
      return h("p", { class: "caption" }, h("span", { class: "mono" }, token(item.text)),
        item.boundary ? " ends the step: it was never a query, so no mass was measured" : " has no measured mass");
    }
    return h("p", { class: "caption" }, h("span", { class: "mono" }, token(item.text)), " draws ",
      h("b", {}, item.grounding), ` from here (${item.template} template), ${item.own} from its own step`);
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
    const at = (choice.token + 0.5) / view.tokens.length;
    parts.popover.style.setProperty("--at", at);
    placeArrow();
  }

  function placeArrow() {
    const pop = parts.popover.getBoundingClientRect();
    const chip = parts.chips.querySelector(".chip-token.on");
    if (!chip || !pop.width) return;
    const box = chip.getBoundingClientRect();
    const x = box.left + box.width / 2 - pop.left;
    parts.popover.classList.toggle("pointing", x > 12 && x < pop.width - 12);
    parts.popover.style.setProperty("--arrow", `${x}px`);
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

  function openAt(strip, index, n) {
    const board = strip.firstChild;
    if (board.offsetWidth <= strip.clientWidth) return;
    const gutter = gutterOf(board);
    const width = (board.offsetWidth - gutter) / n;
    strip.scrollLeft = index * width - (strip.clientWidth - gutter) / 2;
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

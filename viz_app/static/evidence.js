// Evidence: one column per token through chips, curves and heatmap; the context is painted by
// where the chosen token's mass enters. Choosing a token or a colouring stays in the browser.
(() => {
  const { h, head, empty, segments, token, ramp, choice, pick, views } = SpecGuard;
  const MODES = { confidence: "signal", grounding: "signal", entropy: "signal", target: "signal" };
  const shareLevel = (view, share) => Math.min(Math.max(Math.round((9 * share) / view.most), 0), 9);
  const shareText = (share) => share.toFixed(3);
  let parts = null;

  function draw(root, view) {
    if (view.empty) { parts = null; empty(root, "Evidence", view.empty); return; }
    const identity = `${view.step} ${view.name} ${view.tokens.map((t) => t.id).join()}`;
    if (root.dataset.identity !== identity || choice.token === null) {
      root.dataset.identity = identity;
      choice.token = view.selected;
      choice.row = null;
    }
    choice.token = Math.min(choice.token, view.tokens.length - 1);
    if ((view.modes.find((mode) => mode.key === choice.mode) || {}).off) choice.mode = "confidence";
    parts = build(root, view);
    SpecGuard.put(root, parts.head, parts.sources, parts.strip);
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
    const note = parts.head.querySelector(".note");
    if (seen < n) note.textContent += `, ${seen} of ${n} tokens in view`;
    const rows = board.querySelector(".heat-rows");
    const count = board.querySelector(".heat header .count");
    if (rows && count) {
      const shown = Math.round((rows.clientHeight / rows.scrollHeight) * view.rows.length);
      count.textContent = shown < view.rows.length ? `${shown} of ${view.rows.length} rows in view` : "a column adds up to its grounding";
    }
  }

  function build(root, view) {
    const n = view.tokens.length;
    const columns = { "--n": n };
    const chips = h("div", { class: "chips columns" });
    const band = h("div", { class: "band", "aria-hidden": "true" });
    const hover = h("div", { class: "band hover", "aria-hidden": "true" });
    const heat = heatmap(view);
    const board = h("div", { class: "board", style: columns }, band, hover, chips,
      SpecGuard.curves(view), heat.element);
    const strip = h("div", { class: "strip" }, board);
    // The heatmap's rows scroll by themselves, so their labels cannot stick to the strip's edge.
    strip.addEventListener("scroll", () => board.style.setProperty("--scrolled", `${strip.scrollLeft}px`));
    watchColumns(board, hover, view);
    const built = {
      band, chips, heat, strip, board,
      head: null,
      context: h("div", { class: "context" }),
      popover: h("aside", { class: "popover", "aria-label": "Selected token" }),
    };
    built.sources = h("div", { class: "sources" }, built.context, built.popover);
    built.head = headOf(view, root);
    return built;
  }

  function headOf(view, root) {
    const mode = view.modes.find((m) => m.key === choice.mode);
    return head("Evidence", `step ${view.step}, ${view.name}`,
      h("span", { class: "quiet legend", title: mode.range }, ramp("signal", mode.ends)),
      segments("colour tokens by", view.modes, choice.mode, (key) => {
        pick({ mode: key });
        const before = parts.head;
        parts.head = headOf(view, root);
        before.replaceWith(parts.head);
        countHidden(view);
        chipsOf(view);
        showPopover(view);
      }));
  }

  function chipsOf(view) {
    SpecGuard.put(parts.chips, h("b", {}),
      view.chips.map((chip) => chipOf(view, chip)),
      h("b", {}),
      view.tokens.map((item, index) => {
        const value = item.modes[choice.mode];
        return h("u", {
          class: `${index === choice.token ? "on" : ""} ${item.boundary ? "boundary" : ""}`,
        }, value ? value[1] : "\u2013");
      }));
  }

  function chipOf(view, chip) {
    const members = view.tokens.slice(chip.start, chip.stop);
    const levels = members.map((item) => item.modes[choice.mode]).filter(Boolean).map((value) => value[0]);
    const boundary = members.every((item) => item.boundary);
    const on = choice.token >= chip.start && choice.token < chip.stop;
    const level = levels.length && !boundary ? `${MODES[choice.mode]}-${Math.max(...levels)}` : "";
    return h("button", {
      type: "button", style: { "grid-column": `span ${chip.stop - chip.start}` },
      class: `chip-token mono ${level} ${on ? "on" : ""} ${boundary ? "boundary" : ""} ${[...chip.text].length > 5 ? "long" : ""}`,
      "aria-pressed": String(on), data: { key: `token ${chip.start}` },
      title: chip.text + (boundary ? "\nends the step; counts in no minimum" : levels.length ? "" : "\nnot measured"),
      "aria-label": `token ${chip.start + 1}: ${chip.text}`,
      onclick: () => select(view, chip.start),
    }, token(chip.text));
  }

  function select(view, index, row) {
    const bounded = Math.min(Math.max(index, 0), view.tokens.length - 1);
    choice.row = row ?? null;
    pick({ token: bounded });
  }

  function showToken(view) {
    const index = choice.token;
    parts.band.style.setProperty("--column", index);
    const held = parts.chips.contains(document.activeElement);
    chipsOf(view);
    if (held) focusChip();
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
    const cells = paintOf(view, index);
    const rows = view.rows.slice(1);
    const largest = shares ? Math.max(...shares.slice(1)) : 0;
    const top = cells ? Math.max(...rows.flatMap((row) => row.spans.map((span) => massOf(cells, span))), 0) : 0;
    SpecGuard.put(parts.context, caption(view, item, shares),
      h("div", { class: "rows" }, rows.map((row, place) => {
        const share = shares ? shares[place + 1] : null;
        const most = share !== null && share === largest && largest > 0;
        return h("div", { class: `row ${most ? "most" : ""} ${choice.row === place + 1 ? "lit" : ""}` },
          h("b", {}, row.where),
          h("p", { class: "mono" }, row.spans.map((span, first) => {
            const level = cells && top > 0 ? Math.round((9 * massOf(cells, span)) / top)
              : !cells && share ? shareLevel(view, share) : 0;
            const words = span[2].trimStart();
            const gap = first ? span[2].slice(0, span[2].length - words.length) : "";
            return [gap, words && h("span", { class: level > 0 ? `mass-${level}` : "" }, mark(words))];
          })),
          h("u", {}, share === null ? "" : shareText(share)));
      })));
    const most = parts.context.querySelector(".row.lit") || parts.context.querySelector(".row.most");
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

  function paintOf(view, index) {
    const paint = view.paint;
    if (!paint || index >= paint.scales.length) return null;
    if (!paint.bytes) paint.bytes = Uint8Array.from(atob(paint.cells), (c) => c.charCodeAt(0));
    return paint.bytes.subarray(index * paint.n_context, (index + 1) * paint.n_context);
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
    const tint = mode && !item.boundary ? `signal-${mode[0]}` : "boundary";
    const known = item.alternatives;
    SpecGuard.put(parts.popover, h("header", {}, h("span", { class: `tag mono ${tint}` }, token(item.text)),
        h("b", {}, item.logprob), h("span", { class: "quiet" }, `entropy ${item.entropy}`),
        h("span", { class: "space" }), h("span", { class: "quiet bytes" }, `bytes ${item.bytes}`)),
      known ? table(known) : h("p", { class: "quiet" }, "Alternatives were not recorded here."));
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
      h("tbody", {}, known.rows.map((row) => h("tr", { class: row.drawn ? "drawn" : "" },
        h("td", { class: "mono" }, token(row.text)),
        h("td", { class: "bar" }, h("s", { style: { width: `${row.width}%` } })),
        h("td", { class: "quiet id" }, row.id), h("td", { class: "p" }, row.p), h("td", { class: "sampled" }, row.sampled))),
      h("tr", { class: "quiet" }, h("td", { colspan: 2 }, "all others"), h("td", { class: "id" }),
        h("td", {}, known.others.p), h("td", {}, known.others.sampled))));
  }

  function heatmap(view) {
    if (view.shares.every((column) => column === null)) {
      return {
        element: h("div", { class: "heat" }, h("header", {}, h("b", {}, "mass by segment"),
          h("span", { class: "quiet" }, "not measured: no attention was captured"))),
        show: () => {},
      };
    }
    const rows = view.rows.map((row, place) => h("div", { class: "columns heat-row" },
      h("b", { title: row.label }, row.label),
      view.tokens.map((_, index) => {
        const column = view.shares[index];
        return h("span", {
          class: column ? `mass-${shareLevel(view, column[place])}` : "unmeasured",
          title: column ? null : "not measured",
          onclick: () => select(view, index, place),
        });
      })));
    let shown = null;
    const put = (index, visible) => rows.forEach((row, place) => {
      const column = view.shares[index];
      row.children[index + 1].textContent = visible && column ? shareText(column[place]) : "";
    });
    return {
      element: h("div", { class: "heat" },
        h("header", {}, h("b", {}, "mass by segment"),
          h("span", { class: "quiet count" }, "a column adds up to its grounding"), h("span", { class: "space" }),
          h("span", { class: "quiet" }, ramp("mass", ["0", String(view.most)]))),
        h("div", { class: "heat-rows" }, rows)),
      show: (index) => {
        if (shown !== null) put(shown, false);
        put(index, true);
        shown = index;
      },
    };
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

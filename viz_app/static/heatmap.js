// The heatmap of a step: its tokens across, and down the context, either in segments or token by
// token around where the chosen token's mass is. What is not shown is counted.
(() => {
  const { h, ramp, segments, token, choice } = SpecGuard;
  const ROWS = 36;
  const shareText = (share) => share.toFixed(3);
  const levelOf = (share, most) => Math.min(Math.max(Math.round((9 * share) / most), 0), 9);
  choice.heat = "segment";

  // Mass per context token of one step token, in 255ths of its largest; null: not recorded.
  function cellsOf(view, index) {
    const paint = view.paint;
    if (!paint || index >= paint.scales.length) return null;
    if (paint.cells !== null) {
      if (!paint.bytes) paint.bytes = Uint8Array.from(atob(paint.cells), (c) => c.charCodeAt(0));
      return paint.bytes.subarray(index * paint.n_context, (index + 1) * paint.n_context);
    }
    const cells = new Uint8Array(paint.n_context);
    const known = paint.largest[index];
    for (let i = 0; i < known.length; i += 2) cells[known[i]] = known[i + 1];
    return cells;
  }

  // [first, stop, text, row] per chip of the context, in order; positions in the whole context.
  function chipsOf(view) {
    if (view.contextChips) return view.contextChips;
    view.contextChips = view.rows.flatMap((row, place) => {
      let at = row.start;
      return row.texts.map((text, order) => {
        const first = at;
        at += row.sizes ? row.sizes[order] : 1;
        return [first, at, text, place];
      });
    });
    return view.contextChips;
  }

  function sumOf(cells, chip) {
    let sum = 0;
    for (let i = chip[0]; i < chip[1]; i += 1) sum += cells[i] || 0;
    return sum;
  }

  // `select(index, lit)` chooses a step's token and lights a stretch of the context.
  function heatmap(view, select) {
    const element = h("div", { class: "heat" });
    if (view.shares.every((column) => column === null)) {
      SpecGuard.put(element, h("header", {}, h("b", {}, "mass by segment"),
        h("span", { class: "quiet" }, "not measured: no attention was captured")));
      return { element, show: () => {}, count: () => {} };
    }
    const count = h("span", { class: "quiet count" });
    const body = h("div", { class: "heat-rows" });
    const legend = h("span", { class: "quiet" });
    let drawn = null;
    const redraw = () => {
      const byToken = choice.heat === "token" && view.paint;
      SpecGuard.put(element, h("header", {}, h("b", {}, "mass by"), segments("mass by", [
        { key: "segment", name: "Segment" },
        { key: "token", name: "Token", off: view.paint ? "" : "not recorded: the heatmap of this candidate was not kept" },
      ], byToken ? "token" : "segment", (key) => { choice.heat = key; redraw(); drawn.show(choice.token); drawn.count(); }),
      SpecGuard.picture("heatmap"), count, h("span", { class: "space" }), legend), body);
      drawn = byToken ? tokens(view, body, count, legend, select) : stretches(view, body, count, legend, select);
    };
    redraw();
    return { element, show: (index) => drawn.show(index), count: () => drawn.count() };
  }

  function stretches(view, body, count, legend, select) {
    const rows = view.rows.map((row, place) => h("div", { class: "columns heat-row" },
      label(row.label, "", `segment ${place}`, () => select(choice.token, { row: place }), place > 0),
      view.tokens.map((_, index) => {
        const column = view.shares[index];
        return h("span", {
          class: column ? `mass-${levelOf(column[place], view.most)}` : "unmeasured",
          title: column ? null : "not measured",
          onclick: () => select(index, { row: place }),
        });
      })));
    SpecGuard.put(body, rows);
    SpecGuard.put(legend, ramp("mass", ["0", String(view.most)]));
    let shown = null;
    const fill = (index, visible) => rows.forEach((row, place) => {
      const column = view.shares[index];
      row.children[index + 1].textContent = visible && column ? shareText(column[place]) : "";
    });
    return {
      show: (index) => {
        if (shown !== null) fill(shown, false);
        fill(index, true);
        shown = index;
      },
      count: () => {
        const seen = Math.round((body.clientHeight / Math.max(body.scrollHeight, 1)) * rows.length);
        count.textContent = seen < rows.length ? `${seen} of ${rows.length} rows in view` : "a column adds up to its grounding";
      },
    };
  }

  // A stretch of the context around where the chosen token's mass is largest.
  function tokens(view, body, count, legend, select) {
    const chips = chipsOf(view);
    const show = (index) => {
      const own = cellsOf(view, index);
      if (!own) {
        SpecGuard.put(body, h("p", { class: "quiet" }, "This token was never a query: no mass was measured."));
        SpecGuard.put(legend);
        count.textContent = "";
        return;
      }
      const peak = chips.reduce((best, chip, i) => (sumOf(own, chip) > sumOf(own, chips[best]) ? i : best), 0);
      const start = Math.min(Math.max(peak - (ROWS >> 1), 0), Math.max(chips.length - ROWS, 0));
      const shown = chips.slice(start, start + ROWS);
      const columns = view.tokens.map((_, i) => {
        const cells = cellsOf(view, i);
        return cells && shown.map((chip) => (sumOf(cells, chip) * view.paint.scales[i]) / 255);
      });
      const most = Math.max(...columns.flatMap((column) => column || []), 1e-6);
      let at = null;
      SpecGuard.put(body, shown.map((chip, place) => {
        const lit = () => select(choice.token, { position: chip[0] });
        const row = h("div", { class: start + place === peak ? "columns heat-row peak" : "columns heat-row" },
          label(chip[2], view.rows[chip[3]].where || "prompt", `context ${chip[0]}`, lit, start + place === peak, true),
          columns.map((column, i) => h("span", {
            class: column ? `mass-${levelOf(column[place], most)}` : "unmeasured",
            title: column ? null : "not measured",
            onclick: () => select(i, { position: chip[0] }),
          }, i === index && column ? shareText(column[place]) : "")));
        if (start + place === peak) at = row;
        return row;
      }));
      SpecGuard.put(legend, ramp("mass", ["0", most.toPrecision(2)]));
      count.textContent = told(view, chips, shown, columns[index], index);
      body.scrollTop = at.offsetTop - body.clientHeight / 2;
    };
    return { show, count: () => {} };
  }

  function told(view, chips, shown, column, index) {
    const size = (list) => list.reduce((sum, chip) => sum + chip[1] - chip[0], 0);
    const hidden = view.paint.n_context - size(shown);
    if (hidden === 0) return "the whole context";
    const inside = column.reduce((sum, share) => sum + share, 0);
    const rest = Math.max(Number(view.tokens[index].grounding) - inside, 0);
    return `${size(shown)} of ${view.paint.n_context} context tokens; the ${hidden} hidden hold ${shareText(rest)}`;
  }

  function label(text, where, key, light, reachable, mono) {
    return h("b", { title: text }, h("button", {
      type: "button", class: mono ? "plain mono" : "plain", tabindex: reachable ? null : "-1",
      title: "light this text above", data: { key }, onclick: light,
    }, mono ? token(text.replaceAll(" ", "\u00b7")) : text), mono && h("em", {}, where));
  }

  SpecGuard.heatmap = heatmap;
  SpecGuard.contextCells = cellsOf;
  SpecGuard.contextChips = chipsOf;
})();

// The heatmap of a step: its tokens across, and down the context, either in segments or token by
// token around where the chosen token's mass is. What is not shown is counted.
(() => {
  const { h, ramp, segments, token, choice } = SpecGuard;
  const ROWS = 36;
  const shareText = (share) => share.toFixed(3);
  const levelOf = (share, most) => Math.min(Math.max(Math.round((9 * share) / most), 0), 9);
  const NOTHING = () => {};
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
      return { element, show: NOTHING, across: NOTHING, settle: () => NOTHING };
    }
    const count = h("span", { class: "quiet count" });
    const legend = h("span", { class: "quiet" });
    let drawn = null;
    let seen = [0, 0];
    const redraw = () => {
      const byToken = choice.heat === "token" && view.paint;
      const body = h("div", { class: "heat-rows" });
      SpecGuard.put(element, h("header", {}, h("b", {}, "mass by"), segments("mass by", [
        { key: "segment", name: "Segment" },
        { key: "token", name: "Token", off: view.paint ? "" : "not recorded: the heatmap of this candidate was not kept" },
      ], byToken ? "token" : "segment", (key) => { choice.heat = key; redraw(); drawn.show(choice.token); SpecGuard.settle(drawn.settle); }),
      SpecGuard.picture("heatmap"), count, h("span", { class: "space" }), legend), body);
      drawn = byToken ? tokens(view, body, count, legend, select) : stretches(view, body, count, legend, select);
      drawn.across(...seen);
    };
    redraw();
    return {
      element, show: (index) => drawn.show(index), settle: () => drawn.settle(),
      across: (from, to) => { seen = [from, to]; drawn.across(from, to); },
    };
  }

  // Rows of cells. A cell is made once its row and its column are in view: the cells of a long step
  // are more than a browser lays out in the time of a click. `of(place, index)`: [level, text] or null.
  function cellRows(body, rows, view, of) {
    const columns = new Set();
    const filled = new Map();
    const cell = (row, place, index) => {
      const found = of(place, index);
      const element = h("span", {
        class: found ? `mass-${found[0]}` : "unmeasured", title: found ? null : "not measured", data: { column: index },
        style: { left: `${(100 * index) / view.tokens.length}%` },
      }, found && found[1]);
      row.lastChild.append(element);
      filled.get(row)[index] = element;
    };
    const across = (from, to) => {
      for (let index = Math.max(from, 0); index < Math.min(to, view.tokens.length); index += 1) {
        if (columns.has(index)) continue;
        columns.add(index);
        for (const row of filled.keys()) cell(row, rows.indexOf(row), index);
      }
    };
    const lazy = SpecGuard.inView(body, rows, (row, place) => {
      filled.set(row, []);
      for (const index of columns) cell(row, place, index);
    }, () => across(0, view.tokens.length));
    return { across, place: lazy.place, at: (row, index) => (filled.get(row) || [])[index] };
  }

  // One listener for all cells.
  function onCell(body, act) {
    body.addEventListener("click", (event) => {
      const cell = event.target.closest(".cells > span");
      if (cell) act(cell.closest(".heat-row"), Number(cell.dataset.column));
    });
  }

  function stretches(view, body, count, legend, select) {
    const rows = view.rows.map((row, place) => rowOf("", label(row.label, "", `segment ${place}`,
      () => select(choice.token, { row: place }), place > 0)));
    SpecGuard.put(body, rows);
    SpecGuard.put(legend, ramp("mass", ["0", String(view.most)]));
    onCell(body, (row, index) => select(index, { row: rows.indexOf(row) }));
    let shown = null;
    const cells = cellRows(body, rows, view, (place, index) => {
      const column = view.shares[index];
      return column && [levelOf(column[place], view.most), index === shown ? shareText(column[place]) : ""];
    });
    const write = (index, visible) => rows.forEach((row, place) => {
      const column = view.shares[index];
      const cell = cells.at(row, index);
      if (cell) cell.textContent = visible && column ? shareText(column[place]) : "";
    });
    return {
      across: cells.across,
      show: (index) => {
        if (shown !== null) write(shown, false);
        shown = index;
        write(index, true);
      },
      settle: () => {
        const seen = Math.round((body.clientHeight / Math.max(body.scrollHeight, 1)) * rows.length);
        const fill = cells.place();
        return () => {
          count.textContent = seen < rows.length ? `${seen} of ${rows.length} rows in view` : "a column adds up to its grounding";
          fill();
        };
      },
    };
  }

  // A stretch of the context around where the chosen token's mass is largest.
  function tokens(view, body, count, legend, select) {
    const chips = SpecGuard.contextRows(view).flat();
    let settle = () => NOTHING;
    let rows = [];
    let shown = [];
    let cells = null;
    let seen = [0, 0];
    onCell(body, (row, index) => select(index, { position: shown[rows.indexOf(row)][0] }));
    const show = (index) => {
      const own = cellsOf(view, index);
      if (!own) {
        SpecGuard.put(body, h("p", { class: "quiet" }, "This token was never a query: no mass was measured."));
        SpecGuard.put(legend);
        count.textContent = "";
        cells = null;
        settle = () => NOTHING;
        return;
      }
      const peak = chips.reduce((best, chip, i) => (sumOf(own, chip) > sumOf(own, chips[best]) ? i : best), 0);
      const start = Math.min(Math.max(peak - (ROWS >> 1), 0), Math.max(chips.length - ROWS, 0));
      shown = chips.slice(start, start + ROWS);
      const columns = view.tokens.map((_, i) => {
        const cells = cellsOf(view, i);
        return cells && shown.map((chip) => (sumOf(cells, chip) * view.paint.scales[i]) / 255);
      });
      const most = Math.max(...columns.flatMap((column) => column || []), 1e-6);
      rows = shown.map((chip, place) => rowOf(start + place === peak ? "peak" : "",
        label(chip[2], view.rows[chip[3]].where || "prompt", `context ${chip[0]}`,
          () => select(choice.token, { position: chip[0] }), start + place === peak, true)));
      SpecGuard.put(body, rows);
      cells = cellRows(body, rows, view, (place, i) => columns[i]
        && [levelOf(columns[i][place], most), i === index ? shareText(columns[i][place]) : ""]);
      cells.across(...seen);
      SpecGuard.put(legend, ramp("mass", ["0", most.toPrecision(2)]));
      count.textContent = told(view, chips, shown, columns[index], index);
      const at = rows[peak - start];
      settle = () => {
        const top = at.offsetTop - body.clientHeight / 2;
        const fill = cells.place(Math.max(top, 0));
        return () => {
          body.scrollTop = top;
          fill();
        };
      };
    };
    const across = (from, to) => {
      seen = [from, to];
      if (cells) cells.across(from, to);
    };
    return { show, across, settle: () => settle() };
  }

  const rowOf = (kind, name) => h("div", { class: `heat-row ${kind}` }, name, h("div", { class: "cells" }));

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
})();

// The context of a step: its text by rows, painted by where the chosen token's mass enters it.
//
// chip     a stretch of the context that makes whole characters: [first, stop, text, row]
(() => {
  const { h, token, choice } = SpecGuard;
  const shareText = (share) => share.toFixed(3);
  const shareLevel = (view, share) => Math.min(Math.max(Math.round((9 * share) / view.most), 0), 9);
  const mark = (text) => [...text].map((c) => (c === "\u21b5" ? h("i", {}, c) : c));

  // The chips of each row, in order; positions are in the whole context.
  function rowsOf(view) {
    if (view.contextRows) return view.contextRows;
    view.contextRows = view.rows.map((row, place) => {
      let at = row.start;
      return row.texts.map((text, order) => {
        const first = at;
        at += row.sizes ? row.sizes[order] : 1;
        return [first, at, text, place];
      });
    });
    return view.contextRows;
  }

  // A token's context, and the job that scrolls to where most of its mass is.
  function context(view, index) {
    const shares = view.shares[index];
    const cells = SpecGuard.contextCells(view, index);
    const lit = choice.lit || {};
    const rows = view.rows.slice(1);
    const chips = rowsOf(view).slice(1);
    const largest = shares ? Math.max(...shares.slice(1)) : 0;
    const top = cells ? chips.flat().reduce((most, chip) => Math.max(most, massOf(cells, chip)), 0) : 0;
    const isMost = (place) => shares && largest > 0 && shares[place + 1] === largest;
    const isLit = (place) => lit.row === place + 1 || chips[place].some((chip) => lit.position >= chip[0] && lit.position < chip[1]);
    const elements = rows.map((row, place) => h("div", { class: `row ${isMost(place) ? "most" : ""} ${lit.row === place + 1 ? "lit" : ""}` },
      h("b", {}, row.where), h("p", { class: "mono" }, textOf(chips[place])),
      h("u", {}, shares ? shareText(shares[place + 1]) : "")));
    const box = h("div", { class: "rows" }, elements);
    const filled = SpecGuard.inView(box, elements, (element, place) => {
      SpecGuard.put(element.children[1], painted(view, chips[place], cells, top, shares ? shares[place + 1] : null, lit));
    });
    const first = (found) => rows.findIndex((_, place) => found(place));
    const goal = first(isLit) >= 0 ? first(isLit) : first(isMost);
    if (goal >= 0) filled.now(goal);
    const settle = () => {
      const there = goal >= 0 && (elements[goal].querySelector("span.lit") || elements[goal]);
      const beyond = there && (there.offsetTop < box.scrollTop || there.offsetTop + there.offsetHeight > box.scrollTop + box.clientHeight);
      // The first row in view is a whole one.
      const upper = beyond && elements.find((element) => element.offsetTop >= there.offsetTop - box.clientHeight / 2);
      const scrolled = upper ? upper.offsetTop : box.scrollTop;
      const fill = filled.place(scrolled);
      return () => {
        if (beyond) box.scrollTop = scrolled;
        fill();
      };
    };
    return { parts: [caption(view.tokens[index], shares), box], settle };
  }

  const textOf = (chips) => chips.map((chip, first) => (first ? chip[2] : chip[2].trimStart())).join("");

  function painted(view, chips, cells, top, share, lit) {
    return chips.map((chip, first) => {
      const level = cells && top > 0 ? Math.round((9 * massOf(cells, chip)) / top)
        : !cells && share ? shareLevel(view, share) : 0;
      const words = chip[2].trimStart();
      const gap = first ? chip[2].slice(0, chip[2].length - words.length) : "";
      const here = lit.position >= chip[0] && lit.position < chip[1];
      return [gap, words && (level > 0 || here || words.includes("\u21b5")
        ? h("span", { class: `${level > 0 ? `mass-${level}` : ""} ${here ? "lit" : ""}` }, mark(words)) : words)];
    });
  }

  function massOf(cells, span) {
    let most = 0;
    for (let i = span[0]; i < span[1]; i += 1) most = Math.max(most, cells[i] || 0);
    return most;
  }

  function caption(item, shares) {
    if (!shares) {
      return h("p", { class: "caption" }, h("span", { class: "mono" }, token(item.text)),
        item.boundary ? " ends the step: it was never a query, so no mass was measured" : " has no measured mass");
    }
    return h("p", { class: "caption" }, h("span", { class: "mono" }, token(item.text)), " draws ",
      h("b", {}, item.grounding), ` from here (${item.template} template), ${item.own} from its own step`);
  }

  SpecGuard.context = context;
  SpecGuard.contextRows = rowsOf;
})();

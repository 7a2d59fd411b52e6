// A block of drafted tokens: a column per token with what became of it, the text so far, and how
// many tokens blocks accept. The panel takes the place of candidates and evidence.
(() => {
  const { h, svg, head, empty, icon, send, token } = SpecGuard;
  const MARKS = {
    accepted: "M3 8.5 6.5 12 13 4.5",
    rejected: "M4 4l8 8M12 4l-8 8",
    overridden: "M4 4l8 8M12 4l-8 8M2.500 14.500h11",
    dropped: "M3 8h10",
    unjudged: "",
    corrected: "M8 2.500 13.500 8 8 13.500 2.500 8z",
    bonus: "M8 3v10M3 8h10",
  };
  let picked = { block: null, chip: null };

  const chosen = (view) => (picked.block === view.number && picked.chip < view.chips.length ? picked.chip : view.selected);

  function mark(kind) {
    return MARKS[kind] && svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: MARKS[kind] }));
  }

  function draw(root, view) {
    document.getElementById("sg-page").classList.toggle("of-blocks", !view.hidden);
    if (view.hidden) { root.replaceChildren(); return; }
    if (view.empty) { empty(root, "Block", view.empty); return; }
    SpecGuard.put(root, head(`Block ${view.number}`, `of ${view.of}: ${view.note}`, h("button", {
      type: "button", class: "plain link", needs: "models", data: { key: "redraw block" },
      title: "Draw this block again, on a branch (R)", onclick: redraw,
    }, "Redraw")),
    columns(view), view.rule && h("p", { class: "quiet rule" }, view.rule),
    h("div", { class: "below" }, text(view), lengths(view.lengths)));
    const on = root.querySelector("thead .on");
    if (on) on.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // One column per token, as in the evidence of a step: chip, then its numbers straight below.
  function columns(view) {
    const at = chosen(view);
    const names = view.chips.reduce((most, chip) => (chip.numbers.length > most.length ? chip.numbers : most), []);
    const cell = (chip, name) => chip.numbers.find((number) => number.name === name);
    return h("div", { class: "columns" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", {}), view.chips.map((chip, i) => h("td", { class: i === at ? "on" : "" }, chipOf(view, chip, i, i === at))))),
      h("tbody", {}, names.map((row) => h("tr", {}, h("th", { scope: "row" }, row.name, h("span", { class: "quiet" }, row.unit)),
        view.chips.map((chip, i) => {
          const number = cell(chip, row.name);
          return h("td", { class: `${i === at ? "on" : ""} ${number && number.high ? "high" : ""}` }, number && number.text, number && number.high && h("em", {}, "high"));
        }))))));
  }

  function chipOf(view, chip, index, on) {
    const numbers = chip.numbers.map((number) => `${number.name} ${number.text}`);
    return h("button", {
      type: "button", class: `drafted ${chip.kind}`, "aria-pressed": String(on), data: { key: `chip ${index}` },
      "aria-label": `${chip.text}, ${chip.word}`, title: [chip.word, ...numbers].join("\n"), onclick: () => pick(view, index),
    }, h("b", { class: "mono" }, token(chip.text)), h("span", {}, mark(chip.kind), chip.word));
  }

  function pick(view, chip) {
    picked = { block: view.number, chip };
    const { roots, views } = SpecGuard;
    draw(roots.blocks, views.blocks);
    SpecGuard.drawChip(roots.why, views.why);
    const again = roots.blocks.querySelector(`[data-key="chip ${chip}"]`);
    if (again) again.focus({ preventScroll: true });
  }

  // The running text, a stretch per block: what was cut is struck, what the target added stands out.
  function text(view) {
    return h("section", { class: "so-far" }, h("h3", {}, "Text by block"),
      h("p", { class: "mono" }, view.text.map((part, i) => h("button", {
        type: "button", class: i + 1 === view.number ? "stretch on" : "stretch", data: { key: `stretch ${i}` },
        title: `block ${i + 1}`, onclick: () => send("look", { step: i }),
      }, token(part.kept), part.cut && h("del", {}, token(part.cut)),
      part.added && h("ins", { class: part.kind }, token(part.added))))));
  }

  function lengths(view) {
    if (!view) return h("section", { class: "lengths" }, h("h3", {}, "Accepted per block"), h("p", { class: "empty" }, "No block was drafted yet."));
    return h("section", { class: "lengths" },
      h("h3", {}, "Accepted per block ", h("span", { class: "quiet" }, "tick: expected")),
      h("div", {
        class: "histogram", role: "img",
        "aria-label": view.bars.map((bar) => `${bar.count} blocks accepted ${bar.length}, expected ${bar.expected}`).join("; "),
      }, view.bars.map((bar) => h("div", { title: `${bar.length} accepted: ${bar.count} blocks, expected ${bar.expected}` },
        h("span", { class: "plot" }, h("s", { style: { height: `${bar.height}%` } }),
          h("u", { style: { bottom: `${bar.expected_height}%` } })),
        h("b", {}, bar.count), h("span", { class: "quiet" }, bar.length)))),
      h("dl", {}, view.facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      h("p", { class: "quiet" }, `expected: ${view.formula}`, view.caution && `; ${view.caution}`));
  }

  // The side: the chosen token's numbers one under the other, and the rule's word in a sentence.
  SpecGuard.drawChip = (root, view) => {
    if (!view.chips) return;
    const chip = view.chips[chosen(view)];
    SpecGuard.put(root, head("Why", `block ${view.number}, token ${chosen(view) + 1}`),
      h("div", { class: "verdict" },
        h("strong", { class: ["rejected", "overridden"].includes(chip.kind) ? "refused" : "" }, chip.word[0].toUpperCase() + chip.word.slice(1)),
        h("span", { class: `tag mono drafted ${chip.kind}` }, token(chip.text))),
      h("p", { class: "because" }, chip.sentence),
      chip.numbers.length
        ? h("table", { class: "chip-sum" }, chip.numbers.map((number) => h("tr", {},
          h("th", { scope: "row" }, number.name), h("th", { class: "quiet" }, number.unit),
          h("td", { class: number.high ? "high" : "" }, number.text, number.high && " high"))))
        : h("p", { class: "quiet" }, "Not measured."),
      view.rule && h("p", { class: "quiet" }, `EASD: ${view.rule}.`));
  };

  function redraw() {
    const { blocks, top } = SpecGuard.views;
    if (blocks && blocks.number && top && !top.running) send("drive", { move: "redraw", step: blocks.number - 1 });
  }

  document.addEventListener("keydown", (event) => {
    const view = SpecGuard.views.blocks;
    if (!view || !view.chips || event.target.closest("input, textarea, select")) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { "[": -1, "]": 1 }[event.key];
    if (by) pick(view, Math.min(Math.max(chosen(view) + by, 0), view.chips.length - 1));
    else if (event.key === "r" || event.key === "R") redraw();
  });

  SpecGuard.register("blocks", { draw });
})();

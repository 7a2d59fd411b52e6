// Why: the verdict in a word, the sum with its real numbers, a bar, the tokens that decided.
(() => {
  const { h, head, empty, icon, token, pick, segments, send, settle, choice } = SpecGuard;
  const GAP = 6;

  function draw(root, view) {
    if (view.empty) { empty(root, "Why", view.empty); return; }
    if (view.chips) { SpecGuard.drawChip(root, view); return; }
    const other = view.whatif;
    const asked = other && choice.why === "whatif" ? other : null;
    const shown = asked && !asked.trouble ? { ...view, ...asked } : view;
    SpecGuard.put(root, head("Why", `step ${view.step}, ${view.name}`,
      other && segments("sum", [{ key: "run", name: "As run" }, { key: "whatif", name: "What-if" }],
        asked ? "whatif" : "run", (key) => { choice.why = key; draw(root, view); })),
      asked && asked.trouble && h("p", { class: "refused" }, asked.trouble),
      h("div", { class: "verdict" },
        h("strong", { class: shown.accepted ? "" : "refused" }, shown.word),
        h("p", {}, shown.sentence[0], h("br"), shown.sentence[1])),
      view.fault && h("p", { class: "fault refused" }, icon("no"), h("span", {}, view.fault)),
      sum(shown), bar(shown, other && !other.trouble && !asked ? other.threshold : null),
      digits(view.digits), decided(view), flipLines(view), assertion(shown));
    settle(() => spread(root.querySelector(".balance .names")));
  }

  function sum(view) {
    const operator = (sign) => h("td", { class: "operator" }, sign);
    const rows = view.readings.flatMap((reading) => [
      h("tr", { title: reading.sentence }, h("th", { scope: "row" }, reading.name),
        h("td", {}, reading.raw), operator("\u2192"), h("td", {}, reading.normalised),
        operator("\u00d7"), h("td", {}, reading.weight), operator("="), h("td", {}, reading.part)),
      h("tr", { class: "formula" }, h("td", {}), h("td", { colspan: 7 }, reading.formula)),
    ]);
    return h("table", { class: "sum" },
      h("colgroup", {}, ["", "54px", "20px", "48px", "20px", "44px", "20px", "52px"].map(
        (width) => h("col", width ? { style: { width } } : {}))),
      h("tbody", {},
        h("tr", { class: "names" }, h("td", {}, view.uncalibrated && h("span", { class: "refused" }, "uncalibrated")),
          h("td", {}, "raw"), h("td", {}), h("td", {}, "0 to 1"), h("td", {}), h("td", {}, "weight"),
          h("td", {}), h("td", {}, "part")),
        rows,
        h("tr", { class: "score" }, h("th", { colspan: 7, scope: "row" }, "score"), h("td", {}, view.score_text)),
        h("tr", {}, h("th", { colspan: 6, scope: "row" }, "threshold"), operator("\u2212"), h("td", {}, view.threshold_text)),
        h("tr", { class: view.accepted ? "margin" : "margin refused" },
          h("th", { colspan: 7, scope: "row" }, "margin"), h("td", {}, view.margin_text))));
  }

  function bar(view, now) {
    const percent = (value) => `${Math.min(Math.max(100 * value, 0), 100)}%`;
    let left = 0;
    const parts = view.readings.map((reading, order) => {
      const part = h("i", {
        class: `part part-${Math.min(order, 3)}`, title: `${reading.name} ${reading.part}`,
        style: { left: percent(left), width: percent(reading.share) },
      });
      left += reading.share;
      return part;
    });
    const gap = view.threshold > view.score && h("i", {
      class: "gap", style: { left: percent(view.score), width: percent(Math.min(view.threshold, 1) - view.score) },
    });
    const word = (text, value, kind) => h("span", { class: kind || null, data: { at: value }, style: { left: percent(value) } }, text);
    const turned = now !== null && now !== view.threshold;
    return h("div", { class: "balance", role: "img", "aria-label": `score ${view.score_text} of threshold ${view.threshold_text}` },
      h("div", { class: "beam" }, parts, gap, h("u", { style: { left: percent(view.threshold) } }),
        turned && h("s", { class: "now", title: "threshold now", style: { left: percent(now) } })),
      h("div", { class: "names" }, word("score", view.score), word("threshold", view.threshold), turned && word("what-if", now, "turned")));
  }

  // Each word under its place, but within the bar and clear of the others.
  function spread(names) {
    const room = names ? names.clientWidth : 0;
    if (!room) return null;
    const spots = [...names.children].map((element) => ({ element, width: element.offsetWidth, middle: Math.min(Math.max(Number(element.dataset.at), 0), 1) * room }))
      .sort((a, b) => a.middle - b.middle);
    let least = 0;
    for (const spot of spots) {
      spot.left = Math.max(spot.middle - spot.width / 2, least);
      least = spot.left + spot.width + GAP;
    }
    let most = room;
    for (const spot of spots.reverse()) {
      spot.left = Math.min(spot.left, most - spot.width);
      most = spot.left - GAP;
    }
    return () => spots.forEach((spot) => {
      spot.element.style.left = `${((100 * (spot.left + spot.width / 2)) / room).toFixed(2)}%`;
    });
  }

  // How likely each digit was as the grade; a hollow bar is a digit that would not have kept the step.
  function digits(view) {
    if (!view) return null;
    if (view.absent) return h("p", { class: "quiet digits" }, `Digits of the grade: ${view.absent}.`);
    return h("figure", { class: "digits" }, h("figcaption", {}, h("b", {}, "Digits of the grade"), " ", h("span", { class: "quiet" }, view.sentence)),
      h("ol", { start: 0 }, view.bars.map((bar, digit) => h("li", {
        class: `${bar.enough ? "enough" : ""} ${bar.likeliest ? "likeliest" : ""}`,
        title: `digit ${digit}: probability ${bar.text}`,
      }, h("span", { class: "column", "aria-hidden": "true" }, h("i", { style: { height: `${100 * bar.share}%` } })),
      h("span", { "aria-label": `digit ${digit}: probability ${bar.text}` }, digit)))));
  }

  function decided(view) {
    if (!view.decided.length) return null;
    return h("div", { class: "decided" }, h("b", {}, "Decided by"),
      view.decided.map((item) => h("button", {
        type: "button", class: "plain", data: { key: `decided ${item.label}` },
        title: "show this token", onclick: () => pick({ token: item.token }),
      }, h("span", { class: `tag mono signal-${item.level}` }, token(item.text)), item.label, h("span", { class: "quiet" }, item.takes))));
  }

  // What would turn the verdict round; a line that a knob or a click can bring about is a button.
  function flipLines(view) {
    return [h("h3", { class: "with-actions" }, "What would flip it", h("span", { class: "space" }),
      h("button", {
        type: "button", class: "plain link", needs: "models", data: { key: "redraw" }, title: "Draw this step again, on a branch (R)",
        onclick: () => depart("redraw"),
      }, "Redraw"),
      h("button", {
        type: "button", class: "plain link", needs: "models", data: { key: "force" }, title: "Decide otherwise, on a branch (F)",
        onclick: () => depart(view.force),
      }, view.force === "accept" ? "Force accept" : "Force fallback")), h("ul", { class: "flip-lines" }, view.flips.map((line) => {
      const parts = [icon(line.does ? "yes" : "no"), h("span", {}, line.text), h("u", {}, line.value)];
      const act = line.knob ? () => send("look", { knob: line.knob, value: line.set })
        : line.candidate !== undefined ? () => send("look", { candidate: line.candidate }) : null;
      if (!line.does || !act) return h("li", { class: line.does ? "" : "cannot" }, parts);
      return h("li", {}, h("button", {
        type: "button", class: "plain", data: { key: `flip line ${line.text}` }, onclick: act,
        title: line.knob ? "set the knob to this value" : "show this candidate",
      }, parts));
    }))];
  }

  function assertion(view) {
    const button = h("button", { type: "button", title: "Copy as Python that holds, from the raw values", data: { key: "copy" } },
      icon("copy"), h("span", {}, "Copy"));
    button.addEventListener("click", async () => {
      const word = button.querySelector("span");
      try {
        await navigator.clipboard.writeText(view.assertion.full);
        word.textContent = "Copied";
      } catch {
        word.textContent = "Not allowed";
      }
      setTimeout(() => { word.textContent = "Copy"; }, 1500);
    });
    return h("div", { class: "assertion" }, h("code", { title: view.assertion.full }, view.assertion.short), button);
  }

  function depart(move, more) {
    const { why, top } = SpecGuard.views;
    if (why && why.step && top && !top.running) send("drive", { move, step: why.step - 1, ...more });
  }
  SpecGuard.depart = depart;

  document.addEventListener("keydown", (event) => {
    const view = SpecGuard.views.why;
    if (!view || view.empty || event.target.closest("input, textarea, select")) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "r" || event.key === "R") depart("redraw");
    else if (event.key === "f" || event.key === "F") depart(view.force);
  });

  SpecGuard.register("why", { draw });
})();

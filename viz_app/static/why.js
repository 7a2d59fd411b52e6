// Why: the verdict in a word, the sum with its real numbers, a bar, the tokens that decided.
(() => {
  const { h, head, empty, icon, token, pick, segments, send, choice } = SpecGuard;

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
      sum(shown), bar(shown, other && !other.trouble && !asked ? other.threshold : null),
      decided(view), flipLines(view), assertion(shown));
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
    const near = Math.abs(view.threshold - view.score) < 0.16;
    const after = view.score > view.threshold;
    return h("div", { class: "balance", role: "img", "aria-label": `score ${view.score_text} of threshold ${view.threshold_text}` },
      h("div", { class: "beam" }, parts, gap, h("u", { style: { left: percent(view.threshold) } }),
        now !== null && now !== view.threshold && h("s", { class: "now", title: "threshold now", style: { left: percent(now) } })),
      h("div", { class: "names" },
        now !== null && Math.abs(now - view.score) > 0.05 && Math.abs(now - view.threshold) > 0.12 && h("span", {
          class: `turned ${now < view.score ? "left" : "right"}`, style: { left: percent(now) },
        }, "what-if"),
        h("span", { class: near ? (after ? "right" : "left") : "", style: { left: percent(view.score) } }, "score"),
        h("span", { class: near ? (after ? "left" : "right") : "", style: { left: percent(view.threshold) } }, "threshold")));
  }

  function decided(view) {
    if (!view.decided.length) return null;
    return h("div", { class: "decided" }, h("b", {}, "Decided by"),
      view.decided.map((item) => h("button", {
        type: "button", class: "plain", data: { key: `decided ${item.label}` },
        title: "show this token", onclick: () => pick({ token: item.token }),
      }, h("span", { class: `tag mono signal-${item.level}` }, token(item.text)), item.label)));
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

// Every threshold at once: what it accepts, lets through and refuses in vain. A click or the arrow
// keys set the threshold that the recorded runs are judged by.
(() => {
  const { h, svg, send } = SpecGuard;
  const SERIES = [["accepted", 1], ["through", 2], ["vain", 3]];

  SpecGuard.table("thresholds", (root, view) => {
    SpecGuard.put(root, h("div", { class: "thresholds" },
      h("div", { class: "chart" }, h("span", { class: "y-name" }, "share of steps"), plot(view)),
      words(view)));
  });

  function plot(view) {
    const x = (value) => (100 * value) / view.high;
    const y = (share) => 100 - 100 * share;
    const steps = (column) => {
      let path = "";
      let from = 0;
      for (const row of view.curve) {
        if (row[column] === null) return "";
        path += `${path ? "L" : "M"}${x(from).toFixed(2)} ${y(row[column]).toFixed(2)}L${x(row[0]).toFixed(2)} ${y(row[column]).toFixed(2)}`;
        from = row[0];
      }
      return path;
    };
    const now = h("u", { class: "now", style: { left: `${x(view.now)}%` } });
    const slider = h("div", {
      class: "area", tabindex: "0", role: "slider", "aria-label": "threshold, over all runs", "aria-valuemin": 0,
      "aria-valuemax": view.high, "aria-valuenow": view.now, "aria-valuetext": `${view.now.toFixed(2)}: ${view.told.map((line) => line.text).join(", ")}`,
      title: "Click, or left and right: judge the runs by this threshold", data: { key: "thresholds plot" },
    }, svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
      [0, 0.5, 1].map((share) => svg("line", { class: "grid", x1: 0, x2: 100, y1: y(share), y2: y(share) })),
      SERIES.map(([name, column]) => svg("path", { class: name, d: steps(column) }))),
    h("u", { class: "run", style: { left: `${x(view.run)}%` }, title: `as run ${view.run.toFixed(2)}` }), now);
    let asked = view.now;
    const set = (value) => {
      const bounded = Math.min(Math.max(Math.round(value * 100) / 100, 0), view.high);
      asked = bounded;
      now.style.left = `${x(bounded)}%`;
      SpecGuard.turn(view.knob, bounded);
    };
    slider.addEventListener("pointerdown", (event) => {
      const box = slider.getBoundingClientRect();
      set(((event.clientX - box.left) / box.width) * view.high);
    });
    slider.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      set(asked + by * (event.shiftKey ? 0.1 : 0.01));
    });
    return h("div", { class: "frame" },
      [["1", 1], ["0.5", 0.5], ["0", 0]].map(([text, share]) => h("span", { class: "y-tick", style: { bottom: `${100 * share}%` } }, text)),
      slider,
      [0, 0.25, 0.5, 0.75, 1].map((value) => h("span", { class: "x-tick", style: { left: `${x(value)}%` } }, String(value))),
      h("span", { class: "x-tick", style: { left: `${x(0.625)}%` } }, "threshold"));
  }

  function words(view) {
    const turned = view.now !== view.run;
    return h("div", { class: "words" },
      h("h3", {}, `At ${view.now.toFixed(2)}`, h("span", { class: "quiet" }, turned ? `run at ${view.run.toFixed(2)}` : "as run"),
        h("span", { class: "quiet" }, `${view.n} steps of ${view.n_runs === 1 ? "1 run" : `${view.n_runs} runs`}`), h("span", { class: "space" }),
        view.beside > 0 ? h("button", {
          type: "button", class: "plain link", data: { key: "drop runs" }, title: `${view.beside} runs from files; take them away`,
          onclick: () => send("setup", { beside: null }),
        }, `${view.beside} added`) : null,
        h("button", {
          type: "button", class: "plain link", data: { key: "add runs" }, title: "Add runs from trace or session files, for these figures alone", onclick: add,
        }, "Add runs")),
      h("ul", {}, view.told.map((line) => h("li", {}, svg("svg", { viewBox: "0 0 22 6", class: "key", "aria-hidden": "true" },
        svg("path", { class: line.key, d: "M1 3H21" })), line.text))),
      view.catch && h("p", {}, h("button", {
        type: "button", class: "plain link", data: { key: "catch all" }, title: "Judge by this threshold",
        onclick: () => send("look", { knob: view.knob, value: view.catch.set }),
      }, `${view.catch.text} refuses every wrong step`), h("span", { class: "quiet" }, ` and ${view.catch.costs}`)),
      h("p", { class: "quiet" }, view.labels));
  }

  function add() {
    const input = h("input", { type: "file", multiple: true, accept: ".json,application/json" });
    input.addEventListener("change", async () => {
      const texts = await Promise.all([...input.files].map((file) => file.text()));
      send("setup", { beside: texts });
    });
    input.click();
  }
})();

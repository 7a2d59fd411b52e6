// The reward or grade of each step against its threshold, and the chains that vote.
(() => {
  const { h, svg, send, star } = SpecGuard;
  const WIDTH = 300, HEIGHT = 150, LEFT = 34, TOP = 12, BOTTOM = 22;

  SpecGuard.rewardCurve = (curve) => {
    const room = WIDTH - LEFT - 14;
    const x = (step) => LEFT + (room * (step + 0.5)) / Math.max(curve.n_steps, 1);
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.min(Math.max(value, 0), 1));
    const at = y(curve.threshold);
    const picture = svg("svg", {
      class: "reward-curve", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": `${curve.name} by step`,
    },
    [0, 1].map((value) => [
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - 8, y1: y(value), y2: y(value) }),
      svg("text", { class: "tick", x: LEFT - 6, y: y(value) + 4 }, value ? curve.top : "0")]),
    svg("line", { class: "threshold", x1: LEFT, x2: WIDTH - 8, y1: at, y2: at }),
    svg("text", { class: "tick", x: LEFT - 6, y: at + 4 }, curve.threshold_text),
    svg("polyline", { points: curve.points.map((point) => `${x(point.step)},${y(point.value)}`).join(" ") }),
    curve.points.map((point) => svg("g", {
      class: `point ${point.kept ? "kept" : "refused"} ${point.at ? "on" : ""}`, tabindex: "0", role: "button",
      "aria-label": `step ${point.step + 1}, ${curve.name} ${point.text}, ${point.word}`, data: { key: `reward ${point.step}` },
      onclick: () => send("look", { step: point.step }),
      onkeydown: (event) => { if (event.key === "Enter") send("look", { step: point.step }); },
    },
    svg("title", {}, `step ${point.step + 1}: ${curve.name} ${point.text}, ${point.word}`),
    point.kept ? svg("circle", { cx: x(point.step), cy: y(point.value), r: 4 })
      : svg("rect", { x: x(point.step) - 4, y: y(point.value) - 4, width: 8, height: 8 }),
    (point.at || curve.n_steps <= 8) && svg("text", { x: x(point.step), y: y(point.value) + (point.value > 0.85 ? 17 : -8) }, point.text),
    curve.n_steps <= 16 && svg("text", { class: "step", x: x(point.step), y: HEIGHT - 6 }, point.step + 1))));
    return h("div", { class: "rewards" }, h("h3", {}, curve.name, " ", h("span", { class: "quiet" }, curve.unit)),
      curve.points.length ? picture : h("p", { class: "empty" }, "No step is judged yet."));
  };

  SpecGuard.votes = (view) => h("div", { class: "votes" }, h("table", {},
    h("thead", {}, h("tr", {}, ["chain", "steps", "by target", "mean reward", "answer"].map((name) => h("td", {}, name)))),
    h("tbody", {}, view.chains.map((chain) => h("tr", { class: chain.shown ? "on" : "" },
      h("th", { scope: "row" }, h("button", {
        type: "button", class: "plain", "aria-pressed": String(chain.shown), data: { key: `chain ${chain.index}` },
        title: "show this chain", onclick: () => send("look", { chain: chain.index }),
      }, chain.index + 1, chain.chosen && star())),
      h("td", {}, chain.steps), h("td", {}, chain.fallbacks), h("td", {}, chain.reward),
      h("td", { class: chain.won ? "won" : "" }, chain.answer))))),
  view.ballots.length > 1 && h("p", { class: "quiet" }, "Votes: ",
    view.ballots.map((ballot) => `${ballot.answer} ${ballot.votes} (mean reward ${ballot.reward})`).join(", "), "."),
  h("p", {}, view.sentence));
})();

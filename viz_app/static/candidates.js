// Candidates: the graph or the matrix of their similarity, and a card each.
(() => {
  const { h, svg, icon, star, head, empty, segments, send, choice, pick, STAR } = SpecGuard;
  const SHAPES = ["circle", "square", "diamond", "triangle", "hexagon"];
  const shape = (cluster) => SHAPES[Math.min(cluster ?? 0, SHAPES.length - 1)];
  const tone = (cluster) => `cluster-${Math.min(cluster ?? 0, SHAPES.length - 1)}`;

  function draw(root, view) {
    if (view.empty) { empty(root, "Candidates", view.empty); return; }
    const show = choice.candidates === "matrix" && view.matrix ? "matrix" : "graph";
    const switcher = view.matrix && view.cards.length > 1 && segments("similarity as",
      [{ key: "graph", name: "Graph" }, { key: "matrix", name: "Matrix" }], show,
      (key) => { pick({ candidates: key }); draw(root, view); });
    SpecGuard.put(root, head("Candidates", view.n_draws ? `k = ${view.n_draws}` : "", SpecGuard.picture("candidates"), switcher),
      view.votes && SpecGuard.votes(view.votes),
      h("div", { class: "picture" }, view.curve ? SpecGuard.rewardCurve(view.curve) : show === "matrix" ? matrix(view) : graph(view)),
      h("div", { class: "options quiet" },
        view.method ? settings(view) : h("span", {}, view.pending),
        h("span", { class: "space" }), !view.turned && choose(view)),
      view.turned && h("p", { class: "as-set" }, view.turned),
      h("div", { class: "cards" }, view.cards.map((card) => cardOf(view, card)),
        view.written && writtenOf(view, view.written)),
      view.matrix && view.cards.length > 1 && h("div", { class: "tall" }, h("h3", {}, "Similarity"), matrix(view)));
  }

  // How the recorded draws are compared; no model is needed to compare them otherwise.
  function settings(view) {
    const method = h("select", {
      "aria-label": "similarity", title: "How the recorded draws are compared", data: { key: "similarity" },
      onchange: () => send("look", { knob: "selection_method", value: method.value }),
    }, view.methods.map((name) => h("option", { value: name, selected: name === view.method }, name)));
    const cut = h("input", {
      type: "number", min: 0, max: 1, step: 0.05, value: view.cut.toFixed(2), "aria-label": "cut",
      title: "Draws at least this similar share a cluster", data: { key: "cut" },
    });
    cut.addEventListener("change", () => {
      const value = Number(cut.value);
      if (cut.value !== "" && value >= 0 && value <= 1) send("look", { knob: "cluster_similarity", value });
      else cut.value = view.cut.toFixed(2);
    });
    const options = SpecGuard.isReport ? [h("b", {}, view.method), h("b", {}, view.cut.toFixed(2))] : [method, cut];
    return [h("label", {}, "similarity ", options[0]), h("label", {}, "cut ", options[1])];
  }

  // Another draw may stand for the step; that is a branch, so it is never a mere click.
  function choose(view) {
    const other = view.shown >= 0 && view.medoid !== null && view.shown !== view.medoid;
    return other && h("button", {
      type: "button", class: "plain link", needs: "models", data: { key: "choose" }, title: "Let this candidate stand for the step, on a branch",
      onclick: () => SpecGuard.depart("choose", { candidate: view.shown }),
    }, `Choose ${view.labels[view.shown]}`);
  }

  function graph(view) {
    if (!view.graph) {
      const sentence = view.method && view.cards.length === 1
        ? `All ${view.n_draws} draws are one text.` : view.cards.length ? view.pending : "";
      return h("p", { class: "empty" }, sentence || "One draw: nothing to select.");
    }
    const { nodes, edges, hulls, width, height } = view.graph;
    return svg("svg", {
      class: "graph", viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `Candidate graph, ${nodes.length} candidates in ${hulls.length} clusters`,
    },
    edges.map((edge) => svg("line", {
      class: "edge", x1: nodes[edge.from].x, y1: nodes[edge.from].y,
      x2: nodes[edge.to].x, y2: nodes[edge.to].y, "stroke-width": edge.width,
    })),
    hulls.map((hull) => svg("rect", {
      class: `hull ${tone(hull.cluster)}`, x: hull.x, y: hull.y, width: hull.width, height: hull.height,
      rx: shape(hull.cluster) === "circle" ? Math.min(hull.width, hull.height) / 2 : 10,
    })),
    edges.filter((edge) => edge.text).map((edge) => edgeText(edge, nodes, width)),
    nodes.map((node, index) => nodeOf(view, node, index)),
    hulls.filter((hull) => hull.text).map((hull) => svg("text", {
      class: "quiet", x: hull.x + hull.width / 2, y: Math.min(hull.y + hull.height + 14, height - 3),
    }, hull.text)));
  }

  function edgeText(edge, nodes, width) {
    const a = nodes[edge.from];
    const b = nodes[edge.to];
    const x = (a.x + b.x) / 2;
    const y = (a.y + b.y) / 2;
    const upright = Math.abs(a.x - b.x) < 1;
    const left = upright && x + 60 > width;
    return svg("text", {
      class: "quiet", x: upright ? x + (left ? -30 : 34) : x, y: y + 4,
      style: upright ? { "text-anchor": left ? "end" : "start" } : {},
    }, edge.text);
  }

  function nodeOf(view, node, index) {
    const label = view.labels[index] + (node.draws > 1 ? ` \u00d7${node.draws}` : "");
    const medoid = index === view.medoid;
    const small = node.r < 20;
    return svg("g", {
      class: `node ${tone(node.cluster)} ${index === view.shown ? "on" : ""}`,
      transform: `translate(${node.x} ${node.y})`, tabindex: "0", role: "button",
      "aria-label": `candidate ${label}${medoid ? ", medoid" : ""}`, data: { key: `node ${index}` },
      onclick: () => send("look", { candidate: index }),
      onkeydown: (event) => { if (event.key === "Enter") send("look", { candidate: index }); },
    },
    outline(shape(node.cluster), node.r),
    medoid && svg("path", { class: "medoid", d: STAR, transform: small ? `translate(0 ${-node.r - 7}) scale(.8)` : "translate(0 -6)" }),
    svg("text", { y: medoid && !small ? 14 : 4 }, small && node.draws > 1 ? view.labels[index] : label));
  }

  function outline(kind, r) {
    if (kind === "circle") return svg("circle", { r });
    if (kind === "square") return svg("rect", { x: -r, y: -r, width: 2 * r, height: 2 * r, rx: 3 });
    const corners = { diamond: 4, triangle: 3, hexagon: 6 }[kind];
    const points = Array.from({ length: corners }, (_, i) => {
      const angle = (2 * Math.PI * i) / corners - Math.PI / 2;
      return `${(1.15 * r * Math.cos(angle)).toFixed(1)},${(1.15 * r * Math.sin(angle)).toFixed(1)}`;
    });
    return svg("polygon", { points: points.join(" ") });
  }

  function matrix(view) {
    const names = view.order.map((index) => view.labels[index]);
    return h("table", { class: "matrix" },
      h("thead", {}, h("tr", {}, h("th", {}), names.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, view.matrix.map((row, i) => h("tr", {}, h("th", { scope: "row" }, names[i]),
        row.map((cell) => h("td", { class: `mass-${cell.level}` }, cell.text))))));
  }

  function cardOf(view, card) {
    const on = card.index === view.shown;
    return h("button", {
      type: "button", class: on ? "card on" : "card", "aria-pressed": String(on),
      data: { key: `card ${card.index}` }, onclick: () => send("look", { candidate: card.index }),
      ondblclick: () => { if (!card.medoid) SpecGuard.depart("choose", { candidate: card.index }); },
    },
    h("span", { class: "line" },
      h("i", { class: `glyph ${shape(card.cluster)} ${tone(card.cluster)}` }), h("b", {}, card.label),
      h("span", { class: "quiet" }, card.draws),
      card.medoid && [star(), h("span", { class: "quiet" }, "medoid")],
      h("span", { class: "space" }),
      card.score && [h("span", { class: "quiet" }, card.score_label),
        h("b", { class: card.score.accepted ? "score" : "score refused" },
          icon(card.score.accepted ? "yes" : "no"), card.score.text)]),
    h("span", { class: "words mono" }, marked(card.text)),
    h("span", { class: "facts" }, card.facts.filter((fact) => fact[1]).map(([name, value]) => [
      h("span", { class: "quiet" }, name), h("span", {}, value)])));
  }

  function writtenOf(view, card) {
    const on = card.index === view.shown;
    return h("button", {
      type: "button", class: on ? "card on" : "card", "aria-pressed": String(on),
      data: { key: "card written" }, onclick: () => send("look", { candidate: card.index }),
    },
    h("span", { class: "line" }, h("i", { class: "glyph written" }), h("b", {}, card.title),
      h("span", { class: "space" }), h("span", { class: "quiet" }, card.note)),
    h("span", { class: "words mono" }, marked(card.text)));
  }

  function marked(parts) {
    const tags = { same: "span", kept: "q", cut: "del", new: "ins" };
    return parts.map((part) => h(tags[part.kind], {}, part.text));
  }

  SpecGuard.register("candidates", { draw });
})();

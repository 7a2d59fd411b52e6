// The timeline: a block per step, width tokens, height score; lines for readings; a scrubber.
(() => {
  const { h, svg, icon, send } = SpecGuard;

  const share = (value) => `${(100 * value).toFixed(3)}%`;

  let held = false;
  let wide = 0;
  let drawn = null;
  // Accepted steps, forced or not, are checked; what was refused is crossed.
  const MARKS = { edited: "edit", target: "diamond" };

  const scrolledBy = (root) => { const old = root.querySelector(".scroller"); return old ? old.scrollLeft : 0; };

  function draw(root, view, left = scrolledBy(root)) {
    // While the handle is held it is not drawn anew under the hand; blocks are.
    if (held && root.querySelector(".handle")) { restale(root, view); return; }
    const before = drawn;
    drawn = view;
    if (before && lasting(before) === lasting(view) && view.cursor > 0 && root.querySelector(".selected")) {
      rejudge(root, before, view);
      moveTo(root, view);
      return;
    }
    const axis = h("div", { class: "axis" }, h("h2", {}, "Timeline", view.blocks.length > 0 && SpecGuard.picture("timeline")), view.branch && h("em", { title: "branch" }, view.branch),
      h("span", { style: { bottom: "100%" } }, "1"), h("span", { style: { bottom: "50%" } }, "0.5"),
      h("span", { style: { bottom: "0" } }, "0"));
    if (!view.blocks.length) {
      SpecGuard.put(root, axis, h("div", { class: "track blank" },
        h("div", { class: "plot" }, grid(), threshold(view)),
        h("p", { class: "empty" }, view.unit === "block"
          ? "Each block of drafted tokens will stand here: as wide as what it kept, as high as the share accepted. Press Step."
          : "Each step will stand here as a block: as wide as its tokens, as high as its score. Press Step.")),
        h("div", { class: "side" }));
      return;
    }
    const places = layout(view);
    const width = places.wide ? `${places.wide}px` : "100%";
    const inner = h("div", { class: "inner", style: { width } },
      h("div", { class: "labels" }, view.blocks.map((block, i) => label(view, block, places[i], i))),
      h("div", { class: "plot" }, grid(), selected(view, places),
        view.blocks.map((block, i) => bar(view, block, places[i], i)),
        lines(view, places), marks(view, places), threshold(view)),
      h("div", { class: "texts" }, view.blocks.map((block, i) => text(block, places[i]))),
      scrubber(view, places));
    const scroller = h("div", { class: "scroller" }, inner);
    SpecGuard.put(root, axis, h("div", { class: "track" }, scroller), side(view));
    SpecGuard.settle(() => {
      fit([...root.querySelectorAll(".label")]);
      scroller.scrollLeft = left;
      return reveal(scroller, inner, places[chosen(view)]);
    });
  }

  // All of a view but where one looks and by which threshold: while it is the same, the blocks stay.
  function lasting(view) {
    const blocks = view.blocks.map((block) => ({ ...block, stale: false, flips: false }));
    return JSON.stringify({ ...view, blocks, cursor: 0, gate: view.gate && { ...view.gate, now: 0, now_text: "", turned: false } });
  }

  function rejudge(root, before, view) {
    const places = layout(view);
    const labels = root.querySelectorAll(".label");
    const other = view.blocks.flatMap((block, i) => (block.stale === before.blocks[i].stale && block.flips === before.blocks[i].flips ? [] : [i]));
    const fresh = other.map((i) => label(view, view.blocks[i], places[i], i));
    other.forEach((i, order) => labels[i].replaceWith(fresh[order]));
    if (other.length) restale(root, view);
    if (JSON.stringify(before.gate) !== JSON.stringify(view.gate)) {
      root.querySelectorAll(".plot > .threshold").forEach((element) => element.remove());
      root.querySelector(".inner > .plot").append(...threshold(view));
      root.querySelector(".side").replaceWith(side(view));
    }
    if (fresh.length) SpecGuard.settle(() => fit(fresh));
  }

  // Another place in the same run: what stands on the chosen step moves, the blocks stay.
  function moveTo(root, view) {
    const places = layout(view);
    const at = chosen(view);
    const scroller = root.querySelector(".scroller");
    root.querySelectorAll(".label").forEach((element, i) => {
      element.classList.toggle("on", i === at);
      element.setAttribute("aria-pressed", String(i === at));
      const hit = element.querySelector(".hit");
      if (hit) hit.classList.toggle("armed", i > at);
    });
    root.querySelector(".selected").replaceWith(selected(view, places));
    root.querySelectorAll(".plot > .caption").forEach((element) => element.remove());
    root.querySelector(".inner > .plot").append(...captions(view, places));
    root.querySelector(".scrubber").replaceWith(scrubber(view, places));
    SpecGuard.settle(() => reveal(scroller, scroller.firstChild, places[at]));
  }

  // A label that is too long for its block gives up its tokens, then its word, then its score;
  // the mark and the title still say them.
  function fit(labels) {
    for (const less of ["tight", "terse", "unscored"]) {
      const long = labels.filter((label) => label.scrollWidth > label.clientWidth + 1);
      long.forEach((label) => label.classList.add(less));
      if (!long.length) return;
    }
  }

  new ResizeObserver(() => {
    const { roots, views } = SpecGuard;
    const now = document.documentElement.clientWidth;
    if (now === wide) return;
    const first = wide === 0;
    wide = now;
    drawn = null;
    if (!first && roots.timeline) draw(roots.timeline, views.timeline);
  }).observe(document.documentElement);

  function restale(root, view) {
    root.querySelectorAll(".inner > .plot > .block").forEach((element, i) => element.classList.toggle("stale", view.blocks[i].stale));
    root.querySelectorAll(".label").forEach((element, i) => element.classList.toggle("stale", view.blocks[i].stale));
    root.querySelectorAll(".text").forEach((element, i) => element.classList.toggle("stale", view.blocks[i].stale));
  }

  const chosen = (view) => Math.max(Math.ceil(view.cursor / view.n_phases) - 1, 0);

  // Shares of the width; blocks never get narrower than is legible, the strip scrolls instead.
  function layout(view) {
    const least = view.unit === "block" ? 64 : 92;
    const room = Math.max((wide || document.documentElement.clientWidth || 1280) - 200, 400);
    const natural = view.blocks.map((block) => Math.max((block.tokens / view.scale) * room, least));
    const sum = natural.reduce((a, b) => a + b, 0);
    const whole = Math.max(sum, room);
    let at = 0;
    const places = natural.map((width) => {
      const place = { left: at / whole, width: width / whole };
      at += width;
      return place;
    });
    places.forEach((place) => { place.pixels = (place.width * Math.max(sum, room)); });
    places.wide = sum > room * 1.001 ? Math.round(sum) : 0;
    return places;
  }

  function grid() {
    return h("div", { class: "grid", "aria-hidden": "true" });
  }

  function spot(place) {
    return { left: share(place.left), width: share(place.width) };
  }

  function label(view, block, place, index) {
    const refused = block.kind.includes("fallback");
    const current = index === chosen(view) && view.cursor > 0;
    return h("button", {
      type: "button", class: `label ${current ? "on" : ""} ${block.stale ? "stale" : ""}`, style: spot(place),
      "aria-pressed": String(current), data: { key: `step ${index}` },
      title: hint(view, block),
      onclick: () => send("look", { step: index }),
    },
    block.hits.length > 0 && h("i", { class: index > chosen(view) ? "hit armed" : "hit", title: `breakpoint: ${block.hits.join(", ")}` }),
    h("b", {}, block.number),
    h("span", { class: refused ? "word refused" : "word" },
      block.kind !== "open" && block.kind !== "partial" && icon(refused ? "no" : MARKS[block.kind] || "yes"), block.word),
    h("em", { class: "stale-word" }, "stale"),
    block.wrong && h("em", { class: "wrong-word", title: block.wrong }, "wrong"),
    block.flips && h("em", { class: "flips-word" }, "flips"),
    block.score_text && h("b", { class: "score" }, block.score_text),
    h("span", { class: "quiet" }, block.tokens_text),
    block.attempt && h("span", { class: "quiet" }, block.attempt),
    remarks(block, index));
  }

  // Branches that leave here, and a note; each opens its table.
  function remarks(block, index) {
    const mark = (name, title, words, tab) => h("span", {
      class: "remark", title, onclick: (event) => {
        event.stopPropagation();
        send("look", { step: index });
        SpecGuard.openTable(tab);
      },
    }, icon(name), words && h("span", {}, words));
    const forks = block.forks || [];
    return [
      forks.length > 0 && mark("fork", `branches here: ${forks.join(", ")}`, forks.length > 1 ? String(forks.length) : forks[0], "tree"),
      block.note && mark("note", `note: ${block.note}`, "", "notes"),
    ];
  }

  function bar(view, block, place, index) {
    const height = block.score === null ? 0.06 : Math.min(Math.max(block.score, 0.02), 1);
    const level = block.score === null ? "" : `signal-${block.level}`;
    return h("div", {
      class: `block ${block.kind} ${block.stale ? "stale" : ""}`, style: { ...spot(place), height: share(height) },
      title: hint(view, block), onclick: () => send("look", { step: index }),
    }, h("div", { class: level }));
  }

  function hint(view, block) {
    const parts = block.readings.map((reading) => `${reading.name} ${reading.text}`);
    return [block.hint || `${view.unit} ${block.number}, ${block.word}`, ...parts, block.wrong && `wrong: ${block.wrong}`].filter(Boolean).join("\n");
  }

  function selected(view, places) {
    if (view.cursor === 0) return null;
    return h("div", { class: "selected", style: spot(places[chosen(view)]), "aria-hidden": "true" });
  }

  const middle = (place) => place.left + place.width / 2;

  function names(view) {
    const found = [];
    for (const block of view.blocks) {
      for (const reading of block.readings) if (!found.includes(reading.name)) found.push(reading.name);
    }
    return found.slice(0, 2);
  }

  function lines(view, places) {
    return svg("svg", { class: "lines", viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
      names(view).map((name, order) => {
        const points = view.blocks.flatMap((block, i) => {
          const reading = block.readings.find((r) => r.name === name);
          return reading ? [`${(100 * middle(places[i])).toFixed(3)},${(100 - 100 * reading.value).toFixed(2)}`] : [];
        });
        return svg("polyline", { class: order ? "dashed" : "", points: points.join(" ") });
      }));
  }

  function marks(view, places) {
    const out = [];
    view.blocks.forEach((block, i) => {
      names(view).forEach((name, order) => {
        const reading = block.readings.find((r) => r.name === name);
        if (!reading) return;
        const style = { left: share(middle(places[i])), bottom: share(reading.value) };
        out.push(h("u", { class: order ? "mark square" : "mark", style, "aria-hidden": "true" }));
      });
    });
    return [...out, ...captions(view, places)];
  }

  // The chosen step's readings in numbers.
  function captions(view, places) {
    if (view.cursor === 0) return [];
    const block = view.blocks[chosen(view)];
    const place = places[chosen(view)];
    return names(view).map((name) => block.readings.find((r) => r.name === name)).filter(Boolean)
      .map((reading) => caption(block, reading, place));
  }

  // Of two close ones the lower stands below its mark.
  function caption(block, reading, spotted) {
    const others = block.readings.filter((r) => r.name !== reading.name);
    const lower = others.some((r) => r.value > reading.value || (r.value === reading.value && r.name < reading.name));
    const words = `${reading.name} ${reading.text}`;
    // Beside its mark where the block has room for it, else over or under it.
    const half = 3 * words.length + 7;
    const beside = spotted.pixels / 2 > 2 * half;
    // One over its mark stays within the strip.
    const edge = half / (spotted.pixels / spotted.width);
    const centre = Math.min(Math.max(middle(spotted), edge), 1 - edge);
    const away = beside ? 0.13 : 0.2;
    // At either edge the other one keeps its room.
    const most = lower ? 0.92 - 2 * away : 0.92;
    const least = lower || others.length === 0 ? 0.08 : 0.08 + 2 * away;
    const place = Math.min(Math.max(reading.value + (lower ? -away : away), least), most);
    return h("span", { class: `caption ${beside ? "" : "centred"}`, style: { left: share(beside ? middle(spotted) : centre), bottom: share(place) } }, words);
  }

  const high = (value) => share(Math.min(Math.max(value, 0), 1));

  function threshold(view) {
    const { gate } = view;
    return gate && [h("div", { class: "threshold", style: { bottom: high(gate.threshold) }, "aria-hidden": "true" }),
      h("div", { class: "threshold now", style: { bottom: high(gate.now) }, "aria-hidden": "true", hidden: !gate.turned })];
  }

  // The handle judges the recorded run by another threshold; the line of the run stays where it was.
  function side({ gate }) {
    if (!gate) return h("div", { class: "side" });
    const near = Math.abs(gate.now - gate.threshold) < 0.2;
    const handle = h("span", {
      class: gate.turned ? "handle turned" : "handle", tabindex: "0", role: "slider", "aria-label": "threshold",
      "aria-valuemin": 0, "aria-valuemax": 1.01, "aria-valuenow": gate.now, "aria-orientation": "vertical",
      title: "Drag, or up and down: what flips at another threshold", style: { bottom: high(gate.now) },
      data: { key: "threshold handle" },
    }, SpecGuard.svg("svg", { viewBox: "0 0 8 12", "aria-hidden": "true" }, SpecGuard.svg("path", { d: "M2 3v6M6 3v6" })),
    h("em", {}, gate.turned ? `what-if ${gate.now_text}` : `threshold ${gate.now_text}`));
    let value = gate.now;
    const show = (next) => {
      value = Math.min(Math.max(Math.round(next * 100) / 100, 0), 1.01);
      moveLine(handle, gate, value);
      SpecGuard.turn(gate.knob, Number((value * gate.whole).toFixed(6)));
    };
    handle.addEventListener("keydown", (event) => {
      const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      show(value + by * (event.shiftKey ? 0.1 : 0.01));
    });
    handle.addEventListener("dblclick", () => show(gate.threshold));
    handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      handle.focus({ preventScroll: true });
      held = true;
      const plot = SpecGuard.roots.timeline.querySelector(".plot").getBoundingClientRect();
      const move = (moved) => show((plot.bottom - moved.clientY) / plot.height);
      const drop = () => {
        held = false;
        drawn = null;
        window.removeEventListener("pointermove", move);
        draw(SpecGuard.roots.timeline, SpecGuard.views.timeline);
      };
      window.addEventListener("pointermove", move);
      window.addEventListener("pointerup", drop, { once: true });
    });
    return h("div", { class: "side" },
      gate.turned && h("span", { class: `at ${near ? (gate.now < gate.threshold ? "over" : "beneath") : ""}`, style: { bottom: high(gate.threshold) } },
        `as run ${gate.threshold_text}`), handle);
  }

  function moveLine(handle, gate, value) {
    const turned = value !== gate.threshold;
    const line = SpecGuard.roots.timeline.querySelector(".threshold.now");
    line.hidden = !turned;
    line.style.bottom = high(value);
    handle.style.bottom = high(value);
    handle.classList.toggle("turned", turned);
    handle.querySelector("em").textContent = `${turned ? "what-if" : "threshold"} ${(value * gate.whole).toFixed(2)}`;
  }

  function text(block, place) {
    return h("div", { class: `text ${block.kind} ${block.stale ? "stale" : ""}`, style: spot(place), title: block.text },
      block.by && h("b", {}, block.by), h("span", { class: "mono" }, block.text));
  }

  function scrubber(view, places) {
    const stops = [];
    const total = view.last;
    const x = (cursor) => {
      if (cursor === 0) return 0;
      const index = Math.min(Math.floor((cursor - 1) / view.n_phases), places.length - 1);
      const phase = (cursor - 1) % view.n_phases;
      return places[index].left + (places[index].width * (phase + 1)) / (view.n_phases + (phase === view.n_phases - 1 ? 0.35 : 0));
    };
    for (let cursor = 1; cursor <= total; cursor += 1) {
      stops.push(h("i", { style: { left: share(x(cursor)) } }));
    }
    const name = view.cursor === 0 ? `before ${view.unit} 1`
      : `${view.unit} ${chosen(view) + 1}, ${view.phases[(view.cursor - 1) % view.n_phases]}`;
    const thumb = h("u", {
      class: "thumb", tabindex: "0", role: "slider", "aria-label": "Place in the run",
      "aria-valuemin": "0", "aria-valuemax": total, "aria-valuenow": view.cursor, "aria-valuetext": name,
      title: name, style: { left: share(x(view.cursor)) }, data: { key: "scrubber" },
    });
    const last = places[places.length - 1];
    const rail = h("div", { class: "scrubber" },
      h("s", { style: { width: share(last.left + last.width) } }), stops, thumb);
    const go = (cursor) => {
      const bounded = Math.min(Math.max(cursor, 0), total);
      if (bounded !== view.cursor) send("look", { cursor: bounded });
    };
    thumb.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (by) { event.preventDefault(); event.stopPropagation(); go(view.cursor + by * (event.shiftKey ? view.n_phases : 1)); }
    });
    rail.addEventListener("pointerdown", (event) => {
      const box = rail.getBoundingClientRect();
      const nearest = (clientX) => {
        const at = (clientX - box.left) / box.width;
        let best = 0;
        for (let cursor = 0; cursor <= total; cursor += 1) {
          if (Math.abs(x(cursor) - at) < Math.abs(x(best) - at)) best = cursor;
        }
        return best;
      };
      const drag = (moved) => { thumb.style.left = share(x(nearest(moved.clientX))); };
      const drop = (up) => {
        window.removeEventListener("pointermove", drag);
        go(nearest(up.clientX));
      };
      drag(event);
      window.addEventListener("pointermove", drag);
      window.addEventListener("pointerup", drop, { once: true });
    });
    return rail;
  }

  // What is chosen is in view; a job of its own, since it asks how wide all is.
  function reveal(scroller, inner, place) {
    if (!place) return null;
    const left = place.left * inner.offsetWidth;
    const right = left + place.width * inner.offsetWidth;
    const { scrollLeft, clientWidth } = scroller;
    if (left < scrollLeft) return () => { scroller.scrollLeft = left; };
    return right > scrollLeft + clientWidth ? () => { scroller.scrollLeft = right - clientWidth; } : null;
  }

  SpecGuard.register("timeline", { draw, keep: scrolledBy });
})();

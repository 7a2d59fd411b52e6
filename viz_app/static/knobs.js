// Knobs: sliders that re-judge the recorded run at once, and the verdicts that flip.
//
// dragging    the handle follows at once; the server hears of the newest value only when it has
//             answered the one before, so a fast hand never builds a queue
(() => {
  const { h, head, icon, send } = SpecGuard;
  let waiting = null;
  let asked = false;
  let dragging = false;
  let late = null;
  let moreOpen = false;

  SpecGuard.turn = (knob, value) => {
    waiting = { knob, value };
    pump();
  };

  function pump() {
    if (asked || !waiting) return;
    asked = true;
    const next = waiting;
    waiting = null;
    send("look", next);
    clearTimeout(late);
    late = setTimeout(() => { asked = false; pump(); }, 3000);
  }

  function draw(root, view) {
    asked = false;
    if (waiting) { pump(); return; }
    if (dragging) { flips(root.querySelector(".flips"), view); return; }
    // A strategy with next to nothing to re-judge shows what a new run may change at any height.
    const alone = view.sliders.length < 3;
    const more = view.sliders.length > 4 || view.choices.length > 1;
    SpecGuard.put(root,
      head("Knobs", view.note, view.changed && h("button", {
        type: "button", class: "plain link", data: { key: "knobs reset" },
        title: "Judge by the run's own knobs", onclick: () => send("look", { knobs: "run" }),
      }, "Reset")),
      view.sliders.slice(0, 4).map((knob) => slider(knob, SpecGuard.turn)),
      view.choices.length + view.switches.length > 0 && h("div", { class: "line" }, view.choices.slice(0, 1).map((item) => choice(item)),
        h("span", { class: "space" }), h("span", { class: "switches" }, view.switches.map((item) => toggle(item)))),
      calibration(view),
      more && h("details", {
        class: "more", open: moreOpen, ontoggle: (event) => { moreOpen = event.currentTarget.open; },
      }, h("summary", { data: { key: "more knobs" } }, "More knobs"),
        view.sliders.slice(4).map((knob) => slider(knob, SpecGuard.turn)),
        h("div", { class: "line" }, view.choices.slice(1).map((item) => choice(item, null, item.key === "selection_method" ? view.unrecorded : [])))),
      !alone && h("p", { class: "quiet line short" }, view.sampling_text, h("span", { class: "space" }), "need a re-run"),
      h("div", { class: alone ? "alone" : "tall" }, h("h3", {}, "Sampling ", h("span", { class: "quiet" }, "a change starts a new run")),
        view.sampling.map((knob) => slider(knob, null)),
        h("div", { class: "line" }, view.fresh_choices.map((item) => choice(item, "setup")),
          view.fresh_switches.map((item) => toggle(item, "setup")))),
      h("div", { class: "flips" }));
    const note = root.querySelector(".head .note");
    if (note && view.differs) note.title = view.differs;
    flips(root.querySelector(".flips"), view);
  }

  const share = (knob, value) => Math.min(Math.max((value - knob.low) / (knob.high - knob.low), 0), 1);
  const percent = (knob, value) => `${(100 * share(knob, value)).toFixed(2)}%`;

  // `turn` is null for a sampling knob: it takes effect when it is let go, in a new run.
  function slider(knob, turn) {
    const off = Boolean(knob.off);
    const fill = h("i", { style: { width: percent(knob, knob.value) } });
    const thumb = h("u", {
      role: "slider", tabindex: off ? null : "0", "aria-label": knob.word, "aria-disabled": String(off),
      "aria-valuemin": knob.low, "aria-valuemax": knob.high, "aria-valuenow": knob.value,
      style: { left: percent(knob, knob.value) }, data: { key: `knob ${knob.key}` },
    });
    const output = h("output", {}, knob.text);
    const rail = h("div", { class: "rail" }, fill,
      h("s", { style: { left: percent(knob, knob.preset) }, title: "preset" }), thumb);
    let value = knob.value;
    const show = (next) => {
      value = snap(knob, next);
      fill.style.width = percent(knob, value);
      thumb.style.left = percent(knob, value);
      thumb.setAttribute("aria-valuenow", value);
      output.textContent = value.toFixed(knob.decimals).replace("-", "\u2212");
      if (turn) turn(knob.key, value);
    };
    const settle = () => { if (!turn && value !== knob.value) send("setup", { knob: knob.key, value }); };
    if (!off) {
      rail.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        thumb.focus({ preventScroll: true });
        drag(rail, event, (at) => show(knob.low + at * (knob.high - knob.low)), settle);
      });
      thumb.addEventListener("keydown", (event) => {
        const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
        if (!by) return;
        event.preventDefault();
        event.stopPropagation();
        show(value + by * knob.grain * (event.shiftKey ? 10 : 1));
        settle();
      });
      rail.addEventListener("dblclick", () => { show(knob.run); settle(); });
    }
    return h("div", {
      class: `knob ${knob.changed ? "changed" : ""} ${off ? "off" : ""} ${turn ? "" : "sampling"}`,
      title: off ? knob.off : knob.sentence,
    }, h("label", {}, knob.word), rail, output);
  }

  function snap(knob, value) {
    const steps = Math.round((value - knob.low) / knob.grain);
    const snapped = Number((knob.low + steps * knob.grain).toFixed(6));
    return Math.min(Math.max(snapped, knob.low), knob.high);
  }

  function drag(rail, event, show, settle) {
    const box = rail.getBoundingClientRect();
    const at = (moved) => Math.min(Math.max((moved.clientX - box.left) / box.width, 0), 1);
    dragging = true;
    show(at(event));
    const move = (moved) => show(at(moved));
    const drop = () => {
      dragging = false;
      window.removeEventListener("pointermove", move);
      settle();
      const { roots, views } = SpecGuard;
      if (!waiting && !asked) draw(roots.knobs, views.knobs);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", drop, { once: true });
  }

  // Bounds that were never measured for this pair are called so, and can be measured here.
  function calibration(view) {
    if (!view.uncalibrated && !view.calibrated) return null;
    if (!view.uncalibrated) return h("p", { class: "quiet calibrated" }, view.calibrated);
    const ask = (problems) => send("drive", problems ? { move: "calibrate", problems } : { move: "calibrate" });
    const file = () => {
      const input = h("input", { type: "file", accept: ".jsonl,.json,application/json" });
      input.addEventListener("change", async () => ask(await input.files[0].text()));
      input.click();
    };
    return h("p", { class: "line calibration" }, h("b", { class: "refused", title: view.uncalibrated }, "uncalibrated"),
      h("button", {
        type: "button", needs: "models", data: { key: "calibrate" }, title: `${view.uncalibrated}. Measures what is usual for this pair on 40 problems; for this session`,
        onclick: () => ask(null),
      }, "Calibrate"),
      h("button", {
        type: "button", class: "plain link", needs: "models", data: { key: "calibrate file" }, title: "On problems of a file: JSON lines with a question each", onclick: file,
      }, "on a file"));
  }

  function choice(item, event, off) {
    const list = h("select", {
      "aria-label": item.word, title: item.sentence, class: item.changed ? "changed" : null,
      data: { key: `knob ${item.key}` },
      onchange: () => send(event || "look", { knob: item.key, value: list.value }),
    }, item.options.map((option) => h("option", {
      value: option, selected: option === item.value, disabled: (off || []).includes(option), title: (off || []).includes(option) ? "not recorded" : null,
    }, option)));
    return h("label", { class: "choice" }, h("span", { class: "quiet" }, item.word), list);
  }

  function toggle(item, event) {
    return h("button", {
      type: "button", class: `switch ${item.changed ? "changed" : ""}`, "aria-pressed": String(item.on),
      disabled: Boolean(item.off), title: item.off || item.sentence, data: { key: `knob ${item.key}` },
      onclick: () => send(event || "look", { knob: item.key, value: !item.on }),
    }, icon(item.on ? "yes" : "no"), item.word);
  }

  function flips(element, view) {
    if (!element) return;
    element.hidden = view.flips === null;
    if (view.flips === null) return;
    if (view.trouble) {
      SpecGuard.put(element, h("p", { class: "refused" }, icon("no"), view.trouble));
      return;
    }
    const count = view.flips.length;
    SpecGuard.put(element,
      h("h3", {}, count === 1 ? "1 step flips at this setting" : `${count || "No"} steps flip at this setting`),
      h("ul", {}, view.flips.map((flip) => h("li", {}, h("button", {
        type: "button", class: "plain", title: flip.certain ? "" : "stands on a step that flips: uncertain",
        data: { key: `flip ${flip.step}` }, onclick: () => send("look", { step: flip.step }),
      }, h("b", {}, `step ${flip.step + 1}`), h("span", { class: "space" }), flip.change,
      h("u", { class: flip.certain ? "" : "quiet" }, flip.sum))))),
      h("footer", {}, h("span", {}, view.stale), h("span", { class: "space" }),
        view.first !== null && h("button", {
          type: "button", needs: "models", data: { key: "rerun" }, title: "A branch: the run again from there, at these knobs",
          onclick: () => send("drive", { move: "rerun", step: view.first }),
        }, icon("reset"), `Re-run from step ${view.first + 1}`)));
  }

  // An answer without news is one, too: a hand on a knob is let go on.
  SpecGuard.register("knobs", { draw, always: true });
})();

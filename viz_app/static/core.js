// What every panel's renderer stands on. Knows no panel by name.
//
// view     the JSON a panel draws, sent by the server
// renderer {draw(root, view)}: builds the panel's DOM; model text only ever enters by textContent
// choice   what a person picked in the browser alone (token, colouring, tab); costs no round trip
// bus      the events that reach the server: drive (models), look, setup, stop, save, keep
// answer   what comes back: the views of the panels that changed, in one value
window.SpecGuard = (() => {
  const renderers = {};
  const roots = {};
  const views = {};
  const texts = {};
  const listeners = [];
  const choice = { token: null, mode: "confidence", candidates: "graph", why: "run" };
  let bus = null;
  let locked = false;
  let jobs = null;
  let refocus = null;
  // A report runs its scripts at its end; a page runs them before there is anything in it.
  const isReport = document.querySelector(".sg-report") !== null;

  function mount(name, element, props, watch, trigger, events) {
    const redraw = () => {
      const root = element.querySelector(".sg");
      if (!root || !props.value) return;
      roots[name] = root;
      texts[name] = null;
      together(() => show(name, JSON.parse(props.value)));
    };
    if (events) bus = trigger;
    watch("value", redraw);
    redraw();
  }

  // One panel that fails to draw leaves the others standing.
  function show(name, view, kept) {
    views[name] = view;
    try {
      keepingFocus(roots[name], () => renderers[name].draw(roots[name], view, kept));
    } catch (error) { reportError(error); }
    if (name === "top" && view.locked && !locked) lockAll();
  }

  // An answer: the views of all panels that an event concerns. What is the same stands as it is.
  function answer(changed) {
    const news = Object.keys(changed).filter((name) => {
      const text = JSON.stringify(changed[name]);
      const same = texts[name] === text && !renderers[name].always;
      texts[name] = text;
      return !same && roots[name];
    });
    // Each panel may ask what another one shows.
    for (const name of news) views[name] = changed[name];
    // How far things are scrolled is asked while the layout still stands.
    const kept = news.map((name) => renderers[name].keep && renderers[name].keep(roots[name]));
    together(() => news.forEach((name, order) => show(name, changed[name], kept[order])));
  }

  // A panel that was altered in the browser is drawn by the next answer, even by one that says the
  // same as the last.
  function altered(name) {
    texts[name] = null;
  }

  // Panels that were drawn before it was known that no model may work here.
  function lockAll() {
    locked = true;
    for (const name of Object.keys(roots)) if (name !== "top") renderers[name].draw(roots[name], views[name]);
  }

  // keep: what is handed to `draw` of how the panel stands; always: to be drawn by every answer,
  // even by one that says the same.
  function register(name, renderer) {
    renderers[name] = renderer;
  }

  // A job reads the layout and returns what is to be written after it. While panels are drawn, jobs
  // wait until all of them are: the browser then lays the page out once, not at every question.
  function settle(job) {
    if (jobs) { jobs.push(job); return; }
    const write = job();
    if (write) write();
  }

  function together(draw) {
    if (jobs) { draw(); return; }
    jobs = [];
    draw();
    const due = jobs;
    jobs = null;
    const writes = due.map((job) => job());
    for (const write of writes) if (write) write();
    if (refocus) refocus();
    refocus = null;
  }

  // Redrawing a panel must not throw a keyboard user back to the top of the page.
  function keepingFocus(root, redraw) {
    const held = root.contains(document.activeElement) ? document.activeElement : null;
    redraw();
    if (!held || !held.dataset.key || held.isConnected) return;
    refocus = () => {
      const again = root.querySelector(`[data-key="${CSS.escape(held.dataset.key)}"]`);
      if (again) again.focus({ preventScroll: true });
    };
  }

  // Until the server answers, the page says what it waits for; nothing is shown as done.
  function send(event, data) {
    if (!bus) return;
    if (event === "drive" && views.top && views.top.locked) { window.SpecGuard.notice(views.top.locked); return; }
    if (window.SpecGuard.offline && window.SpecGuard.offline(event, data || {})) return;
    const position = event === "drive" && document.querySelector(".sg-top .position");
    if (position) { position.textContent = "waiting for the models"; altered("top"); }
    // What the page shows goes with it: a server that has lost the run must not answer for another.
    bus(event, { ...data, kept: views.top ? views.top.kept : "" });
  }

  function pick(changes) {
    Object.assign(choice, changes);
    for (const listener of listeners) listener(changes);
  }

  function onPick(listener) {
    listeners.push(listener);
  }

  // Whether a key belongs to what is being typed, or to the browser.
  function typing(event) {
    return event.target.closest("input, textarea, select, [contenteditable]") !== null
      || event.ctrlKey || event.metaKey || event.altKey;
  }

  // An element; text and children are nodes or strings, never markup.
  function h(tag, properties, ...children) {
    const element = document.createElement(tag);
    fill(element, properties);
    add(element, children);
    if (properties && properties.needs === "models") lock(element);
    return element;
  }

  // What makes models work cannot be pressed where none may, and says why.
  function lock(element) {
    const reason = views.top && views.top.locked;
    if (!reason) return;
    element.disabled = true;
    element.title = reason;
  }

  function fill(element, properties) {
    for (const [key, value] of Object.entries(properties || {})) {
      if (value === null || value === undefined || value === false || key === "needs") continue;
      if (key === "class") element.setAttribute("class", value);
      else if (key === "style") for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
      else if (key === "data") for (const [k, v] of Object.entries(value)) element.dataset[k] = v;
      else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else element.setAttribute(key, value === true ? "" : value);
    }
  }

  function add(element, children) {
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === false || child === "") continue;
      element.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
  }

  // The children take the place of what was there.
  function put(element, ...children) {
    element.replaceChildren();
    add(element, children);
  }

  function svg(tag, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    fill(element, attributes);
    add(element, children);
    return element;
  }

  const ICONS = {
    first: "M3.5 3v10M13 3.5 6.5 8l6.5 4.5z",
    back: "M12 3.5 5.5 8l6.5 4.5z",
    step: "M3.5 3.5 10 8l-6.5 4.5zM12.5 3v10",
    phase: "M3 8h2M7 8h2M10.5 4.5 14 8l-3.5 3.5",
    run: "M2 3.5 7 8l-5 4.5zM8 3.5 13 8l-5 4.5zM14.5 3v10",
    stop: "M4 4h8v8H4z",
    reset: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3h-3",
    yes: "M3 8.5 6.5 12 13 4.5",
    no: "M4 4l8 8M12 4l-8 8",
    copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
    load: "M8 10.5V2.500M5 5.500l3-3 3 3M2.500 10v3.500h11V10",
    save: "M8 2.500v8M5 7.500l3 3 3-3M2.500 10v3.500h11V10",
    share: "M8 9.500v-7M5 5.500l3-3 3 3M5 7.500H3v6h10v-6h-2",
    fork: "M4.500 5.200v5.600M11.500 7.200c0 2.300-4 1.800-7 3.600M4.500 2.500v1M11.500 4.500v1",
    note: "M3 3h10v7l-3 3H3zM10 13v-3h3",
    plus: "M8 3v10M3 8h10",
    diamond: "M8 2.500 13.500 8 8 13.500 2.500 8z",
    edit: "M3 13l.6-3L10.500 3.100l2.400 2.400L6 12.400z",
  };

  function icon(name) {
    return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" },
      svg("path", { d: ICONS[name] }));
  }

  const STAR = "M0-7 2-2.300 7-2.100 3.100 1 4.400 6 0 3.200-4.400 6-3.100 1-7-2.100-2-2.300z";

  function star() {
    return svg("svg", { class: "star", viewBox: "-8 -8 16 16", "aria-hidden": "true" },
      svg("path", { d: STAR }));
  }

  function head(title, note, ...rest) {
    return h("header", { class: "head" }, h("h2", {}, title),
      note && h("span", { class: "quiet note" }, note), h("span", { class: "space" }), rest);
  }

  function empty(root, title, sentence) {
    put(root, head(title), h("p", { class: "empty" }, sentence), window.SpecGuard.offerRecordings(title));
  }

  // A row of options, one of them on; changes stay in the browser.
  function segments(label, options, current, choose) {
    return h("span", { class: "segments", role: "radiogroup", "aria-label": label },
      options.map((option) => h("button", {
        type: "button",
        role: "radio",
        "aria-checked": String(option.key === current),
        class: option.off || option.ask ? "off" : null,
        title: option.off || option.ask || option.title || null,
        disabled: Boolean(option.off),
        data: { key: `${label} ${option.key}` },
        onclick: () => choose(option.key),
      }, option.name)));
  }

  // A token as it stands in running text: white space marks are quiet.
  function token(text) {
    return [...text].map((c) => ("\u00b7\u21b5\u21e5\u240d".includes(c) ? h("i", {}, c) : c));
  }

  function ramp(kind, ends) {
    return h("span", { class: "ramp", "aria-hidden": "true" }, ends[0],
      Array.from({ length: kind === "split" ? 9 : 10 }, (_, level) => h("i", { class: `${kind}-${level}` })), ends[1]);
  }

  return {
    isReport, mount, answer, altered, register, settle, send, typing, pick, onPick, choice, roots, views,
    h, svg, put, icon, star, head, empty, segments, token, ramp, STAR,
  };
})();
SpecGuard.register("answer", {
  draw: (_, view) => {
    SpecGuard.answer(view.panels);
    if (view.opened) SpecGuard.opened(view.opened, view.panels.top.kept);
  },
});

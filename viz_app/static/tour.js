// Six hints on a first visit, one at a time, each beside what it speaks of and never over it.
//
// seen     kept in this browser once the tour was ended or walked through; it never comes back
(() => {
  const { h } = SpecGuard;
  const SEEN = "specguard tour";
  const GAP = 8;
  const HINTS = [
    ["#sg-top .transport", "Step", "Each press of Step lets the draft write one reasoning step and the rule judge it. Phase goes one transition at a time, Run to a breakpoint or the end."],
    ["#sg-timeline", "The run", "A block per step: as wide as its tokens, as high as its score. Click one to look at it; drag the threshold at the right to see which verdicts flip."],
    ["#sg-candidates", "What was proposed", "The draft's samples by cluster; the star marks the one that stands for them. Click another to see what would be if it had been chosen."],
    ["#sg-evidence", "What the tokens say", "Each token coloured by how sure the draft was or how much it draws from the problem. Click a token: where its mass enters, and what else it could have been."],
    ["#sg-right", "Why", "The verdict's sum to the digit, the tokens that decided it, and what would flip it. The knobs below judge the recorded run again, at once."],
    ["#sg-top .files", "Keep it", "Load, save, a report that opens offline, token tables, or a link to this run. Press ? for every key."],
  ];
  let at = -1;
  let box = null;

  function seen() {
    try { return localStorage.getItem(SEEN) !== null; } catch { return true; }
  }

  function end() {
    try { localStorage.setItem(SEEN, "seen"); } catch { /* private mode: it comes back next time */ }
    if (box) box.remove();
    box = null;
    document.querySelectorAll(".sg-toured").forEach((element) => element.classList.remove("sg-toured"));
  }

  function go(index) {
    if (index >= HINTS.length) { end(); return; }
    at = Math.max(index, 0);
    const [where, title, words] = HINTS[at];
    document.querySelectorAll(".sg-toured").forEach((element) => element.classList.remove("sg-toured"));
    const target = document.querySelector(where);
    if (!target) { end(); return; }
    target.classList.add("sg-toured");
    if (!box) {
      box = h("aside", { class: "sg sg-tour", role: "dialog", "aria-label": "Tour", "aria-live": "polite" });
      box.addEventListener("keydown", keys);
      document.getElementById("sg-page").append(box);
    }
    SpecGuard.put(box, h("b", {}, title), h("p", {}, words), h("footer", {},
      h("span", { class: "quiet" }, `${at + 1} of ${HINTS.length}`), h("span", { class: "space" }),
      h("button", { type: "button", class: "plain link", data: { key: "tour end" }, onclick: end }, "Do not show again"),
      at > 0 && h("button", { type: "button", data: { key: "tour back" }, onclick: () => go(at - 1) }, "Back"),
      h("button", { type: "button", class: "main", data: { key: "tour next" }, onclick: () => go(at + 1) }, at + 1 < HINTS.length ? "Next" : "Done")));
    place(target);
    box.querySelector(".main").focus({ preventScroll: true });
  }

  function keys(event) {
    const moves = { Escape: end, ArrowRight: () => go(at + 1), ArrowLeft: () => go(at - 1) };
    if (!moves[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    moves[event.key]();
  }

  // Beside a tall target, below or above a wide one, wherever there is room; where a target fills
  // the window there is none, and the hint stands at the foot.
  function place(target) {
    target.scrollIntoView({ block: "nearest" });
    const around = target.getBoundingClientRect();
    const own = box.getBoundingClientRect();
    const [wide, high] = [document.documentElement.clientWidth, document.documentElement.clientHeight];
    const inside = (value, size, room) => Math.min(Math.max(value, GAP), Math.max(room - size - GAP, GAP));
    const [x0, y0] = [inside(around.left, own.width, wide), inside(around.top, own.height, high)];
    const over = [[x0, around.bottom + GAP], [x0, around.top - own.height - GAP]];
    const beside = [[around.right + GAP, y0], [around.left - own.width - GAP, y0]];
    const spots = around.height > around.width ? [...beside, ...over] : [...over, ...beside];
    const fits = ([x, y]) => x >= 0 && y >= 0 && x + own.width <= wide && y + own.height <= high;
    const [x, y] = spots.find(fits) || [GAP, high - own.height - GAP];
    box.style.left = `${x}px`;
    box.style.top = `${y}px`;
  }

  window.addEventListener("resize", () => { if (box) go(at); });

  // Whoever comes by a link came for a run, not for the page.
  SpecGuard.startTour = () => {
    const asked = new URLSearchParams(location.search);
    if (SpecGuard.isReport) return;
    if (at < 0 && !seen() && !asked.has("trace") && !asked.has("example")) go(0);
  };
})();

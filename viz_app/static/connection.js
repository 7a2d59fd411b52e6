// Whether the server is there. While it is not, the page says so and the tab's own copy can be saved.
(() => {
  const { h, icon } = SpecGuard;
  const CALM_MS = 10_000;
  const WORRIED_MS = 1_500;
  let known = null;
  let bar = null;
  let timer = null;

  function address() {
    const root = (window.gradio_config && window.gradio_config.root) || location.origin + location.pathname;
    return `${root.replace(/\/$/, "")}/gradio_api/app_id`;
  }

  // The server's name for itself; another one after it was started anew, null where none answers.
  async function ask() {
    try {
      const answer = await fetch(address(), { cache: "no-store", signal: AbortSignal.timeout(8_000) });
      return answer.ok ? (await answer.json()).app_id : known;
    } catch (error) {
      // A server that is merely slow is there.
      return error.name === "TimeoutError" ? known : null;
    }
  }

  async function look() {
    clearTimeout(timer);
    // A report stands alone: it has no server to lose.
    if (!window.gradio_config) return;
    if (!document.hidden || bar) {
      const found = await ask();
      if (found === null) tell();
      // A new server knows nothing of this page: it is drawn anew, from what the tab has kept.
      else if (known !== null && found !== known) { SpecGuard.startAnew(); return; }
      else { known = found; if (bar) bar.parentElement.remove(); bar = null; }
    }
    timer = setTimeout(look, bar ? WORRIED_MS : CALM_MS);
  }

  function tell() {
    if (bar) return;
    bar = h("p", { class: "sg-offline", role: "alert" }, icon("no"),
      h("span", {}, "The server cannot be reached. The run as it stands is kept in this tab, and Save writes it to a file; trying again."));
    const page = document.getElementById("sg-page");
    if (page) page.append(h("div", { class: "sg", style: { height: "auto" } }, bar));
  }

  // Whether an event was answered here, since no server can.
  SpecGuard.offline = (event, data) => {
    if (!bar) { if (event !== "save" && event !== "keep") soon(); return false; }
    if (event === "save" && !data.what) SpecGuard.saveKept();
    return true;
  };

  // What a person asks for shows at once whether it can be had.
  let checked = 0;
  function soon() {
    if (Date.now() - checked < WORRIED_MS) return;
    checked = Date.now();
    look();
  }

  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
  window.addEventListener("offline", look);
  window.addEventListener("load", look);
})();

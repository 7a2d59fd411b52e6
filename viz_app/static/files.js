// Saving and loading. What is saved comes from the server as text and leaves as a file.
(() => {
  const { send } = SpecGuard;
  const MOST_BYTES = 64 * 2 ** 20;
  let last = null;

  function draw(root, view) {
    if (!view.text || view.stamp === last) return;
    last = view.stamp;
    if (view.quiet) { keep(view.text); return; }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([view.text], { type: "application/json" }));
    link.download = view.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  // The tab remembers its last run, so that neither a reload nor a new server loses it.
  const KEPT = "specguard last run";
  let seen = null;

  function keep(text) {
    try { sessionStorage.setItem(KEPT, text); } catch { forget(); }
  }

  function forget() {
    try { sessionStorage.removeItem(KEPT); } catch { /* no storage here */ }
  }

  SpecGuard.afterTop = (view) => {
    const first = seen === null;
    if (view.running || view.kept === seen) return;
    seen = view.kept;
    if (view.kept) { send("save", { quiet: true }); return; }
    if (!first) { forget(); return; }
    let text = null;
    try { text = sessionStorage.getItem(KEPT); } catch { /* no storage here */ }
    if (text) send("setup", { file: text });
  };

  async function load(file) {
    if (!file) return;
    if (file.size > MOST_BYTES) {
      SpecGuard.notice(`expected a file of at most 64 MiB, got ${Math.round(file.size / 2 ** 20)} MiB: it was not read`);
      return;
    }
    send("setup", { file: await file.text() });
  }

  SpecGuard.choose = () => {
    const input = document.createElement("input");
    input.type = "file";
    input.accept = ".json,application/json";
    input.addEventListener("change", () => load(input.files[0]));
    input.click();
  };

  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    load(event.dataTransfer && event.dataTransfer.files[0]);
  });

  SpecGuard.register("files", { draw });
})();

// Saving and loading. What is saved comes from the server as text and leaves as a file.
(() => {
  const { send } = SpecGuard;
  const MOST_BYTES = 64 * 2 ** 20;
  let last = null;

  function draw(root, view) {
    if (!view.stamp || view.stamp === last) return;
    last = view.stamp;
    if (view.copy) { SpecGuard.copied(view.text); return; }
    SpecGuard.shared(view);
    if (view.name) SpecGuard.download(view.name, new Blob([view.text ?? bytes(view.base64)], { type: view.type }));
  }

  const bytes = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

  SpecGuard.download = (name, blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };

  // The tab remembers its last run, so that neither a reload nor a new server loses it.
  const KEPT = "specguard last run";
  const OPENED = "specguard opened link";
  const ANEW = "specguard new server";
  const KEEP_MS = 4_000;
  let seen = null;
  let keptAt = 0;
  // The file that was handed in last, until the server has answered.
  let given = null;

  function keep(packed) {
    try { sessionStorage.setItem(KEPT, packed); } catch { forget(); }
  }

  function kept(key) {
    try { return sessionStorage.getItem(key); } catch { return null; }
  }

  function forget(key = KEPT) {
    try { sessionStorage.removeItem(key); } catch { /* no storage here */ }
  }

  SpecGuard.afterTop = (view) => {
    if (SpecGuard.isReport) return;
    const first = seen === null;
    if (view.lost) { putBack(); return; }
    if (!first && view.kept === seen) return;
    // A run is kept as it grows, but not at every step of a fast one.
    if (view.running && (first || Date.now() - keptAt < KEEP_MS)) return;
    keptAt = Date.now();
    seen = view.kept;
    if (first && openLink()) return;
    if (first && kept(KEPT)) send("setup", { packed: kept(KEPT), restored: kept(ANEW) !== null });
    else if (view.kept) send("keep");
    else if (!first) forget();
    if (!first) return;
    forget(ANEW);
    SpecGuard.startTour();
  };

  // Another server answers now: the page is drawn anew from the tab's copy, and says so.
  SpecGuard.startAnew = () => {
    try { sessionStorage.setItem(ANEW, "told once"); } catch { /* no storage here */ }
    location.reload();
  };

  // The tab's copy as a file, where no server can write it.
  SpecGuard.saveKept = async () => {
    const packed = kept(KEPT);
    if (!packed) return;
    const inflated = new Blob([bytes(packed)]).stream().pipeThrough(new DecompressionStream("deflate"));
    SpecGuard.download("specguard-session.json", await new Response(inflated).blob());
  };

  // The server has forgotten the run that stands here: idle for too long, or started anew.
  function putBack() {
    const packed = kept(KEPT);
    if (packed) send("setup", { packed, restored: true });
    else SpecGuard.notice("the server no longer has this run, and this tab kept no copy: load it from a file");
  }

  // A link is followed once; a reload then brings back what became of the run since.
  function openLink() {
    const asked = new URLSearchParams(location.search);
    const open = ["trace", "example"].find((name) => asked.has(name));
    if (!open || kept(OPENED) === location.search) return false;
    try { sessionStorage.setItem(OPENED, location.search); } catch { /* no storage here */ }
    send("setup", { open, name: asked.get(open) });
    return true;
  }

  async function load(file) {
    if (!file) return;
    if (file.size > MOST_BYTES) {
      SpecGuard.notice(`expected a file of at most 64 MiB, got ${Math.round(file.size / 2 ** 20)} MiB: it was not read`);
      return;
    }
    if (file.name.endsWith(".npz")) { send("setup", { evidence: await base64Of(file) }); return; }
    const deflated = file.stream().pipeThrough(new CompressionStream("deflate"));
    const packed = await base64Of(await new Response(deflated).blob());
    given = { packed, ticket: `${file.name} ${Date.now()}` };
    send("setup", given);
  }

  // What the server took from this tab need not come back from it to be kept.
  SpecGuard.opened = (ticket, now) => {
    if (!given || given.ticket !== ticket) return;
    const { packed } = given;
    given = null;
    seen = now;
    setTimeout(() => keep(packed));
  };

  function base64Of(file) {
    return new Promise((done, failed) => {
      const reader = new FileReader();
      reader.addEventListener("load", () => done(reader.result.slice(reader.result.indexOf(",") + 1)));
      reader.addEventListener("error", failed);
      reader.readAsDataURL(file);
    });
  }

  SpecGuard.choose = () => {
    const input = document.createElement("input");
    input.type = "file";
    input.accept = ".json,.npz,application/json";
    input.addEventListener("change", () => load(input.files[0]));
    input.click();
  };

  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    load(event.dataTransfer && event.dataTransfer.files[0]);
  });

  SpecGuard.register("files", { draw });
  SpecGuard.register("copy", { draw: (root, view) => { if (view.packed) keep(view.packed); } });
})();

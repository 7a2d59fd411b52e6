// A small menu beside each picture: as SVG, or as PNG at twice the size. Made in the browser.
(() => {
  const { h, icon } = SpecGuard;
  const SCALE = 2;
  const MOST_PIXELS = 16_384;

  // What each picture is made of, and what in it is no part of it.
  const PICTURES = {
    timeline: { of: ".sg-timeline", without: ".handle svg, .scrubber" },
    candidates: { of: ".sg-candidates .picture", without: ".empty" },
    curves: { of: ".sg-evidence .chips, .sg-evidence .curve", without: "[hidden]" },
    heatmap: { of: ".sg-evidence .chips, .sg-evidence .heat", without: ".segments, .count" },
  };

  SpecGuard.picture = (name) => {
    const menu = h("details", { class: "save-picture" },
      h("summary", { title: `Save the ${name} as a picture`, "aria-label": `Save the ${name} as a picture`, data: { key: `picture ${name}` } }, icon("save")),
      h("div", { class: "sheet left" }, ["svg", "png"].map((kind) => h("button", {
        type: "button", data: { key: `picture ${name} ${kind}` }, onclick: () => { menu.open = false; keep(name, kind); },
      }, kind.toUpperCase()))));
    menu.addEventListener("keydown", (event) => { if (event.key === "Escape") menu.open = false; });
    return menu;
  };

  // Whatever scrolls is opened for the moment it is traced, so that the picture is whole.
  SpecGuard.pictureOf = (name) => {
    const { of, without } = PICTURES[name];
    const page = document.getElementById("sg-page");
    page.classList.add("whole");
    SpecGuard.fillAll(page);
    try {
      const elements = [...document.querySelectorAll(of)].filter((element) => element.getBoundingClientRect().width);
      const leftOut = (element) => element.matches(`.save-picture, ${without}`);
      return new XMLSerializer().serializeToString(SpecGuard.traced(elements, `SpecGuard: ${name}`, leftOut));
    } finally {
      page.classList.remove("whole");
    }
  };

  async function keep(name, kind) {
    const text = SpecGuard.pictureOf(name);
    const file = `specguard-${name}.${kind}`;
    if (kind === "svg") { SpecGuard.download(file, new Blob([text], { type: "image/svg+xml" })); return; }
    const blob = await rastered(text);
    if (blob) SpecGuard.download(file, blob);
    else SpecGuard.notice("expected a picture that this browser can paint, got one that is too large: save it as SVG");
  }

  async function rastered(text) {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const scale = Math.min(SCALE, MOST_PIXELS / image.width, MOST_PIXELS / image.height);
    const canvas = h("canvas", { width: Math.round(image.width * scale), height: Math.round(image.height * scale) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => { canvas.toBlob(done, "image/png"); });
  }
})();

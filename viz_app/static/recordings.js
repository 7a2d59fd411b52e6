// Recorded runs that open without a model: a list with a title and a sentence for each.
(() => {
  const { h, send, views } = SpecGuard;
  const LISTED = ["Candidates", "Block"];

  SpecGuard.recordingList = (before) => {
    const recordings = (views.top && views.top.recordings) || [];
    if (!recordings.length) return null;
    return h("div", { class: "recordings" }, h("h3", {}, "Recorded runs, no model needed"),
      h("ul", {}, recordings.map((one) => h("li", {}, h("button", {
        type: "button", class: "row", data: { key: `recording ${one.name}` },
        onclick: () => { if (before) before(); send("setup", { open: "example", name: one.name }); },
      }, h("b", {}, one.title), h("span", {}, one.text))))));
  };

  // A page where nothing has run yet offers them once, in the first panel that has room.
  SpecGuard.offerRecordings = (title) => {
    const fresh = views.top && !views.top.can.reset;
    return fresh && LISTED.includes(title) ? SpecGuard.recordingList() : null;
  };
})();

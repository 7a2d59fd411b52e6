// Compare A/B: two runs of one problem side by side, a row per reasoning step; what B says otherwise
// is marked. Their ledgers stand beside each other, and either side opens in the debugger.
(() => {
  const { h, send, icon } = SpecGuard;
  // What is chosen on each side but not run yet; null: what is shown.
  let wanted = [null, null];

  SpecGuard.table("compare", (root, view) => {
    const both = Boolean(view.sides);
    SpecGuard.put(root, !SpecGuard.isReport && chooser(view), both
      ? h("div", { class: "both" }, rows(view), ledger(view))
      : h("p", { class: "empty" }, view.asked
        ? "Choose a strategy or a branch on either side, then Run: both will stand here step by step, with what each took."
        : "Write a problem first; two runs of it will stand here side by side."));
  });

  // A is the branch compared with, B the one on the page; the models make what is not there yet.
  function chooser(view) {
    const now = view.sides ? view.names : [null, view.branches.length ? view.branches[view.branches.length - 1] : null];
    const lists = ["A", "B"].map((name, side) => list(view, name, side, wanted[side] ?? (now[side] === null ? `run ${side ? 2 : 0}` : `branch ${now[side]}`)));
    const button = h("button", { type: "button", class: "main", data: { key: "run both" }, onclick: () => go(view, lists) });
    const said = () => {
      const news = lists.filter((one) => one.value.startsWith("run ")).length;
      button.disabled = !view.asked || (news > 0 && Boolean(SpecGuard.views.top.locked));
      button.textContent = news === 2 ? "Run both" : news === 1 ? "Run and compare" : "Compare";
    };
    lists.forEach((one, side) => one.addEventListener("change", () => { wanted[side] = one.value; said(); }));
    said();
    return h("div", { class: "chooser" }, h("label", {}, h("b", {}, "A"), lists[0]), h("label", {}, h("b", {}, "B"), lists[1]), button,
      h("button", { type: "button", data: { key: "join file" }, title: "Add the runs in a file of the same problem", onclick: join }, icon("load"), "Add from a file"),
      view.sides && h("span", { class: "quiet" }, `${view.same} of ${view.rows.length} steps the same`));
  }

  function list(view, name, side, value) {
    const option = (key, label, off) => h("option", { value: key, selected: key === value, disabled: Boolean(off), title: off || null }, label);
    return h("select", { "aria-label": name, data: { key: `side ${name}` } },
      view.branches.length > 0 && h("optgroup", { label: "runs made" }, view.branches.map((branch) => option(`branch ${branch}`, branch))),
      h("optgroup", { label: "run now" }, view.runs.map((run, i) => option(`run ${i}`, run.label, run.off))));
  }

  function go(view, lists) {
    const sides = lists.map(({ value }) => (value.startsWith("run ") ? view.runs[Number(value.slice(4))].set : { branch: value.slice(7) }));
    wanted = [null, null];
    if (sides[0].branch && sides[1].branch) { send("setup", { branch: sides[1].branch, compare: sides[0].branch }); return; }
    send("drive", { move: "beside", sides });
  }

  function join() {
    const input = document.createElement("input");
    input.type = "file";
    input.accept = ".json,application/json";
    input.addEventListener("change", async () => { if (input.files[0]) send("setup", { join: await input.files[0].text() }); });
    input.click();
  }

  function rows(view) {
    return h("div", { class: "aligned" }, h("table", { class: "compare" },
      h("thead", {}, h("tr", {}, h("th", {}), view.sides.map((side, i) => h("th", { scope: "col" }, headOf(side, "AB"[i]))))),
      h("tbody", {}, view.rows.map((row) => h("tr", { class: row.same ? "alike" : "apart" },
        h("th", { scope: "row" }, row.step, row.same ? "" : h("i", { class: "differs", title: "differs", "aria-label": "differs" })),
        cell(view, row, 0), cell(view, row, 1))))));
  }

  function headOf(side, letter) {
    return [h("b", {}, `${letter} ${side.name}`), side.strategy !== side.name && h("span", { class: "quiet" }, side.strategy),
      h("span", { class: "said" }, h("span", { class: "quiet" }, "answer"), h("b", {}, side.answer),
        side.right !== null && h("span", { class: side.right ? "judged" : "judged wrong" }, icon(side.right ? "yes" : "no"), side.word)),
      h("span", { class: "quiet kept" }, side.kept)];
  }

  function cell(view, row, side) {
    const step = side ? row.right : row.left;
    if (!step) return h("td", { class: "quiet" }, "no such step");
    const tags = { same: "span", cut: "del", new: "ins" };
    return h("td", {},
      h("span", { class: step.refused ? "word refused" : "word" }, step.source !== "blocks" && icon(step.refused ? "no" : "yes"), step.source, " ", step.score),
      !SpecGuard.isReport && h("button", {
        type: "button", class: "plain link", data: { key: `open ${"AB"[side]} ${row.step}` }, title: `Open ${view.names[side]} in the debugger at this step`,
        onclick: () => { SpecGuard.choice.tab = "ledger"; frame(false); send("setup", { branch: view.names[side], at: step.unit }); },
      }, "open here"),
      h("span", { class: "mono" }, step.text.map((part) => h(tags[part.kind], {}, part.text))));
  }

  function ledger(view) {
    return h("table", { class: "beside" }, h("thead", {}, h("tr", {}, h("th", { class: "quiet" }, "tokens"), ["A", "B", "B / A"].map((name) => h("td", {}, name)))),
      h("tbody", {}, view.ledger.map((row) => h("tr", {}, h("th", { scope: "row" }, row.name),
        h("td", {}, row.a), h("td", {}, row.b), h("td", { class: "quiet" }, row.ratio)))));
  }

  // While it is open, the comparison has the room of the candidates and the evidence.
  function frame(open) {
    const page = document.getElementById("sg-page");
    if (page) page.classList.toggle("comparing", open);
  }
  SpecGuard.frameCompare = frame;

  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    if ((event.key === "c" || event.key === "C") && SpecGuard.views.tables) SpecGuard.openTable("compare");
  });
})();

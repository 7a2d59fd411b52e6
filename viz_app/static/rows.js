// Rows of a box that scrolls, filled where they are in view: a long run has more of them than
// anybody looks at. A row keeps its height, filled or not.
//
// fill     makes what stands in a row; it is called once for each, before the row is seen
// whole    what else there is to fill where all rows are wanted
// place    a job for SpecGuard.settle: reads where the rows are, returns what fills those in view
(() => {
  const MARGIN = 60;
  const boxes = new WeakMap();
  const sizes = new ResizeObserver((changes) => {
    for (const { target } of changes) {
      if (target.isConnected) boxes.get(target).place()();
      else sizes.unobserve(target);
    }
  });

  SpecGuard.inView = (box, rows, fill, whole) => {
    const empty = new Map(rows.map((row, index) => [row, index]));
    const now = (row) => {
      const index = empty.get(row);
      if (empty.delete(row)) fill(row, index);
    };
    // The place it will be scrolled to, where that is another one than now.
    const place = (top = box.scrollTop) => {
      const [from, to] = [top - MARGIN, top + box.clientHeight + MARGIN];
      const shown = [...empty.keys()].filter((row) => row.offsetTop < to && row.offsetTop + row.offsetHeight > from);
      return () => shown.forEach(now);
    };
    if (!boxes.has(box)) box.addEventListener("scroll", () => boxes.get(box).place()(), { passive: true });
    const all = () => {
      [...empty.keys()].forEach(now);
      if (whole) whole();
    };
    boxes.set(box, { place, all });
    box.dataset.filled = "in view";
    sizes.observe(box);
    return { place, now: (index) => now(rows[index]) };
  };

  // A picture shows all rows.
  SpecGuard.fillAll = (root) => root.querySelectorAll("[data-filled]").forEach((box) => boxes.get(box).all());
})();

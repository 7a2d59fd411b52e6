// A drawn element as SVG that looks the same anywhere: every style is written into it, nothing is
// left to a style sheet, and text stays text. Knows no panel.
//
// paint    what an element shows of its own: ground, hatch, border, shadow
// tile     the piece that a repeated ground is made of
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const SHOWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin",
    "opacity", "font-family", "font-size", "font-weight", "text-anchor", "paint-order", "vector-effect"];
  const MARGIN = 10;
  const ELLIPSIS = 8;
  const round = (value) => Number(value.toFixed(2));
  const clear = (colour) => colour === "transparent" || /^rgba\(.*,\s*0\)$/.test(colour);
  const ruler = document.createElement("canvas").getContext("2d");

  const widened = (box) => ({ left: box.left, top: box.top, width: box.width + ELLIPSIS, height: box.height });

  function make(tag, attributes, parent) {
    const element = document.createElementNS(NS, tag);
    for (const [key, value] of Object.entries(attributes)) {
      element.setAttribute(key, typeof value === "number" ? round(value) : value);
    }
    if (parent) parent.append(element);
    return element;
  }

  // `leftOut`: whether an element is no part of the picture.
  SpecGuard.traced = (roots, title, leftOut) => {
    const boxes = roots.map((root) => root.getBoundingClientRect());
    const x = Math.min(...boxes.map((box) => box.left)) - MARGIN;
    const width = Math.ceil(Math.max(...boxes.map((box) => box.right)) - x + MARGIN);
    const tops = stacked(boxes);
    const height = Math.ceil(Math.max(...boxes.map((box, index) => box.bottom - tops[index])) + MARGIN);
    const svg = make("svg", { xmlns: NS, width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
    make("title", {}, svg).textContent = title;
    const context = { x, y: 0, defs: make("defs", {}, svg), count: 0, leftOut };
    const ground = getComputedStyle(document.documentElement.querySelector("#sg-page .sg-evidence") || roots[0]).backgroundColor;
    make("rect", { width, height, fill: clear(ground) ? "#fff" : ground }, svg);
    roots.forEach((root, index) => {
      context.y = tops[index];
      walk(root, svg, context);
    });
    return svg;
  };

  // Where the page's y = 0 lies for each part, so that no wide gap is left between two of them.
  function stacked(boxes) {
    let closed = 0;
    return boxes.map((box, index) => {
      if (index) closed += Math.max(box.top - boxes[index - 1].bottom - MARGIN, 0);
      return boxes[0].top - MARGIN + closed;
    });
  }

  function walk(element, parent, context) {
    const style = getComputedStyle(element);
    if (style.display === "none" || style.visibility === "hidden" || style.opacity === "0" || context.leftOut(element)) return;
    const box = placed(element.getBoundingClientRect(), context);
    if (element.tagName.toLowerCase() === "svg") { drawing(element, box, parent); return; }
    let group = parent;
    if (style.opacity !== "1") group = make("g", { opacity: style.opacity }, parent);
    if (style.clipPath.startsWith("polygon")) group = clipped(group, polygon(style.clipPath, box), context);
    paint(style, box, group, context);
    pseudo(element, "::before", box, group, context);
    if (style.overflowX !== "visible" && box.width && overflows(element)) {
      group = clipped(group, make("rect", { x: box.x, y: box.y, width: box.width, height: box.height }), context);
    }
    for (const child of ordered(element)) {
      if (child.nodeType === Node.TEXT_NODE) words(child, style, element, group, context);
      else if (child.nodeType === Node.ELEMENT_NODE) walk(child, group, context);
    }
    pseudo(element, "::after", box, group, context);
  }

  const overflows = (element) => element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1;
  const placed = (rect, context) => ({ x: rect.left - context.x, y: rect.top - context.y, width: rect.width, height: rect.height });

  // Painting order among siblings: what stands higher comes later.
  function ordered(element) {
    const level = (node) => {
      if (node.nodeType !== Node.ELEMENT_NODE) return 0;
      const style = getComputedStyle(node);
      return style.position === "static" ? 0 : 0.5 + (Number(style.zIndex) || 0);
    };
    return [...element.childNodes].map((node) => [level(node), node]).sort((a, b) => a[0] - b[0]).map(([, node]) => node);
  }

  function clipped(parent, shape, context) {
    const id = `clip-${context.count += 1}`;
    make("clipPath", { id }, context.defs).append(shape);
    return make("g", { "clip-path": `url(#${id})` }, parent);
  }

  function polygon(text, box) {
    const length = (part, size) => {
      const percent = /(-?[\d.]+)%/.exec(part);
      const pixels = /(-|\+)?\s*([\d.]+)px/.exec(part);
      return (percent ? (Number(percent[1]) * size) / 100 : 0) + (pixels ? (pixels[1] === "-" ? -1 : 1) * Number(pixels[2]) : 0);
    };
    const points = text.slice(8, -1).split(",").map((point) => {
      const [left, top] = point.trim().match(/calc\([^)]*\)|\S+/g);
      return `${round(box.x + length(left, box.width))},${round(box.y + length(top, box.height))}`;
    });
    return make("polygon", { points: points.join(" ") });
  }

  function paint(style, box, parent, context) {
    if (!box.width || !box.height) { borders(style, box, parent); return; }
    const radius = Math.min(parseFloat(style.borderTopLeftRadius) || 0, box.width / 2, box.height / 2);
    const area = { x: box.x, y: box.y, width: box.width, height: box.height, rx: radius };
    for (const shadow of shadows(style.boxShadow)) {
      make("rect", { x: box.x - shadow.spread, y: box.y - shadow.spread, width: box.width + 2 * shadow.spread,
        height: box.height + 2 * shadow.spread, rx: radius ? radius + shadow.spread : 0, fill: shadow.colour }, parent);
    }
    if (!clear(style.backgroundColor)) make("rect", { ...area, fill: style.backgroundColor }, parent);
    if (style.backgroundImage !== "none") {
      const fill = tile(style, box, context);
      if (fill) make("rect", { ...area, fill }, parent);
    }
    borders(style, box, parent, radius);
  }

  // Rings around an element; what casts no ring is no part of a picture.
  function shadows(text) {
    return [...text.matchAll(/(rgba?\([^)]*\)) 0px 0px 0px ([\d.]+)px(?! inset)/g)].map((found) => ({ colour: found[1], spread: Number(found[2]) }));
  }

  function tile(style, box, context) {
    const image = style.backgroundImage;
    const stops = [...image.matchAll(/(rgba?\([^)]*\))\s*([\d.]+)px/g)].map((found) => ({ colour: found[1], at: Number(found[2]) }));
    const solid = stops.find((stop) => !clear(stop.colour));
    if (!solid) return null;
    const id = `tile-${context.count += 1}`;
    const [w, h] = style.backgroundSize.split(" ").map((size) => parseFloat(size));
    const pattern = (width, height, more) => make("pattern", { id, x: box.x, y: box.y, width, height, patternUnits: "userSpaceOnUse", ...more }, context.defs);
    if (image.startsWith("repeating")) {
      const period = stops[stops.length - 1].at;
      const from = stops.find((stop) => !clear(stop.colour)).at;
      const to = Math.max(...stops.filter((stop) => !clear(stop.colour)).map((stop) => stop.at));
      make("rect", { x: from, width: to - from, height: period, fill: solid.colour }, pattern(period, period, { patternTransform: "rotate(45)" }));
    } else if (image.startsWith("radial")) {
      make("circle", { cx: w / 2, cy: h / 2, r: solid.at, fill: solid.colour }, pattern(w, h));
    } else {
      make("rect", { width: box.width, height: solid.at, fill: solid.colour }, pattern(box.width, Number.isFinite(h) ? h : box.height));
    }
    return `url(#${id})`;
  }

  function borders(style, box, parent, radius = 0) {
    const side = (name) => ({ width: style[`border${name}Style`] === "none" ? 0 : parseFloat(style[`border${name}Width`]),
      colour: style[`border${name}Color`], kind: style[`border${name}Style`] });
    const [top, right, bottom, left] = ["Top", "Right", "Bottom", "Left"].map(side);
    const dash = (edge) => (edge.kind === "dashed" ? { "stroke-dasharray": "3 3" } : edge.kind === "dotted" ? { "stroke-dasharray": "1 2" } : {});
    if (top.width && [right, bottom, left].every((edge) => edge.width === top.width && edge.colour === top.colour)) {
      const half = top.width / 2;
      make("rect", { x: box.x + half, y: box.y + half, width: Math.max(box.width - top.width, 0), height: Math.max(box.height - top.width, 0),
        rx: Math.max(radius - half, 0), fill: "none", stroke: top.colour, "stroke-width": top.width, ...dash(top) }, parent);
      return;
    }
    const line = (edge, x1, y1, x2, y2) => {
      if (edge.width && !clear(edge.colour)) make("line", { x1, y1, x2, y2, stroke: edge.colour, "stroke-width": edge.width, ...dash(edge) }, parent);
    };
    const { x, y, width, height } = box;
    line(top, x, y + top.width / 2, x + width, y + top.width / 2);
    line(bottom, x, y + height - bottom.width / 2, x + width, y + height - bottom.width / 2);
    line(left, x + left.width / 2, y, x + left.width / 2, y + height);
    line(right, x + width - right.width / 2, y, x + width - right.width / 2, y + height);
  }

  function pseudo(element, name, box, parent, context) {
    const style = getComputedStyle(element, name);
    if (style.content === "none" || style.content === "normal" || style.position !== "absolute" || style.opacity === "0" || style.transform !== "none") return;
    const inner = { x: box.x + (parseFloat(style.left) || 0), y: box.y + (parseFloat(style.top) || 0),
      width: parseFloat(style.width) || 0, height: parseFloat(style.height) || 0 };
    paint(style, inner, style.opacity === "1" ? parent : make("g", { opacity: style.opacity }, parent), context);
  }

  function drawing(element, box, parent) {
    const copy = element.cloneNode(true);
    const nodes = [element, ...element.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((node, index) => {
      const style = getComputedStyle(nodes[index]);
      for (const name of ["class", "style", "data-key", "tabindex", "role", "aria-label"]) node.removeAttribute(name);
      for (const name of SHOWN) {
        const value = style.getPropertyValue(name);
        if (value && value !== "normal") node.setAttribute(name, value.replace(/"/g, "'"));
      }
      if (style.display === "none") node.setAttribute("display", "none");
    });
    for (const [name, value] of Object.entries(box)) copy.setAttribute(name, round(value));
    copy.setAttribute("overflow", getComputedStyle(element).overflow);
    parent.append(copy);
  }

  // A text node, a line at a time; each line keeps its width where the font is another one.
  function words(node, style, element, parent, context) {
    if (!node.data.trim() || parseFloat(style.fontSize) < 1) return;
    ruler.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = ruler.measureText("x");
    const halo = style.textShadow !== "none" ? { stroke: style.textShadow.match(/rgba?\([^)]*\)/)[0], "stroke-width": 3, "paint-order": "stroke" } : {};
    const held = [element, element.parentElement].find((one) => getComputedStyle(one).textOverflow === "ellipsis" && overflows(one));
    for (const line of lines(node, held ? held.getBoundingClientRect().right : Infinity)) {
      const box = placed(line.box, context);
      const text = make("text", {
        x: box.x, y: box.y + (box.height + up - down) / 2, fill: style.color, "font-family": style.fontFamily.replace(/"/g, "'"),
        "font-size": style.fontSize, "font-weight": style.fontWeight, textLength: box.width, lengthAdjust: "spacingAndGlyphs",
        style: "white-space: pre", ...halo,
      }, parent);
      text.textContent = line.text;
    }
  }

  // `right`: where a text that is too long is cut, as the page cuts it.
  function lines(node, right) {
    const range = document.createRange();
    const found = [];
    for (let index = 0; index < node.length; index += 1) {
      range.setStart(node, index);
      range.setEnd(node, index + 1);
      const box = range.getBoundingClientRect();
      if (!box.width) { if (found.length && box.height) found[found.length - 1].stop = index + 1; continue; }
      const last = found[found.length - 1];
      if (last && Math.abs(last.box.top - box.top) < 2) last.stop = index + 1;
      else found.push({ start: index, stop: index + 1, box });
    }
    return found.map((line) => {
      range.setStart(node, line.start);
      range.setEnd(node, line.stop);
      const cut = range.getBoundingClientRect().right > right + 1;
      while (cut && line.stop > line.start + 1 && range.getBoundingClientRect().right > right - ELLIPSIS) range.setEnd(node, line.stop -= 1);
      if (cut) return { text: `${node.data.slice(line.start, line.stop)}\u2026`, box: widened(range.getBoundingClientRect()) };
      return { text: node.data.slice(line.start, line.stop).replace(/\s+$/, "") || " ", box: range.getBoundingClientRect() };
    });
  }
})();

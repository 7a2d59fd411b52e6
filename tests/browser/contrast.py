"""How legible a text is, computed in the page: WCAG 2 contrast of its paint and its ground."""

# JavaScript: `contrast(paint, element)`, from 1 to 21; texts need 4.5.
CONTRAST = """
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const contrast = (paint, element) => {
    const [a, b] = [light(parse(paint)), light(ground(element))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
"""

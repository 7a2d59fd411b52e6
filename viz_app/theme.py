"""Colours, type and the files of the page. Every colour is named once, here.

ramp       ten colours in even steps of OKLab; the far end from the ground is the one to look at
signal     weak readings are far from the ground (cividis-like)
mass       much mass is far from the ground
"""

from collections.abc import Mapping
from pathlib import Path

import gradio as gr

STATIC = Path(__file__).parent / "static"
SCRIPTS = (
    "core.js",
    "top.js",
    "problem.js",
    "timeline.js",
    "candidates.js",
    "evidence.js",
    "curves.js",
    "why.js",
    "knobs.js",
    "tables.js",
    "ledger.js",
    "tree.js",
    "compare.js",
    "log.js",
    "files.js",
    "status.js",
)
STYLES = (
    "base.css",
    "top.css",
    "timeline.css",
    "candidates.css",
    "evidence.css",
    "why.css",
    "knobs.css",
    "ledger.css",
    "narrow.css",
)
SANS = ("Inter", "ui-sans-serif", "system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
MONO = ("JetBrains Mono", "ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")

LIGHT = {
    "ground": "#F5F6F7",
    "panel": "#FFFFFF",
    "sunken": "#F3F4F6",
    "line": "#E2E5E9",
    "line-strong": "#C6CCD4",
    "ink": "#1A1E24",
    "ink-2": "#48505B",
    "ink-3": "#636C78",
    "accent": "#2457C5",
    "accent-tint": "#EAF0FC",
    "on-accent": "#FFFFFF",
    "target": "#A8430B",
    "draft": "#5E7391",
    "cluster-0": "#4A6E9B",
    "cluster-1": "#91608A",
    "cluster-2": "#4F7A4C",
    "cluster-3": "#856A1E",
    "cluster-4": "#636C78",
}
DARK = {
    "ground": "#0F1114",
    "panel": "#15181C",
    "sunken": "#1B1F24",
    "line": "#282D34",
    "line-strong": "#414954",
    "ink": "#E6E9ED",
    "ink-2": "#B1B9C3",
    "ink-3": "#8D97A3",
    "accent": "#82A8F8",
    "accent-tint": "#1A2336",
    "on-accent": "#0F1114",
    "target": "#F09A5F",
    "draft": "#8FA6C6",
    "cluster-0": "#86A9D6",
    "cluster-1": "#C99BC1",
    "cluster-2": "#93C08F",
    "cluster-3": "#CFB264",
    "cluster-4": "#8D97A3",
}
_SIGNAL_LIGHT = "F8F6EC DCDEDC C0C7CD A4AFBE 8A99AF 7082A0 576D90 3F5781 284272 122D62"
_SIGNAL_DARK = "222A39 363C41 4C4F47 62624C 797651 928A54 AB9E57 C4B358 DFC957 F9DE55"
_MASS_LIGHT = "F8FBFA DDE9E7 C3D7D4 A9C6C2 90B4B0 76A39E 5C928D 41827C 21716B 00615B"
_MASS_DARK = "1A2223 243533 2E4A44 385F55 427568 4D8C7B 57A48E 61BCA2 6CD5B6 76EECB"


def theme() -> gr.themes.Base:
    """Gradio's own parts in the page's type; no font is fetched."""
    return gr.themes.Base(
        font=[gr.themes.Font(name) for name in SANS],
        font_mono=[gr.themes.Font(name) for name in MONO],
    ).set(
        body_background_fill=LIGHT["ground"],
        body_background_fill_dark=DARK["ground"],
        body_text_color=LIGHT["ink"],
        body_text_color_dark=DARK["ink"],
    )


def css() -> str:
    """The palette as custom properties, then the style sheets in order."""
    light = _properties(LIGHT, _SIGNAL_LIGHT, _MASS_LIGHT)
    dark = _properties(DARK, _SIGNAL_DARK, _MASS_DARK)
    sans = ", ".join(f'"{name}"' if " " in name else name for name in SANS)
    mono = ", ".join(f'"{name}"' if " " in name else name for name in MONO)
    fonts = f"--sans: {sans}; --mono: {mono};"
    sheets = "\n".join((STATIC / name).read_text("utf-8") for name in STYLES)
    return f":root {{ {fonts} {light} }}\n.dark {{ {dark} }}\n{_levels()}\n{sheets}"


def head() -> str:
    """The style and the renderers, in the page itself: nothing is fetched later.

    The style is not given as gradio's `css`: that is parsed and written anew, which loses every
    shorthand that names a custom property.
    """
    scripts = "\n".join((STATIC / name).read_text("utf-8") for name in SCRIPTS)
    icon = "data:image/svg+xml," + _ICON.replace("#", "%23").replace('"', "'")
    style = f"<style>\n{css()}\n</style>"
    return f'<link rel="icon" href="{icon}">\n{style}\n<script>\n{scripts}\n</script>'


def contrast(first: str, second: str) -> float:
    """WCAG 2 contrast ratio of two colours "#RRGGBB", from 1 to 21."""
    high, low = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: str) -> str:
    """Ink, white or black: the first that reaches 4.5 : 1 on a colour, else the best."""
    inks = (LIGHT["ink"], "#FFFFFF", "#000000")
    for ink in inks:
        if contrast(ink, colour) >= 4.5:
            return ink
    return max(inks, key=lambda ink: contrast(ink, colour))


def _properties(palette: Mapping[str, str], signal: str, mass: str) -> str:
    parts = [f"--{name}: {colour};" for name, colour in palette.items()]
    for kind, ramp in (("signal", signal), ("mass", mass)):
        for index, colour in enumerate(ramp.split()):
            parts.append(
                f"--{kind}-{index}: #{colour}; --{kind}-{index}-ink: {ink_on('#' + colour)};"
            )
    return " ".join(parts)


def _levels() -> str:
    names = [f"{kind}-{index}" for kind in ("signal", "mass") for index in range(10)]
    return "\n".join(
        f".sg .{name} {{ background: var(--{name}); color: var(--{name}-ink); }}" for name in names
    )


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 18 18">'
    '<path fill="#2457C5" d="M2 9h3v7H2zM7 5h3v11H7z"/>'
    '<path fill="#A8430B" d="M12 2h3v14h-3z"/></svg>'
)

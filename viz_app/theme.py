"""Colours, type and the files of the page. Every colour is named once, here.

ramp       ten colours in even steps of OKLab; the far end from the ground is the one to look at
signal     weak readings are far from the ground (cividis-like)
mass       much mass is far from the ground
split      nine colours, blue to orange; the middle one is near the ground
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import gradio as gr

from viz_app.report import Assets

STATIC = Path(__file__).parent / "static"
SCRIPTS = (
    "core.js",
    "recordings.js",
    "rows.js",
    "strategies.js",
    "pairs.js",
    "top.js",
    "runto.js",
    "problem.js",
    "timeline.js",
    "rewards.js",
    "candidates.js",
    "context.js",
    "heatmap.js",
    "edit.js",
    "evidence.js",
    "curves.js",
    "blocks.js",
    "why.js",
    "knobs.js",
    "tables.js",
    "ledger.js",
    "thresholds.js",
    "raw.js",
    "tree.js",
    "compare.js",
    "log.js",
    "notes.js",
    "files.js",
    "connection.js",
    "share.js",
    "tracing.js",
    "pictures.js",
    "tour.js",
    "status.js",
)
REPORT_SCRIPT = "report.js"
"""Only in a report: it stands in for the server."""
STYLES = (
    "base.css",
    "top.css",
    "strategies.css",
    "pairs.css",
    "recordings.css",
    "timeline.css",
    "candidates.css",
    "rewards.css",
    "evidence.css",
    "blocks.css",
    "why.css",
    "knobs.css",
    "ledger.css",
    "compare.css",
    "thresholds.css",
    "share.css",
    "tour.css",
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
_SPLIT_LIGHT = "1F4690 5273AE 8FA5CB C9D3E5 F5F4F0 F0D3BF DDA27C C26F3C 97400A"
_SPLIT_DARK = "8FB4FF 6286CB 415B8C 2C3B57 22272E 4A3426 7D5030 B97241 F5A468"


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
    light = _properties(LIGHT, _SIGNAL_LIGHT, _MASS_LIGHT, _SPLIT_LIGHT)
    dark = _properties(DARK, _SIGNAL_DARK, _MASS_DARK, _SPLIT_DARK)
    sans = ", ".join(f'"{name}"' if " " in name else name for name in SANS)
    mono = ", ".join(f'"{name}"' if " " in name else name for name in MONO)
    fonts = f"--sans: {sans}; --mono: {mono};"
    return f":root {{ {fonts} {light} }}\n.dark {{ {dark} }}\n{_levels()}\n{_text(STYLES)}"


def head() -> str:
    """The style and the renderers, in the page itself: nothing is fetched later.

    The style is not given as gradio's `css`: that is parsed and written anew, which loses every
    shorthand that names a custom property.
    """
    style = f"<style>\n{css()}\n</style>"
    return f'<link rel="icon" href="{_icon()}">\n{style}\n<script>\n{_text(SCRIPTS)}\n</script>'


def report_assets() -> Assets:
    """What a report is made of: the page's own style and renderers."""
    style = f"{css()}\n{_text(('report.css',))}"
    return Assets(_icon(), style, _text((*SCRIPTS, REPORT_SCRIPT)))


def _text(names: Sequence[str]) -> str:
    return "\n".join((STATIC / name).read_text("utf-8") for name in names)


def _icon() -> str:
    return "data:image/svg+xml," + _ICON.replace("#", "%23").replace('"', "'")


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


def _properties(palette: Mapping[str, str], signal: str, mass: str, split: str) -> str:
    parts = [f"--{name}: {colour};" for name, colour in palette.items()]
    for kind, ramp in (("signal", signal), ("mass", mass), ("split", split)):
        for index, colour in enumerate(ramp.split()):
            parts.append(
                f"--{kind}-{index}: #{colour}; --{kind}-{index}-ink: {ink_on('#' + colour)};"
            )
    return " ".join(parts)


def _levels() -> str:
    names = [f"{kind}-{index}" for kind in ("signal", "mass") for index in range(10)]
    names += [f"split-{index}" for index in range(9)]
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

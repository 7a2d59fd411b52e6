"""A session as one HTML file that opens anywhere, with no server and no network. Pure; no gradio.

The file holds the page's own renderers and the views they would be sent: nothing is drawn twice.

stop       a place the report can show: before the first step, and each step as it was committed
frame      the views at a stop, "4", or of one candidate there, "4 2", as what differs from the
           first frame or from the stop's
"""

import html
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from specguard_core.errors import UsageError
from specguard_core.evidence import Evidence
from viz_app.gold import NO_GOLD, Gold
from viz_app.page import PANELS, RIGHT, draw, to_json
from viz_app.session import WRITTEN, Look, Session, lane
from viz_app.sight import sight
from viz_app.views.candidates import shown_index
from viz_app.views.top import Desk

MOST_BYTES = 24 * 2**20
"""Of views in a report; what does not fit is left out, and the report says so."""
LOCKED = "A report only shows what was recorded: open its session in the debugger to go on."

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; form-action 'none'; base-uri 'none'"
)


@dataclass(frozen=True, slots=True)
class Assets:
    """What the page is made of. icon: a data address; style and script: text for their tags."""

    icon: str
    style: str
    script: str


def report(
    session: Session,
    assets: Assets,
    pair: tuple[str, str],
    right: bool | None = None,
    evidence: Evidence | None = None,
    gold: Gold = NO_GOLD,
    most_bytes: int = MOST_BYTES,
) -> str:
    """The whole file; right and gold as for the page (see `draw`).

    Raises:
        UsageError: there is no run to report.
    """
    if not session.lines:
        raise UsageError("expected a run to report, got none: step it first")
    desk = Desk(pair, "a report: no models", locked=LOCKED)
    data = _data(session, desk, right, evidence, gold, most_bytes)
    title = html.escape(f"SpecGuard report: {session.problem.question[:80]}")
    cells = "".join(_cell(name) for name in PANELS if name not in RIGHT)
    column = "".join(_cell(name) for name in RIGHT)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{title}</title>\n<link rel="icon" href="{assets.icon}">\n'
        f"<style>\n{assets.style}\n</style></head>\n"
        f'<body><div class="gradio-container sg-report"><div id="sg-page">{cells}'
        f'<div id="sg-right">{column}</div></div></div>\n'
        f'<script type="application/json" id="sg-report-data">{to_json(data)}</script>\n'
        f"<script>\n{_inside_a_tag(assets.script)}\n</script></body></html>\n"
    )


def difference(base: Any, view: Any) -> Any:
    """What must be laid over `base` to get `view`: objects by key, everything else as a whole.

    [value] stands for a whole value, an object for changes by key, None for no change.
    """
    if base == view:
        return None
    if isinstance(base, dict) and isinstance(view, dict) and base.keys() == view.keys():
        changes = {key: difference(base[key], view[key]) for key in view}
        return {key: change for key, change in changes.items() if change is not None}
    return [view]


def _data(
    session: Session,
    desk: Desk,
    right: bool | None,
    evidence: Evidence | None,
    gold: Gold,
    most_bytes: int,
) -> dict[str, Any]:
    branches: dict[str, dict[str, Any]] = {}
    spent, left_out = 0, 0
    for branch, key, base, look in _wanted(session):
        frames = branches.setdefault(branch, {})
        if left_out:
            left_out += 1
            continue
        here = replace(session, current=branch, notice=None)
        answered = right if branch == session.current else None
        drawn = draw(here, look, desk, (), answered, evidence, gold=gold)
        views = {name: json.loads(text) for name, text in drawn.items()}
        views["top"]["can"]["reset"] = False
        change = [views] if base is None else difference(_whole(frames, base), views)
        size = len(to_json({"": change}).encode())
        if frames and spent + size > most_bytes:
            left_out = 1
            continue
        spent += size
        frames[key] = change
    note = f"report, {spent / 2**20:.1f} MiB of views"
    if left_out:
        note += f"; {left_out} views left out, since more than {most_bytes / 2**20:.0f} MiB"
    shown = {name: frames for name, frames in branches.items() if frames}
    return {
        "panels": list(PANELS),
        "branches": shown,
        "current": session.current,
        "locked": LOCKED,
        "note": note,
    }


def _wanted(session: Session) -> Iterator[tuple[str, str, str | None, Look]]:
    """Branch, frame, the frame it differs from, and the look; what matters most comes first."""
    lines = sorted(session.lines, key=lambda line: line.name != session.current)
    for line in lines:
        for cursor in _stops(replace(session, current=line.name)):
            yield line.name, str(cursor), "0" if cursor else None, Look(cursor)
    for line in lines:
        here = replace(session, current=line.name)
        for cursor in _stops(here):
            seen = sight(lane(here, Look(cursor)), Look(cursor))
            if seen is None:
                continue
            written = [] if seen.written is None else [WRITTEN]
            first = shown_index(seen, Look(cursor))
            for candidate in (*range(len(seen.candidates)), *written):
                if candidate != first:
                    look = Look(cursor, candidate)
                    yield line.name, f"{cursor} {candidate}", str(cursor), look


def _stops(session: Session) -> list[int]:
    """Before the first unit, after each that was committed, and where one is under way."""
    last = len(session.history) - 1
    return sorted({0, *(c for c in range(last + 1) if not session.pace.within(c)), last})


def _whole(frames: Mapping[str, Any], key: str) -> Any:
    """The views of a frame that differs from the first one, or is it."""
    first = frames["0"][0]
    return first if key == "0" else laid_over(first, frames[key])


def laid_over(base: Any, change: Any) -> Any:
    """The inverse of difference."""
    if change is None:
        return base
    if isinstance(change, list):
        return change[0]
    return {key: laid_over(value, change.get(key)) for key, value in base.items()}


def _cell(name: str) -> str:
    return (
        f'<div id="sg-{name}" class="sg-cell"><div class="html-container">'
        f'<section class="sg sg-{name}"></section></div></div>'
    )


def _inside_a_tag(script: str) -> str:
    if "</script" in script.lower():
        raise ValueError("expected scripts without a closing script tag in them")
    return script

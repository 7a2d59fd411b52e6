"""All panels of the page at once, as the JSON each of them draws. Pure; knows no gradio.

panel      a region of the page with a renderer of its own in static/<name>.js
answer     the views of the panels that an event concerns, sent to the page as one value
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, get_args

from specguard_core.evidence import Evidence
from viz_app.gold import NO_GOLD, Gold
from viz_app.session import Look, Problem, Session, lane
from viz_app.sight import sight
from viz_app.target_views import seen_by_target
from viz_app.views.blocks import blocks_view, chips_view
from viz_app.views.candidates import candidates_view
from viz_app.views.evidence import evidence_view
from viz_app.views.knobs import knobs_view
from viz_app.views.rewards import rewards_view
from viz_app.views.rightness import wrong_steps
from viz_app.views.tables import tables_view
from viz_app.views.timeline import timeline_view
from viz_app.views.top import Desk, problem_view, status_view, top_view
from viz_app.views.why import why_view
from viz_app.whatif import what_if

Panel = Literal[
    "top",
    "problem",
    "timeline",
    "candidates",
    "evidence",
    "blocks",
    "why",
    "knobs",
    "tables",
    "status",
]
PANELS: tuple[Panel, ...] = get_args(Panel)
RIGHT: tuple[Panel, ...] = ("why", "knobs")
"""Panels that share the right column: the sum takes what it needs, the knobs the rest."""


def draw(
    session: Session,
    look: Look,
    desk: Desk,
    examples: Sequence[Problem] = (),
    right: bool | None = None,
    evidence: Evidence | None = None,
    panels: Collection[Panel] = PANELS,
    gold: Gold = NO_GOLD,
) -> dict[Panel, str]:
    """The views of some panels as JSON text; evidence lets rollout knobs be turned.

    right: whether the run's answer is; gold: right steps by question, to find the wrong ones.
    """
    shown = lane(session, look)
    seen = seen_by_target(shown, sight(shown, look))
    overlay = what_if(shown.trace, look.knobs, evidence, session.calibration)
    faults = {} if shown.trace is None else wrong_steps(shown.trace, gold, right)
    of_steps = session.pace.unit == "step"
    has_rows = evidence is not None and evidence.size_bytes > 0
    views: dict[Panel, Callable[[], dict[str, Any]]] = {
        "top": lambda: top_view(session, look, desk),
        "problem": lambda: problem_view(session, examples, right, overlay, faults),
        "timeline": lambda: timeline_view(shown, look, overlay, faults),
        "candidates": lambda: {
            **candidates_view(seen, look, overlay),
            **rewards_view(session, shown, look),
        },
        "evidence": lambda: evidence_view(seen, look, session.current),
        "blocks": lambda: blocks_view(session, look),
        "why": lambda: (
            why_view(seen, look, overlay, gold) if of_steps else chips_view(session, look)
        ),
        "knobs": lambda: knobs_view(shown, look, overlay, has_rows),
        "tables": lambda: tables_view(session, look, gold, desk.abilities),
        "status": lambda: status_view(session, look, desk, evidence),
    }
    return {name: to_json(views[name]()) for name in panels}


def touched(before: Look, after: Look) -> Collection[Panel]:
    """The panels that look different after a change of look alone."""
    if (before.cursor, before.candidate, before.chain) != (
        after.cursor,
        after.candidate,
        after.chain,
    ):
        return PANELS
    if before.knobs != after.knobs:
        turned: tuple[Panel, ...] = ("problem", "timeline", "candidates", "why", "knobs")
        return (*turned, "tables") if after.tab == "thresholds" else turned
    if (before.compared, before.tab, before.opened) != (after.compared, after.tab, after.opened):
        return ("tables",)
    # Nothing changed: the knobs answer all the same, so that a hand on one is let go on.
    return ("top", "knobs")


def answer(views: Mapping[Panel, str], stamp: float, opened: str = "") -> str:
    """The views of some panels as one JSON text; `stamp` makes it another one than the last.

    opened: the ticket of the file that the page handed in, if that is the run which is shown now.
    """
    panels = ",".join(f'"{name}":{text}' for name, text in views.items())
    about = to_json({"stamp": stamp, "opened": opened})
    return f'{about[:-1]},"panels":{{{panels}}}}}'


def to_json(view: Mapping[str, Any]) -> str:
    """Compact JSON without a single "<", so that no text in it can be taken for markup."""
    text = json.dumps(view, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")

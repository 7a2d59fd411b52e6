"""All panels of the page at once, as the JSON each of them draws. Pure; knows no gradio.

panel      a region of the page with a renderer of its own in static/<name>.js
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, get_args

from specguard_core.evidence import Evidence
from viz_app.session import Look, Problem, Session, sight
from viz_app.views.candidates import candidates_view
from viz_app.views.evidence import evidence_view
from viz_app.views.knobs import knobs_view
from viz_app.views.tables import tables_view
from viz_app.views.timeline import timeline_view
from viz_app.views.top import Desk, problem_view, status_view, top_view
from viz_app.views.why import why_view
from viz_app.whatif import what_if

Panel = Literal[
    "top", "problem", "timeline", "candidates", "evidence", "why", "knobs", "tables", "status"
]
PANELS: tuple[Panel, ...] = get_args(Panel)


def draw(
    session: Session,
    look: Look,
    desk: Desk,
    examples: Sequence[Problem] = (),
    right: bool | None = None,
    evidence: Evidence | None = None,
    panels: Collection[Panel] = PANELS,
) -> dict[Panel, str]:
    """The views of some panels as JSON text; evidence lets rollout knobs be turned."""
    seen = sight(session, look)
    overlay = what_if(session.trace, look.knobs, evidence)
    has_rows = evidence is not None and evidence.size_bytes > 0
    views: dict[Panel, Callable[[], dict[str, Any]]] = {
        "top": lambda: top_view(session, look, desk),
        "problem": lambda: problem_view(session, examples, right, overlay),
        "timeline": lambda: timeline_view(session, look, overlay),
        "candidates": lambda: candidates_view(seen, look),
        "evidence": lambda: evidence_view(seen, look),
        "why": lambda: why_view(seen, look, overlay),
        "knobs": lambda: knobs_view(session, look, overlay, has_rows),
        "tables": lambda: tables_view(session, look),
        "status": lambda: status_view(session, look, desk, evidence),
    }
    return {name: to_json(views[name]()) for name in panels}


def touched(before: Look, after: Look) -> Collection[Panel]:
    """The panels that look different after a change of look alone."""
    if (before.cursor, before.candidate) != (after.cursor, after.candidate):
        return PANELS
    if before.knobs != after.knobs:
        return ("problem", "timeline", "why", "knobs")
    if before.compared != after.compared:
        return ("tables",)
    # Nothing changed: the knobs answer all the same, so that a hand on one is let go on.
    return ("top", "knobs")


def to_json(view: Mapping[str, Any]) -> str:
    """Compact JSON without a single "<", so that no text in it can be taken for markup."""
    text = json.dumps(view, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")

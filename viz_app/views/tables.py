"""The tables at the foot: the ledger, the tree of branches, two of them compared, the log."""

from collections.abc import Mapping
from typing import Any

from specguard_core.config import StrategyName
from viz_app.abilities import Ability
from viz_app.figures.branch_tree import Twig, branch_tree
from viz_app.gold import NO_GOLD, Gold
from viz_app.session import Line, Look, Session
from viz_app.views.compare import compare_view
from viz_app.views.ledger import ledger_view
from viz_app.views.log import log_view
from viz_app.views.notes import notes_view
from viz_app.views.raw import raw_view
from viz_app.views.thresholds import thresholds_view


def tables_view(
    session: Session,
    look: Look,
    gold: Gold = NO_GOLD,
    abilities: Mapping[StrategyName, Ability] | None = None,
) -> dict[str, Any]:
    """One view per tab; the browser switches between them. Two are made only while open."""
    return {
        "ledger": ledger_view(session, look),
        "tree": tree_view(session),
        "compare": compare_view(session, look, abilities),
        "thresholds": thresholds_view(session, look, gold) if look.tab == "thresholds" else None,
        "log": log_view(session, look),
        "notes": notes_view(session, look),
        "raw": raw_view(session.trace, look.opened) if look.tab == "raw" else None,
    }


def tree_view(session: Session) -> dict[str, Any]:
    """The branches, drawn and in words."""
    if not session.lines:
        return {"empty": "Branches will stand here: redraw, force or re-run a step to make one."}
    twigs = [
        Twig(line.name, line.parent, line.forked_at or 0, _n_steps(line)) for line in session.lines
    ]
    lines = {line.name: line for line in session.lines}
    rows = branch_tree(twigs)
    return {
        "columns": max((twig.n_steps for twig in twigs), default=0),
        "rows": [
            {
                **row,
                "reason": lines[row["name"]].reason or "the run as it was begun",
                "end": _end(lines[row["name"]]),
                "current": row["name"] == session.current,
                "fallbacks": _fallbacks(lines[row["name"]]),
            }
            for row in rows
        ],
    }


def _n_steps(line: Line) -> int:
    """Units of a branch; where several chains run, steps of the longest."""
    if not line.history:
        return 0
    trace = line.history[-1].trace
    return max((len(chain.units) for chain in trace.chains), default=len(trace.units))


def _end(line: Line) -> str:
    trace = line.history[-1].trace
    if trace.finish is None:
        return "not finished"
    return "no answer" if trace.finish.answer is None else f"answer {trace.finish.answer}"


def _fallbacks(line: Line) -> list[int]:
    """Steps that the target wrote because the draft's was refused, from 0."""
    units = line.history[-1].trace.steps
    refused = (step for step in units if step.verdict is not None or step.outcome.forced)
    return [step.index for step in refused if step.outcome.source == "target"]

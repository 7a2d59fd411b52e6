"""The tables at the foot: the ledger, the tree of branches, two of them compared, the log."""

from typing import Any, assert_never

from specguard_core.decoder.states import (
    AwaitingBlock,
    AwaitingChains,
    AwaitingCommit,
    AwaitingDraft,
    AwaitingSelection,
    AwaitingVerdict,
    Finished,
    State,
)
from viz_app.figures.branch_tree import Twig, branch_tree
from viz_app.session import Line, Look, Session, place, stop_at
from viz_app.views.candidates import cluster_letter
from viz_app.views.compare import compare_view
from viz_app.views.ledger import ledger_view
from viz_app.views.numbers import fixed
from viz_app.views.tokens import step_text
from viz_app.views.top import FINISH_WORDS


def tables_view(session: Session, look: Look) -> dict[str, Any]:
    """One view per tab; the browser switches between them."""
    return {
        "ledger": ledger_view(session, look),
        "tree": tree_view(session),
        "compare": compare_view(session, look),
        "log": log_view(session, look),
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


def log_view(session: Session, look: Look) -> dict[str, Any]:
    """Each transition in a sentence; the one that is looked at is marked."""
    rows = []
    for number, state in enumerate(session.history[1:], start=1):
        step_index, phase = stop_at(number)
        rows.append(
            {"number": number, "step": step_index + 1, "phase": phase, "text": _told(state)}
        )
    return {"rows": rows, "at": place(session, look)}


def _told(state: State) -> str:
    match state:
        case AwaitingSelection(candidates=candidates):
            draws = sum(len(candidate.draws) for candidate in candidates)
            if not candidates:
                return "no draft is asked"
            return f"{draws} draws, {len(candidates)} distinct"
        case AwaitingVerdict(selection=selection):
            if selection is None:
                return "nothing to select"
            count = len(set(selection.clusters))
            letter = cluster_letter(selection.clusters[selection.chosen])
            return f"{count} cluster{'s' if count > 1 else ''}, one of {letter} chosen"
        case AwaitingCommit(verdict=verdict, plan=plan):
            force = ", forced" if plan.forced else ""
            if verdict is None:
                return f"no check, {plan.source} writes{force}"
            word = "accepted" if verdict.accepted else "refused"
            return f"{word}, {fixed(verdict.score)} of {fixed(verdict.threshold, 2)}{force}"
        case AwaitingBlock() | AwaitingChains():
            return "a state of another kind of run"
        case AwaitingDraft(trace=trace) | Finished(trace=trace):
            if not trace.steps:
                return "begun"
            step = trace.steps[-1]
            text = f"{step.outcome.source} kept: {step_text(step.output, trace.pieces, 120)}"
            if isinstance(state, Finished) and trace.finish is not None:
                text += f"  ({FINISH_WORDS[trace.finish.reason]})"
            return text
        case _:
            assert_never(state)


def _n_steps(line: Line) -> int:
    return len(line.history[-1].trace.steps) if line.history else 0


def _end(line: Line) -> str:
    trace = line.history[-1].trace
    if trace.finish is None:
        return "not finished"
    return "no answer" if trace.finish.answer is None else f"answer {trace.finish.answer}"


def _fallbacks(line: Line) -> list[int]:
    """Steps that the target wrote, from 0."""
    units = line.history[-1].trace.steps
    return [step.index for step in units if step.outcome.source == "target"]

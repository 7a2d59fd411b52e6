"""Two branches of a session beside each other, step by step, with what differs marked."""

from itertools import zip_longest
from typing import Any

from specguard_core.types import Step, Trace
from viz_app.session import Line, Look, Session
from viz_app.views.candidates import difference
from viz_app.views.numbers import fixed
from viz_app.views.tokens import step_text

MOST_TEXT = 300


def compare_view(session: Session, look: Look) -> dict[str, Any]:
    """The branch on the page against another one: the one chosen, else its parent."""
    line = session.line
    if line is None or len(session.lines) < 2:
        return {"empty": "Two branches will stand here side by side, once there are two."}
    other = _other(session, line, look)
    ours, theirs = line.history[-1].trace, other.history[-1].trace
    pairs = list(zip_longest(theirs.steps, ours.steps))
    return {
        "names": [other.name, line.name],
        "others": [candidate.name for candidate in session.lines if candidate is not line],
        "answers": [_answer(theirs), _answer(ours)],
        "rows": [_row(index, theirs, ours, *pair) for index, pair in enumerate(pairs)],
        "same": sum(1 for a, b in pairs if a is not None and b is not None and _ids(a) == _ids(b)),
    }


def _other(session: Session, line: Line, look: Look) -> Line:
    others = {candidate.name: candidate for candidate in session.lines if candidate is not line}
    for name in (look.compared, line.parent):
        if name in others:
            return others[name]
    return list(others.values())[-1]


def _row(
    index: int, theirs: Trace, ours: Trace, left: Step | None, right: Step | None
) -> dict[str, Any]:
    before = "" if left is None else step_text(left.output, theirs.pieces, MOST_TEXT)
    after = "" if right is None else step_text(right.output, ours.pieces, MOST_TEXT)
    same = left is not None and right is not None and _ids(left) == _ids(right)
    return {
        "step": index + 1,
        "same": same,
        "left": _side(left, [{"kind": "same", "text": before}]),
        "right": _side(right, difference(after, before) if before and not same else _plain(after)),
    }


def _plain(text: str) -> list[dict[str, str]]:
    return [{"kind": "same", "text": text}]


def _side(step: Step | None, parts: list[dict[str, str]]) -> dict[str, Any] | None:
    if step is None:
        return None
    return {
        "source": step.outcome.source + (", forced" if step.outcome.forced else ""),
        "score": "" if step.verdict is None else fixed(step.verdict.score),
        "refused": step.outcome.source == "target",
        "text": parts,
    }


def _ids(step: Step) -> tuple[int, ...]:
    return step.output.token_ids


def _answer(trace: Trace) -> str:
    if trace.finish is None:
        return "not finished"
    return "no answer" if trace.finish.answer is None else f"answer {trace.finish.answer}"

"""Going another way from a recorded step: each makes a branch. Pure; calls no model.

fork       a new branch that shares the history before a step
forced     an outcome that a person decided, whatever the rule says
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from specguard_core.config import DecodeConfig
from specguard_core.decoder.states import (
    AwaitingCommit,
    AwaitingDraft,
    AwaitingVerdict,
    State,
    rewound,
)
from specguard_core.errors import UsageError
from specguard_core.types import Outcome
from viz_app.session import N_PHASES, Line, Session, cursor_at

Force = Literal["accept", "fall back"]


def redrawn(session: Session, step_index: int) -> Session:
    """A branch on which the step is drawn anew, with the next attempt's seeds."""
    before = _state(session, step_index, 0)
    if not isinstance(before, AwaitingDraft):
        raise UsageError("expected a step that was drawn, got none: step to it first")
    again = AwaitingDraft(before.trace, before.attempt + 1)
    name = f"redraw {step_index + 1}"
    return forked(session, step_index, (again,), name, f"step {step_index + 1} drawn again")


def forced(session: Session, step_index: int, force: Force) -> Session:
    """A branch on which the step is kept, or written by the target, whatever the rule says."""
    verified = _state(session, step_index, 3)
    if not isinstance(verified, AwaitingCommit):
        raise UsageError("expected a step with a verdict to force, got none: verify it first")
    if force == "accept" and not verified.candidates:
        raise UsageError("expected a draft's step to accept, got none: the target writes here")
    plan = Outcome("draft" if force == "accept" else "target", forced=True)
    kept = session.history[step_index * N_PHASES : cursor_at(step_index, "verify")]
    states = (*kept, replace(verified, plan=plan, written=None))
    name = f"{force} {step_index + 1}"
    return forked(session, step_index, states, name, f"step {step_index + 1} forced: {force}")


def chosen(session: Session, step_index: int, candidate: int) -> Session:
    """A branch on which another draw stands for the step; the rule judges it next."""
    selected = _state(session, step_index, 2)
    if not isinstance(selected, AwaitingVerdict) or selected.selection is None:
        raise UsageError("expected several candidates to choose from, got one: draw more")
    if not 0 <= candidate < len(selected.candidates):
        raise UsageError(f"expected a candidate of the step, got number {candidate}: pick another")
    other = replace(selected, selection=replace(selected.selection, chosen=candidate))
    kept = session.history[step_index * N_PHASES : cursor_at(step_index, "select")]
    name = f"choice {step_index + 1}"
    reason = f"step {step_index + 1}: another candidate chosen"
    return forked(session, step_index, (*kept, other), name, reason)


def rerun(session: Session, step_index: int, config: DecodeConfig) -> Session:
    """A branch that goes on before the step with other knobs."""
    before = _state(session, step_index, 0)
    trace = replace(rewound(before.trace, step_index), config=config)
    name = f"re-run {step_index + 1}"
    reason = f"other knobs from step {step_index + 1}"
    attempt = before.attempt if isinstance(before, AwaitingDraft) else 0
    return forked(session, step_index, (AwaitingDraft(trace, attempt),), name, reason)


def forked(
    session: Session, step_index: int, states: Sequence[State], name: str, reason: str
) -> Session:
    """The session on a new branch: the history before the step, then these states."""
    line = session.line
    if line is None:
        raise UsageError("expected a run to branch from, got none: step it first")
    taken = {other.name for other in session.lines}
    unique = next(n for n in _names(name) if n not in taken)
    history = (*line.history[: step_index * N_PHASES], *states)
    branch = Line(unique, history, line.name, step_index, reason)
    return replace(session, lines=(*session.lines, branch), current=unique, notice=None)


def switched(session: Session, name: str) -> Session:
    """The session on another of its branches."""
    if name not in {line.name for line in session.lines}:
        raise UsageError(f"expected one of the branches, got {name!r}: choose one of the tree")
    return replace(session, current=name)


def dropped(session: Session, name: str) -> Session:
    """The session without a branch; its children then hang on its parent."""
    gone = next((line for line in session.lines if line.name == name), None)
    if gone is None or gone.parent is None:
        raise UsageError(f"expected a branch other than the first to delete, got {name!r}")
    lines = tuple(
        replace(line, parent=gone.parent) if line.parent == name else line
        for line in session.lines
        if line is not gone
    )
    current = gone.parent if session.current == name else session.current
    return replace(session, lines=lines, current=current)


def _names(name: str) -> Sequence[str]:
    return [name, *(f"{name} ({count})" for count in range(2, 10_000))]


def _state(session: Session, step_index: int, offset: int) -> State:
    place = step_index * N_PHASES + offset
    if not 0 <= place < len(session.history):
        raise UsageError(f"expected a step of the run, got step {step_index + 1}: step to it first")
    return session.history[place]

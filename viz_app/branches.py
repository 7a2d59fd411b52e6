"""Going another way from a recorded step: each makes a branch. Pure; calls no model.

fork       a new branch that shares the history before a step
forced     an outcome that a person decided, whatever the rule says
edited     a step whose text a person wrote
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from specguard_core.config import DecodeConfig
from specguard_core.decoder.editing import edited_step
from specguard_core.decoder.states import (
    AwaitingChains,
    AwaitingCommit,
    AwaitingVerdict,
    Finished,
    State,
)
from specguard_core.errors import UsageError
from specguard_core.lm import Vocabulary
from specguard_core.sessions import MAX_BRANCH_NAME
from specguard_core.types import Calibration, Outcome
from viz_app.pace import Phase
from viz_app.session import Line, Session

Force = Literal["accept", "fall back"]


def redrawn(session: Session, step_index: int) -> Session:
    """A branch on which the step is drawn anew, with the next attempt's seeds."""
    before = _state(session, step_index, 0)
    if isinstance(before, Finished):
        raise UsageError("expected a step that was drawn, got none: step to it first")
    name = f"redraw {step_index + 1}"
    reason = f"{session.pace.unit} {step_index + 1} drawn again"
    return forked(session, step_index, (_drawn_again(before),), name, reason)


def forced(session: Session, step_index: int, force: Force) -> Session:
    """A branch on which the step is kept, or written by the target, whatever the rule says."""
    _need_steps(session)
    verified = _state(session, step_index, 3)
    if not isinstance(verified, AwaitingCommit):
        raise UsageError("expected a step with a verdict to force, got none: verify it first")
    if force == "accept" and not verified.candidates:
        raise UsageError("expected a draft's step to accept, got none: the target writes here")
    plan = Outcome("draft" if force == "accept" else "target", forced=True)
    kept = _begun(session, step_index, "verify")
    states = (*kept, replace(verified, plan=plan, written=None))
    name = f"{force} {step_index + 1}"
    return forked(session, step_index, states, name, f"step {step_index + 1} forced: {force}")


def edited(session: Session, step_index: int, text: str, vocabulary: Vocabulary) -> Session:
    """A branch on which a person's text stands for the step; no rule judges it."""
    verified = _state(session, step_index, 3)
    if not isinstance(verified, AwaitingCommit):
        raise UsageError("expected a step with a verdict to edit, got none: verify it first")
    written = edited_step(text, verified.trace.config.delimiter, vocabulary)
    steps = () if session.trace is None else session.trace.steps
    if step_index < len(steps) and steps[step_index].token_ids == written.token_ids:
        raise UsageError("expected another text than the step has, got the same: change it")
    plan = Outcome("edited", forced=True)
    kept = _begun(session, step_index, "verify")
    states = (*kept, replace(verified, plan=plan, written=written))
    name = f"edit {step_index + 1}"
    return forked(session, step_index, states, name, f"step {step_index + 1} edited")


def chosen(session: Session, step_index: int, candidate: int) -> Session:
    """A branch on which another draw stands for the step; the rule judges it next."""
    _need_steps(session)
    selected = _state(session, step_index, 2)
    if not isinstance(selected, AwaitingVerdict) or selected.selection is None:
        raise UsageError("expected several candidates to choose from, got one: draw more")
    if not 0 <= candidate < len(selected.candidates):
        raise UsageError(f"expected a candidate of the step, got number {candidate}: pick another")
    other = replace(selected, selection=replace(selected.selection, chosen=candidate))
    kept = _begun(session, step_index, "select")
    name = f"choice {step_index + 1}"
    reason = f"step {step_index + 1}: another candidate chosen"
    return forked(session, step_index, (*kept, other), name, reason)


def rerun(session: Session, step_index: int, config: DecodeConfig) -> Session:
    """A branch that goes on before the step with other knobs."""
    before = _state(session, step_index, 0)
    name = f"re-run {step_index + 1}"
    reason = f"other knobs from {session.pace.unit} {step_index + 1}"
    return forked(session, step_index, (_under(before, config, session.calibration),), name, reason)


def forked(
    session: Session, step_index: int, states: Sequence[State], name: str, reason: str
) -> Session:
    """The session on a new branch: the history before the step, then these states."""
    line = session.line
    if line is None:
        raise UsageError("expected a run to branch from, got none: step it first")
    taken = {other.name for other in session.lines}
    unique = next(n for n in _names(name) if n not in taken)
    history = (*line.history[: session.pace.before(step_index)], *states)
    branch = Line(unique, history, line.name, step_index, reason)
    return replace(session, lines=(*session.lines, branch), current=unique, notice=None)


def switched(session: Session, name: str) -> Session:
    """The session on another of its branches."""
    if name not in {line.name for line in session.lines}:
        raise UsageError(f"expected one of the branches, got {name!r}: choose one of the tree")
    return replace(session, current=name)


def renamed(session: Session, name: str, other: str) -> Session:
    """The session with a branch under another name; its children and notes follow.

    Raises:
        UsageError: no such branch, or a name that is empty, too long or taken.
    """
    names = [line.name for line in session.lines]
    if name not in names:
        raise UsageError(f"expected one of the branches, got {name!r}: choose one of the tree")
    # What is half a character cannot be saved; a name is one line.
    other = " ".join(other.encode("utf-8", "replace").decode("utf-8").split())
    if not 0 < len(other) <= MAX_BRANCH_NAME:
        raise UsageError(
            f"expected a name of 1 to {MAX_BRANCH_NAME} characters, got {len(other)}: choose one"
        )
    if other != name and other in names:
        raise UsageError(f"expected a name of its own, got {other!r} of another branch: choose one")

    def now(old: str) -> str:
        return other if old == name else old

    lines = tuple(
        replace(
            line,
            name=now(line.name),
            parent=None if line.parent is None else now(line.parent),
        )
        for line in session.lines
    )
    notes = tuple(replace(note, branch=now(note.branch)) for note in session.notes)
    return replace(session, lines=lines, current=now(session.current), notes=notes, notice=None)


def dropped(session: Session, name: str) -> Session:
    """The session without a branch and its notes; its children then hang on its parent."""
    gone = next((line for line in session.lines if line.name == name), None)
    if gone is None or gone.parent is None:
        raise UsageError(f"expected a branch other than the first to delete, got {name!r}")
    lines = tuple(
        replace(line, parent=gone.parent) if line.parent == name else line
        for line in session.lines
        if line is not gone
    )
    current = gone.parent if session.current == name else session.current
    notes = tuple(note for note in session.notes if note.branch != name)
    return replace(session, lines=lines, current=current, notes=notes)


def _drawn_again(state: State) -> State:
    """The state before a unit, or of each chain before one, at the next attempt."""
    if isinstance(state, Finished):
        return state
    again = replace(state, attempt=state.attempt + 1)
    if isinstance(again, AwaitingChains):
        return replace(again, chains=tuple(_drawn_again(chain) for chain in again.chains))
    return again


def _under(state: State, config: DecodeConfig, calibration: Calibration | None = None) -> State:
    """The state with other knobs from here on, and with a calibration where it has none."""
    trace = state.trace
    known = trace.calibration or calibration
    other = replace(state, trace=replace(trace, config=config, calibration=known))
    if isinstance(other, AwaitingChains):
        chains = tuple(_under(chain, config, calibration) for chain in other.chains)
        return replace(other, chains=chains)
    return other


def _begun(session: Session, step_index: int, phase: Phase) -> tuple[State, ...]:
    """The states of a step before the one that a phase of it leads to."""
    pace = session.pace
    return session.history[pace.before(step_index) : pace.cursor_at(step_index, phase)]


def _names(name: str) -> Sequence[str]:
    return [name, *(f"{name} ({count})" for count in range(2, 10_000))]


def _need_steps(session: Session) -> None:
    """Refuse what only one chain of steps can be given."""
    if session.pace.unit != "step":
        raise UsageError(
            "expected a step to decide otherwise, got a block of tokens: redraw the block, or run "
            "another strategy beside it"
        )
    if session.history and isinstance(session.history[0], AwaitingChains):
        raise UsageError(
            "expected one chain of steps, got several that vote: redraw the step of all of them, "
            "or run `rsd` to go another way in one"
        )


def _state(session: Session, step_index: int, offset: int) -> State:
    place = session.pace.before(step_index) + offset
    if not 0 <= place < len(session.history):
        raise UsageError(f"expected a step of the run, got step {step_index + 1}: step to it first")
    return session.history[place]

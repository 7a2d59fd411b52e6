"""What was known of a step at a stop of its run. Pure; knows no model and no gradio.

sight      everything that was known of one step at one stop; what came later is None
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import assert_never

from specguard_core.config import SelectionMethod
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
from specguard_core.similarity import Matrix
from specguard_core.types import Candidate, Cost, Outcome, Selection, Trace, Verdict
from viz_app.history import lanes
from viz_app.pace import Phase
from viz_app.session import WRITTEN, Look, Session, alone, place


@dataclass(frozen=True, slots=True)
class Sight:
    """What was known of a step at a stop; later parts are None."""

    trace: Trace
    step_index: int
    phase: Phase
    attempt: int
    candidates: tuple[Candidate, ...]
    similarity: Mapping[SelectionMethod, Matrix]
    selection: Selection | None
    verdict: Verdict | None
    outcome: Outcome | None
    written: Candidate | None
    cost: Cost

    @property
    def judged_index(self) -> int | None:
        """Index of the candidate that stands for the draws; None where it is not known yet."""
        if not self.candidates:
            return None
        if self.selection is not None:
            return self.selection.chosen
        return 0 if len(self.candidates) == 1 else None

    def candidate(self, index: int | None) -> Candidate | None:
        """The candidate a Look names: one of the draws, the written one, or the judged one."""
        if index == WRITTEN:
            return self.written
        if index is None or not 0 <= index < len(self.candidates):
            index = self.judged_index
        if index is None:
            return self.candidates[0] if self.candidates else self.written
        return self.candidates[index]


def sight(session: Session, look: Look) -> Sight | None:
    """What is known at the place a person looks at; None before the first step, and of blocks."""
    cursor = place(session, look)
    trace = session.trace
    if cursor == 0 or trace is None or session.pace.unit != "step":
        return None
    step_index, phase = session.pace.stop_at(cursor)
    if phase == "commit":
        return _committed(trace, step_index)
    return _underway(trace, session.history[cursor], step_index, phase)


def steps_in_sight(session: Session) -> tuple[Sight, ...]:
    """Every step of the run as far as it got, the unfinished one last."""
    trace = session.trace
    if trace is None:
        return ()
    done = [_committed(trace, index) for index in range(len(trace.steps))]
    last = len(session.history) - 1
    if session.pace.within(last):
        step_index, phase = session.pace.stop_at(last)
        done.append(_underway(trace, session.history[last], step_index, phase))
    return tuple(done)


def unit_costs(session: Session) -> tuple[Cost, ...]:
    """What each unit of the run cost, an unfinished one as far as it got; of several chains, the
    same step of all of them."""
    trace, found = session.trace, lanes(session.history)
    if trace is None:
        return ()
    if session.pace.unit == "block":
        return tuple(block.cost for block in trace.blocks)
    runs = [session] if not found else [alone(session, history) for history in found]
    columns = zip_longest(*(steps_in_sight(run) for run in runs))
    return tuple(
        sum((seen.cost for seen in column if seen is not None), start=Cost()) for column in columns
    )


def _committed(trace: Trace, step_index: int) -> Sight:
    step = trace.steps[step_index]
    return Sight(
        trace=trace,
        step_index=step_index,
        phase="commit",
        attempt=step.attempt,
        candidates=step.candidates,
        similarity={} if step.selection is None else step.selection.similarity,
        selection=step.selection,
        verdict=step.verdict,
        outcome=step.outcome,
        written=step.written,
        cost=step.cost,
    )


def _underway(trace: Trace, state: State, step_index: int, phase: Phase) -> Sight:
    similarity: Mapping[SelectionMethod, Matrix] = {}
    selection, verdict, outcome, written = None, None, None, None
    match state:
        case AwaitingSelection():
            similarity = state.similarity
        case AwaitingVerdict():
            selection = state.selection
        case AwaitingCommit():
            selection, verdict = state.selection, state.verdict
            outcome, written = state.plan, state.written
        case AwaitingDraft() | AwaitingBlock() | AwaitingChains() | Finished():
            raise ValueError(f"expected a state within step {step_index}, got one between steps")
        case _:
            assert_never(state)
    if selection is not None:
        similarity = selection.similarity
    return Sight(
        trace=trace,
        step_index=step_index,
        phase=phase,
        attempt=state.attempt,
        candidates=state.candidates,
        similarity=similarity,
        selection=selection,
        verdict=verdict,
        outcome=outcome,
        written=written,
        cost=state.cost,
    )

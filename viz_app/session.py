"""What one person is looking at: the run's states, and the place among them. Pure; knows no model
and no gradio.

history    the states of a run, one per transition; the first is before anything happened
stop       a place in the history: a step and the last phase that ran; four stops a step
cursor     index of a stop: 0 is before the first step, 4 * i + 1 is step i after its sampling
line       one branch of the run: a history, and where it left its parent
head       the newest state; going on from an older one replays up to it before a model is called
sight      everything that was known of one step at one stop
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from specguard_core.config import DecodeConfig, SelectionMethod
from specguard_core.decoder.states import (
    AwaitingBlock,
    AwaitingChains,
    AwaitingCommit,
    AwaitingDraft,
    AwaitingSelection,
    AwaitingVerdict,
    Finished,
    State,
    resume,
    rewound,
)
from specguard_core.similarity import Matrix
from specguard_core.types import Breakpoint, Candidate, Cost, Outcome, Selection, Trace, Verdict

Phase = Literal["sample", "select", "verify", "commit"]
PHASES: tuple[Phase, ...] = ("sample", "select", "verify", "commit")
N_PHASES = len(PHASES)
MAIN = "main"


@dataclass(frozen=True, slots=True)
class Problem:
    """The question on the page; gold is the right answer where it is known."""

    question: str = ""
    gold: str | None = None
    problem_id: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One branch: its states, and where and why it left its parent (None: the first)."""

    name: str
    history: tuple[State, ...]
    parent: str | None = None
    forked_at: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """One person's run and its branches.

    lines     the branches, in the order they were made; `current` is the one on the page
    notice    one sentence on what failed last, None where nothing did
    pause     why the last run paused, in words; empty where it did not
    """

    problem: Problem = field(default_factory=Problem)
    config: DecodeConfig = field(default_factory=DecodeConfig)
    lines: tuple[Line, ...] = ()
    current: str = MAIN
    notice: str | None = None
    breakpoints: tuple[Breakpoint, ...] = ()
    pause: str = ""

    @property
    def line(self) -> Line | None:
        """The branch on the page; None before the run began."""
        return next((line for line in self.lines if line.name == self.current), None)

    @property
    def history(self) -> tuple[State, ...]:
        """The states of the branch on the page."""
        line = self.line
        return () if line is None else line.history

    @property
    def head(self) -> State | None:
        """The newest state; None before the run began."""
        history = self.history
        return history[-1] if history else None

    @property
    def trace(self) -> Trace | None:
        """The run as far as it got; None before it began."""
        head = self.head
        return None if head is None else head.trace

    @property
    def run_config(self) -> DecodeConfig:
        """The knobs of the branch on the page; those of the next run before it began."""
        trace = self.trace
        return self.config if trace is None else trace.config

    @property
    def finished(self) -> bool:
        return isinstance(self.head, Finished)


@dataclass(frozen=True, slots=True)
class Look:
    """Where a person looks. cursor: None follows the head; candidate: None is the judged one.

    candidate is an index into the step's candidates; WRITTEN is the step the target wrote.
    knobs: settings to judge the recorded run by; None judges it as it was run.
    compared: the branch to lay beside the one on the page; None is its parent.
    """

    cursor: int | None = None
    candidate: int | None = None
    knobs: DecodeConfig | None = None
    compared: str | None = None


WRITTEN = -1


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


def asked(session: Session, problem: Problem) -> Session:
    """The session with a new problem; the old run is left behind."""
    return Session(problem, session.config, breakpoints=session.breakpoints)


def configured(session: Session, config: DecodeConfig) -> Session:
    """The session with other knobs; they hold for a new run, so the old one is left behind."""
    return Session(session.problem, config, breakpoints=session.breakpoints)


def grown(session: Session, state: State) -> Session:
    """The session after one more state on its branch."""
    line = session.line
    if line is None:
        first = (Line(MAIN, (state,)),)
        return replace(session, lines=first, current=MAIN, notice=None, pause="")
    longer = replace(line, history=(*line.history, state))
    lines = tuple(longer if other is line else other for other in session.lines)
    return replace(session, lines=lines, notice=None, pause="")


def opened(session: Session, trace: Trace) -> Session:
    """The session on a recorded trace of steps."""
    problem = Problem(trace.problem, trace.gold, trace.problem_id)
    return Session(problem, trace.config, (Line(MAIN, history_of(trace)),))


def history_of(trace: Trace) -> tuple[State, ...]:
    """The states a recorded trace went through, up to where it can go on.

    A step's cost is known as a whole only, so it stands in each of its states.
    """
    states: list[State] = []
    for step in trace.steps:
        before = rewound(trace, step.index)
        similarity = {} if step.selection is None else step.selection.similarity
        plan = replace(step.outcome)
        states += [
            AwaitingDraft(before, step.attempt),
            AwaitingSelection(before, step.attempt, step.candidates, similarity, step.cost),
            AwaitingVerdict(before, step.attempt, step.candidates, step.selection, step.cost),
            AwaitingCommit(
                before,
                step.attempt,
                step.candidates,
                step.selection,
                step.verdict,
                plan,
                step.cost,
                step.written if plan.source == "edited" else None,
            ),
        ]
    return (*states, resume(trace))


def stop_at(cursor: int) -> tuple[int, Phase]:
    """Step index and phase of a cursor above 0."""
    return (cursor - 1) // N_PHASES, PHASES[(cursor - 1) % N_PHASES]


def cursor_at(step_index: int, phase: Phase = "commit") -> int:
    """The inverse of stop_at."""
    return step_index * N_PHASES + PHASES.index(phase) + 1


def place(session: Session, look: Look) -> int:
    """The cursor a Look stands at, kept inside the history."""
    last = max(len(session.history) - 1, 0)
    return last if look.cursor is None else min(max(look.cursor, 0), last)


def moved(session: Session, look: Look, cursor: int) -> Look:
    """The Look at another stop; at the head it follows again."""
    last = max(len(session.history) - 1, 0)
    cursor = min(max(cursor, 0), last)
    return replace(look, cursor=None if cursor == last else cursor, candidate=None)


def step_back(cursor: int) -> int:
    """The stop where the step under the cursor had not begun, or the one before it ended."""
    return max((cursor - 1) // N_PHASES, 0) * N_PHASES


def step_on(cursor: int) -> int:
    """The stop where the next step, or the rest of this one, is committed."""
    return (cursor // N_PHASES + 1) * N_PHASES


def sight(session: Session, look: Look) -> Sight | None:
    """What is known at the place a person looks at; None before the first step."""
    cursor = place(session, look)
    trace = session.trace
    if cursor == 0 or trace is None:
        return None
    step_index, phase = stop_at(cursor)
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
    if last % N_PHASES:
        step_index, phase = stop_at(last)
        done.append(_underway(trace, session.history[last], step_index, phase))
    return tuple(done)


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

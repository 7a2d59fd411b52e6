"""What one person is looking at: the run's states, and the place among them. Pure; knows no model
and no gradio.

history    the states of a run, one per transition; the first is before anything happened
stop       a place in the history: a unit (a step or a block) and the last phase of it that ran
cursor     index of a stop: 0 is before the first unit; its pace says where each unit begins
line       one branch of the run: a history, and where it left its parent
head       the newest state; going on from an older one replays up to it before a model is called
"""

from dataclasses import dataclass, field, replace

from specguard_core.config import DecodeConfig
from specguard_core.decoder.states import Finished, State
from specguard_core.sessions import Breakpoint, Note, TargetView
from specguard_core.types import Calibration, Trace
from viz_app.history import history_of, lanes
from viz_app.pace import Pace, pace_of

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
    notes     remarks on steps, by branch and step
    target_views   what the target made of steps it was shown afterwards; no part of any run
    beside    further runs, for the thresholds alone
    calibration    made in this session, for its next runs; None: the pair's own, if it has one
    pair      where its models come from, draft and target; None: the page's own
    """

    problem: Problem = field(default_factory=Problem)
    config: DecodeConfig = field(default_factory=DecodeConfig)
    lines: tuple[Line, ...] = ()
    current: str = MAIN
    notice: str | None = None
    breakpoints: tuple[Breakpoint, ...] = ()
    pause: str = ""
    notes: tuple[Note, ...] = ()
    target_views: tuple[TargetView, ...] = ()
    beside: tuple[Trace, ...] = ()
    calibration: Calibration | None = None
    pair: tuple[str, str] | None = None

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
    def pace(self) -> Pace:
        """What a unit of the branch on the page is, and how many transitions it has."""
        return pace_of(self.run_config)

    @property
    def finished(self) -> bool:
        return isinstance(self.head, Finished)


@dataclass(frozen=True, slots=True)
class Look:
    """Where a person looks. cursor: None follows the head; candidate: None is the judged one.

    candidate is an index into the step's candidates; WRITTEN is the step the target wrote.
    knobs: settings to judge the recorded run by; None judges it as it was run.
    compared: the branch to lay beside the one on the page; None is its parent.
    chain: which of several chains is shown; None is the one that won, before the vote the first.
    tab: the table at the foot that is open; opened: nodes of the raw trace that are unfolded.
    """

    cursor: int | None = None
    candidate: int | None = None
    knobs: DecodeConfig | None = None
    compared: str | None = None
    chain: int | None = None
    tab: str = "ledger"
    opened: frozenset[str] = frozenset()


WRITTEN = -1


def asked(session: Session, problem: Problem) -> Session:
    """The session with a new problem; the old run is left behind."""
    return _afresh(session, problem, session.config)


def configured(session: Session, config: DecodeConfig) -> Session:
    """The session with other knobs; they hold for a new run, so the old one is left behind."""
    return _afresh(session, session.problem, config)


def paired(
    session: Session, pair: tuple[str, str] | None, wanted: DecodeConfig, *, goes_on: bool
) -> Session:
    """The session with other models; what they cannot go on with is left behind.

    wanted: the knobs of a run from its beginning.
    """
    after = session if goes_on else _afresh(session, session.problem, wanted)
    return replace(after, pair=pair, calibration=None, notice=None)


def is_left(before: Session, after: Session) -> bool:
    """Whether no branch of what was there is there still."""
    kept = [line.history for line in after.lines]
    gone = [all(line.history is not history for history in kept) for line in before.lines]
    return bool(gone) and all(gone)


def _afresh(session: Session, problem: Problem, config: DecodeConfig) -> Session:
    return Session(
        problem,
        config,
        breakpoints=session.breakpoints,
        beside=session.beside,
        calibration=session.calibration,
        pair=session.pair,
    )


def elsewhere(look: Look, knobs: DecodeConfig | None = None) -> Look:
    """A look at the head of a run, with the table at the foot as it was."""
    return Look(knobs=knobs, tab=look.tab, opened=look.opened)


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
    """The session on a recorded trace."""
    problem = Problem(trace.problem, trace.gold, trace.problem_id)
    return Session(problem, trace.config, (Line(MAIN, history_of(trace)),))


def place(session: Session, look: Look) -> int:
    """The cursor a Look stands at, kept inside the history."""
    last = max(len(session.history) - 1, 0)
    return last if look.cursor is None else min(max(look.cursor, 0), last)


def moved(session: Session, look: Look, cursor: int) -> Look:
    """The Look at another stop; at the head it follows again."""
    last = max(len(session.history) - 1, 0)
    cursor = min(max(cursor, 0), last)
    return replace(look, cursor=None if cursor == last else cursor, candidate=None)


def lane(session: Session, look: Look) -> Session:
    """The session as one of its chains alone, so that it is looked at like any run of steps.

    The session itself where its strategy runs one chain only.
    """
    found = lanes(session.history)
    return alone(session, found[chain_shown(session, look)]) if found else session


def alone(session: Session, history: tuple[State, ...]) -> Session:
    """The session with another history in place of the one on the page."""
    lines = (
        replace(line, history=history) if line.name == session.current else line
        for line in session.lines
    )
    return replace(session, lines=tuple(lines))


def chain_shown(session: Session, look: Look) -> int:
    """Index of the chain that is looked at."""
    trace = session.trace
    n_chains = 0 if trace is None else len(trace.chains)
    if look.chain is not None and 0 <= look.chain < n_chains:
        return look.chain
    return 0 if trace is None or trace.vote is None else trace.vote.chosen

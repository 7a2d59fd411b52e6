"""Driving a session forward with the models, as a stream of what to show. Knows no gradio.

move       step: to the next commit; phase: one transition; run: to a breakpoint or the end; the
           others say themselves what they do
frame      the session after some transitions, and what is going on
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Literal, assert_never

from specguard_core.config import DecodeConfig
from specguard_core.decoder.states import Finished, State
from specguard_core.decoder.step import start
from specguard_core.errors import Cancelled, SpecGuardError, out_of_memory
from viz_app.beside import RunBeside, begun
from viz_app.branches import edited
from viz_app.breakpoints import hits
from viz_app.calibrating import Calibrate, calibrated
from viz_app.history import lanes
from viz_app.limits import sentence_of
from viz_app.pace import Phase
from viz_app.phases import Advance, Hands, Read
from viz_app.session import WRITTEN, Look, Session, elsewhere, grown
from viz_app.target_views import read_request, with_view
from viz_app.turns import Turn, Turns, place_words
from viz_app.work import Job, Loaded, Pair, Room, Task


@dataclass(frozen=True, slots=True)
class RunTo:
    """A run that pauses once this many units are kept; None: it passes breakpoints to the end."""

    n_units: int | None


@dataclass(frozen=True, slots=True)
class Edit:
    """A branch on which a person's text stands for a step."""

    step_index: int
    text: str


@dataclass(frozen=True, slots=True)
class AskTarget:
    """One pass of the target over the step a person looks at; the run does not go on."""

    look: Look


Move = Literal["step", "phase", "run"] | RunTo | Edit | AskTarget | RunBeside | Calibrate
TICK_SECONDS = 0.25
"""No more than four pictures a second: above five a browser cannot keep up."""

MEMORY = (
    "the models ran out of memory in this step; the steps so far stand: go on, or reset and ask "
    "for fewer candidates or shorter steps"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Frame:
    """progress: one phrase on what runs now; None where nothing does. grown: the history grew."""

    session: Session
    progress: str | None
    grown: bool


def drive(
    session: Session,
    move: Move,
    pair: Pair,
    room: Room,
    look: Look | None = None,
    turns: Turns | None = None,
    tell: Callable[[BaseException], str] = sentence_of,
) -> Iterator[Frame]:
    """Frames until the move is done, stopped or failed; the last one has no progress.

    Whatever happens, the session of the last frame is whole and can go on. It waits for its turn
    among all that work with the models; `tell` says what the page says of an error.
    """
    job = Job(look or Look())
    room.job = job
    try:
        for frame in _told(session, move, pair, room, job, turns or Turns(), tell):
            # Once the page is told the end it may ask for more, before this one is put away.
            job.over = frame.progress is None
            yield frame
    finally:
        job.stop.set()
        if room.job is job:
            room.job = None


def _told(
    session: Session,
    move: Move,
    pair: Pair,
    room: Room,
    job: Job,
    turns: Turns,
    tell: Callable[[BaseException], str],
) -> Iterator[Frame]:
    """The frames of a move, the one that tells of a failure among them."""
    try:
        with turns.turn() as turn:
            yield from (Frame(session, words, grown=False) for words in _waiting(turn, job))
            for frame in _frames(session, move, pair, room, job):
                session = frame.session
                yield frame
        yield Frame(session, None, grown=True)
    except Cancelled:
        yield Frame(session, None, grown=True)
    except SpecGuardError as error:
        yield Frame(replace(session, notice=tell(error)), None, grown=True)
    except Exception as error:  # noqa: BLE001 - the page stays alive whatever a model does
        _log.exception("a transition failed")
        text = f"a transition failed ({tell(error)}); the steps so far stand"
        if out_of_memory(error):
            pair.forget()
            text = MEMORY
        yield Frame(replace(session, notice=text), None, grown=True)


def _waiting(turn: Turn, job: Job) -> Iterator[str]:
    """The place in the queue, whenever it is another one, until it is the first."""
    place = None
    while not turn.wait(TICK_SECONDS):
        if job.stop.is_set():
            raise Cancelled
        if turn.place not in (place, 0):
            place = turn.place
            yield place_words(place)


def _frames(session: Session, move: Move, pair: Pair, room: Room, job: Job) -> Iterator[Frame]:
    loading: Task[Loaded] = Task(pair.get)
    for seconds in loading.ticks(TICK_SECONDS):
        yield Frame(session, f"loading models, {seconds:.1f} s", grown=False)
    loaded = loading.result()
    if isinstance(move, AskTarget):
        yield from _asked(session, move, pair, job)
        return
    if isinstance(move, Calibrate):
        for after, words in calibrated(session, move, pair, job, TICK_SECONDS):
            yield Frame(after, words, grown=words is None)
        return
    if isinstance(move, RunBeside):
        yield from _beside(session, move, loaded, pair, room, job)
        return
    if isinstance(move, Edit):
        session = edited(session, move.step_index, move.text, loaded.models.vocabulary)
        job.look = replace(elsewhere(job.look), candidate=WRITTEN)
    if session.head is None:
        session = grown(session, _first(session, session.config, loaded))
    yield from _on(session, move, pair, room, job)


def _beside(
    session: Session, move: RunBeside, loaded: Loaded, pair: Pair, room: Room, job: Job
) -> Iterator[Frame]:
    """Each of the runs to its end, one after the other; at last B is on the page.

    The models forget what they have read before each, so that neither finds its prompt read.
    """
    for name, config in move.runs:
        pair.forget()
        session = begun(session, name, _first(session, config, loaded))
        for frame in _on(session, RunTo(None), pair, room, job):
            session = frame.session
            yield replace(frame, progress=frame.progress and f"{name}: {frame.progress}")
        if job.stop.is_set():
            return
    yield Frame(replace(session, current=move.sides[1]), None, grown=True)


def _on(session: Session, move: Move, pair: Pair, room: Room, job: Job) -> Iterator[Frame]:
    """One transition after the other, as far as the move goes."""
    drawn, shown = time.monotonic(), session
    for _ in _transitions(session, move):
        state = session.head
        if state is None or isinstance(state, Finished):
            break
        job.tokens = 0
        task = Task(partial(pair.run, Advance(state), Hands(partial(_count, job), job.stop.is_set)))
        for seconds in task.ticks(TICK_SECONDS):
            drawn = time.monotonic()
            yield Frame(session, _progress(session, job, seconds), grown=session is not shown)
            shown = session
        after, event = task.result()
        room.evidence.record(event)
        session = grown(session, after)
        if reasons := _reached(session, move):
            yield Frame(replace(session, pause=", ".join(reasons)), None, grown=True)
            break
        if job.stop.is_set():
            yield Frame(session, None, grown=True)
            break
        late = time.monotonic() - drawn >= TICK_SECONDS
        if late:
            drawn, shown = time.monotonic(), session
        progress = _progress(session, job, 0.0)
        # Unseen frames still carry the session, so that a stop loses nothing.
        yield Frame(session, progress, grown=late)


def _asked(session: Session, move: AskTarget, pair: Pair, job: Job) -> Iterator[Frame]:
    request = read_request(session, move.look)
    task = Task(partial(pair.run, Read(request), Hands(should_stop=job.stop.is_set)))
    for seconds in task.ticks(TICK_SECONDS):
        yield Frame(session, f"target reading, {seconds:.1f} s", grown=False)
    yield Frame(with_view(session, request, task.result()), None, grown=True)


def _reached(session: Session, move: Move) -> list[str]:
    """Why a run pauses after the unit just committed; nothing in the middle of one."""
    trace = session.trace
    if trace is None or session.pace.within(len(session.history) - 1) or session.finished:
        return []
    if isinstance(move, RunTo):
        n_units = (len(session.history) - 1) // session.pace.n
        return [f"{session.pace.unit} {n_units} reached"] if n_units == move.n_units else []
    if move != "run":
        return []
    reached: dict[str, None] = {}
    for run in lanes(session.history) or (session.history,):
        own = run[-1].trace
        if len(run) == len(session.history) and own.units:
            reached |= dict.fromkeys(hits(session.breakpoints, own.units[-1], own))
    return list(reached)


def _first(session: Session, config: DecodeConfig, loaded: Loaded) -> State:
    problem = session.problem
    return start(
        problem.question,
        loaded.models,
        config,
        gold=problem.gold,
        problem_id=problem.problem_id,
        calibration=session.calibration or loaded.calibration,
    )


def _transitions(session: Session, move: Move) -> Iterable[int]:
    done = len(session.history) - 1
    match move:
        case "phase":
            return range(1)
        case "step" | Edit():
            return range(session.pace.on(done) - done)
        case "run" | RunTo():
            return count()
        case AskTarget() | RunBeside() | Calibrate():
            return ()
        case _:
            assert_never(move)


_VERBS: dict[Phase, str] = {
    "sample": "draft writing",
    "select": "selecting",
    "verify": "verifying",
    "commit": "committing",
    "block": "drafting and judging",
}


def _count(job: Job, tokens: int) -> None:
    job.tokens = tokens


def _progress(session: Session, job: Job, seconds: float) -> str:
    index, phase = session.pace.stop_at(len(session.history))
    words = f"{session.pace.unit} {index + 1}, {_VERBS[phase]}"
    if job.tokens:
        words += f", {job.tokens} tokens"
    return f"{words}, {seconds:.1f} s" if seconds else words

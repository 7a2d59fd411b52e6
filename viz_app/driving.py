"""Driving a session forward with the models, as a stream of what to show. Knows no gradio.

move       step: to the next commit; phase: one transition; run: to the end
frame      the session after some transitions, and what is going on
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from specguard_core.decoder.states import Finished, State
from specguard_core.decoder.step import advance, start
from specguard_core.errors import Cancelled, SpecGuardError
from specguard_core.events import Event
from viz_app.breakpoints import hits
from viz_app.session import N_PHASES, Look, Session, grown, stop_at
from viz_app.work import Job, Loaded, Pair, Room, Task

Move = Literal["step", "phase", "run"]
TICK_SECONDS = 0.25
"""No more than four pictures a second: above five a browser cannot keep up."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Frame:
    """progress: one phrase on what runs now; None where nothing does. grown: the history grew."""

    session: Session
    progress: str | None
    grown: bool


def drive(
    session: Session, move: Move, pair: Pair, room: Room, look: Look | None = None
) -> Iterator[Frame]:
    """Frames until the move is done, stopped or failed; the last one has no progress.

    Whatever happens, the session of the last frame is whole and can go on.
    """
    job = Job(look or Look())
    room.job = job
    try:
        for frame in _frames(session, move, pair, room, job):
            session = frame.session
            yield frame
        yield Frame(session, None, grown=True)
    except Cancelled:
        yield Frame(session, None, grown=True)
    except SpecGuardError as error:
        yield Frame(replace(session, notice=str(error)), None, grown=True)
    except Exception as error:  # noqa: BLE001 - the page stays alive whatever a model does
        _log.exception("a transition failed")
        text = f"a transition failed ({type(error).__name__}: {error}); the steps so far stand"
        yield Frame(replace(session, notice=text), None, grown=True)
    finally:
        job.stop.set()
        room.job = None


def _frames(session: Session, move: Move, pair: Pair, room: Room, job: Job) -> Iterator[Frame]:
    loading: Task[Loaded] = Task(pair.get)
    for seconds in loading.ticks(TICK_SECONDS):
        yield Frame(session, f"loading models, {seconds:.1f} s", grown=False)
    loaded = loading.result()
    if session.head is None:
        session = grown(session, _first(session, loaded))
    drawn = time.monotonic()
    for _ in _transitions(session, move):
        state = session.head
        if state is None or isinstance(state, Finished):
            break
        call: Callable[[], tuple[State, Event]] = partial(
            advance,
            state,
            loaded.models,
            on_token=partial(_count, job),
            should_stop=job.stop.is_set,
        )
        job.tokens = 0
        task = Task(call)
        for seconds in task.ticks(TICK_SECONDS):
            drawn = time.monotonic()
            yield Frame(session, _progress(session, job, seconds), grown=False)
        after, event = task.result()
        room.evidence.record(event)
        session = grown(session, after)
        if move == "run" and (reasons := _reached(session)):
            yield Frame(replace(session, pause=", ".join(reasons)), None, grown=True)
            break
        if job.stop.is_set():
            yield Frame(session, None, grown=True)
            break
        late = time.monotonic() - drawn >= TICK_SECONDS
        if late:
            drawn = time.monotonic()
        progress = _progress(session, job, 0.0)
        # Unseen frames still carry the session, so that a stop loses nothing.
        yield Frame(session, progress, grown=late)


def _reached(session: Session) -> list[str]:
    """The breakpoints that the step just committed has hit; none in the middle of a step."""
    trace = session.trace
    if trace is None or (len(session.history) - 1) % N_PHASES or session.finished:
        return []
    return hits(session.breakpoints, trace.steps[-1], trace) if trace.steps else []


def _first(session: Session, loaded: Loaded) -> State:
    problem = session.problem
    return start(
        problem.question,
        loaded.models,
        session.config,
        gold=problem.gold,
        problem_id=problem.problem_id,
        calibration=loaded.calibration,
    )


def _transitions(session: Session, move: Move) -> Iterator[int]:
    done = len(session.history) - 1
    if move == "phase":
        yield from range(1)
    elif move == "step":
        yield from range(N_PHASES - done % N_PHASES)
    else:
        count = 0
        while True:
            yield count
            count += 1


def _count(job: Job, tokens: int) -> None:
    job.tokens = tokens


def _progress(session: Session, job: Job, seconds: float) -> str:
    step_index, phase = stop_at(len(session.history))
    verb = {"sample": "draft writing", "select": "selecting", "verify": "verifying"}
    words = f"step {step_index + 1}, {verb.get(phase, 'committing')}"
    if job.tokens:
        words += f", {job.tokens} tokens"
    return f"{words}, {seconds:.1f} s" if seconds else words

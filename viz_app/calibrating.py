"""Measuring what is usual for the loaded pair, for one session. Knows no gradio.

A calibration made here holds for the session's next runs, and recorded runs without one are judged
by it as what-if; what happened in them stays as it was.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from specguard_core import bundled
from specguard_core.errors import ProblemError, UsageError
from specguard_core.problem_files import FileProblem, problems_in, read_problems
from specguard_core.types import Calibration
from viz_app.phases import Hands, Measure
from viz_app.session import Session
from viz_app.work import Job, Pair, Task

N_PROBLEMS = 40
"""Problems a calibration in the page is made on; enough for steady percentiles of small pairs."""


@dataclass(frozen=True, slots=True)
class Calibrate:
    """Draw and measure steps of these problems; the run on the page does not go on."""

    problems: tuple[FileProblem, ...]


def calibrate_move(text: Any) -> Calibrate:
    """The move for the problems of a file's text, or for the ones that ship.

    Raises:
        UsageError: the file cannot be read; the sentence has the line's number.
    """
    try:
        if isinstance(text, str):
            return Calibrate(problems_in(text, "the problem file", limit=N_PROBLEMS))
        return Calibrate(read_problems(bundled.CALIBRATION_PROBLEMS, limit=N_PROBLEMS))
    except ProblemError as error:
        raise UsageError(str(error)) from None


def calibrated(
    session: Session, move: Calibrate, pair: Pair, job: Job, tick_seconds: float
) -> Iterator[tuple[Session, str | None]]:
    """The session and what is going on, until it holds the calibration and nothing is."""
    done = [0]
    hands = Hands(partial(done.__setitem__, 0), job.stop.is_set)
    task = Task(partial(pair.run, Measure(move.problems, session.run_config), hands))
    for seconds in task.ticks(tick_seconds):
        yield session, f"calibrating, {done[0]} of {len(move.problems)} problems, {seconds:.0f} s"
    yield replace(session, calibration=task.result(), notice=None), None


def told(calibration: Calibration | None) -> str:
    """A session's own calibration in words; empty where it has none."""
    if calibration is None:
        return ""
    return f"calibrated here: {calibration.n_problems} problems, {calibration.n_steps} steps"

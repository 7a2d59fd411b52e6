"""Where phases run: in this process or, on a Space with ZeroGPU, in a worker forked from it.

The only module that knows `spaces`; without that package, and off ZeroGPU, phases run in place.

worker     a copy of this process that has the GPU: a phase goes in and its answer comes out, both
           pickled. What else it changes, its models' caches among it, is its own and may be lost
board      a page of memory that workers share with the process they were forked from
"""

import logging
import mmap
import pickle
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from specguard_core.errors import ModelError, SpecGuardError
from specguard_core.lm import Models
from viz_app.phases import Hands, Phase

Answer = TypeVar("Answer")
Work = Callable[[Phase[Any]], tuple[Any, Exception | None]]
Seconds = Callable[[Phase[Any]], float]
Fork = Callable[[Work, Seconds], Work]
"""Makes of a function one that runs in a worker, given the seconds that a call may take."""

SECONDS_A_TOKEN = 0.05
LEAST_SECONDS, MOST_SECONDS = 10.0, 120.0
POLL_SECONDS = 0.05

_log = logging.getLogger(__name__)


def zero_gpu() -> Fork:
    """The fork of ZeroGPU. To be asked for before anything else imports torch.

    Raises:
        ModelError: `spaces` is not installed.
    """
    try:
        import spaces
    except ImportError as error:
        raise ModelError(
            f"expected the spaces package on a Space with ZeroGPU, got none ({error}): "
            "add it to requirements.txt"
        ) from None
    return lambda work, seconds: spaces.GPU(work, duration=seconds)


def most_seconds(phase: Phase[Any]) -> float:
    """Seconds of a GPU to ask for: what is asked for and not used costs a visitor's quota."""
    wanted = LEAST_SECONDS + SECONDS_A_TOKEN * phase.n_tokens
    return min(wanted, MOST_SECONDS)


class Workplace:
    """Runs phases, one at a time, on the models that `models` gives once they are loaded."""

    def __init__(self, models: Callable[[], Models], fork: Fork | None = None) -> None:
        self._models = models
        self._board: Board | None = None
        if fork is not None:
            self._board = Board()
            self._work = fork(self._worked, most_seconds)

    def run(self, phase: Phase[Answer], hands: Hands) -> Answer:
        """The phase's answer, or its error.

        Raises:
            ModelError: no worker could be had; whatever else the phase raises.
        """
        if self._board is None or phase.n_tokens == 0:
            return phase.run(self._models(), hands)
        with self._board.told_to(hands):
            try:
                answer, failure = self._work(phase)
            except Exception as error:
                said = getattr(error, "message", error)
                raise ModelError(f"expected a GPU for this step, got none: {said}") from error
        if failure is not None:
            raise failure
        return answer

    def _worked(self, phase: Phase[Any]) -> tuple[Any, Exception | None]:
        """In a worker: an error that leaves it by itself arrives without its sentence."""
        assert self._board is not None
        try:
            return phase.run(self._models(), self._board.hands), None
        except Exception as error:  # noqa: BLE001 - raised again where the answer is awaited
            return None, _sendable(error)


class Board:
    """What a worker and whoever waits for it tell each other: tokens one way, stop the other."""

    _TOKENS, _STOP = struct.Struct("=I"), struct.Struct("=?")

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    @property
    def hands(self) -> Hands:
        """The worker's end."""
        page = self._page
        return Hands(
            lambda n_tokens: self._TOKENS.pack_into(page, 0, n_tokens),
            lambda: self._STOP.unpack_from(page, self._TOKENS.size)[0],
        )

    @contextmanager
    def told_to(self, hands: Hands) -> Iterator[None]:
        """The other end, while the block lasts."""
        page, done = self._page, threading.Event()
        self._TOKENS.pack_into(page, 0, 0)
        self._STOP.pack_into(page, self._TOKENS.size, False)

        def watch() -> None:
            while not done.wait(POLL_SECONDS):
                if hands.should_stop():
                    self._STOP.pack_into(page, self._TOKENS.size, True)
                if n_tokens := self._TOKENS.unpack_from(page, 0)[0]:
                    hands.on_token(n_tokens)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _sendable(error: Exception) -> Exception:
    """The error itself where it survives the way, else one that says the same."""
    if not isinstance(error, SpecGuardError):
        _log.exception("a phase failed in a worker")
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - what was just written
    except Exception:  # noqa: BLE001 - whatever stands in the way
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error

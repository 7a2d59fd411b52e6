"""Workers forked for tests, as ZeroGPU forks them: what is not pickled does not come back. Knows no
test.

fresh      every phase has a worker of its own: nothing a phase changes is there for the next one
kept       one worker has them all: it was forked before the first, and knows nothing of its parent
           since
"""

import multiprocessing
import pickle
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from viz_app.workers import Seconds, Work

_FORK = multiprocessing.get_context("fork")


class Forks:
    """A fork that counts its workers and keeps the seconds each phase asked for."""

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self._line: Connection | None = None
        self.n_workers = 0
        self.seconds: list[float] = []

    def __call__(self, work: Work, seconds: Seconds) -> Work:
        def call(phase: Any) -> tuple[Any, Exception | None]:
            self.seconds.append(seconds(phase))
            line = self._worker(work)
            line.send_bytes(pickle.dumps(phase))
            return pickle.loads(line.recv_bytes())

        return call

    def _worker(self, work: Work) -> Connection:
        if self._line is not None and self._kept:
            return self._line
        self.n_workers += 1
        ours, theirs = _FORK.Pipe()
        _FORK.Process(target=_serve, args=(theirs, ours, work), daemon=True).start()
        theirs.close()
        self._line = ours
        return ours


def _serve(line: Connection, parents: Connection, work: Callable[[Any], Any]) -> None:
    parents.close()
    while True:
        try:
            phase = pickle.loads(line.recv_bytes())
        except EOFError:
            return
        line.send_bytes(pickle.dumps(work(phase)))

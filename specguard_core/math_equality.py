"""Whether two answers are mathematically equal, by math-verify in a child process.

Safe in any thread, bounded in time, and started only when first asked. Knows no problem and no
model; what the child does is in _math_worker.py.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

SECONDS_PER_QUESTION = 5.0
SECONDS_TO_START = 120.0
"""Importing sympy takes about a second, and far longer on a machine that is busy."""
MAX_CHARACTERS = 2_000
"""Longer answers are not handed over; they are compared as text."""

_PROGRAM = Path(__file__).with_name("_math_worker.py")


@dataclass(slots=True)
class MathWorker:
    """One child process, restarted after a question it could not answer in time."""

    seconds: float = SECONDS_PER_QUESTION
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _process: "subprocess.Popen[str] | None" = None
    _owner: int = 0
    _unusable: bool = False

    def equal(self, gold: str, given: str) -> bool | None:
        """Whether the answers are equal; None where that could not be told in time."""
        question = json.dumps([gold, given, self.seconds])
        with self._lock:
            for _ in range(2):
                began = time.monotonic()
                reply = self._ask(question)
                if reply:
                    return reply == "1"
                if self._unusable or time.monotonic() - began >= self.seconds:
                    break
                # The child ended early, by another's hand: a new one gets the question once more.
        return None

    def close(self) -> None:
        """End the child, if there is one; the next question starts another."""
        with self._lock:
            self._end()

    def _ask(self, question: str) -> str:
        """The child's reply; empty where it had none, and then the child is ended."""
        reply = ""
        if self._start() and self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.write(question + "\n")
                self._process.stdin.flush()
                # The child keeps the time itself; the margin is for one that cannot.
                reply = _read_line(self._process, self.seconds + 1.0)
            except OSError:  # it is gone
                reply = ""
        if not reply:
            self._end()
        return reply

    def _start(self) -> bool:
        """Whether a child is there to be asked."""
        if self._process is not None and self._owner != os.getpid():
            self._process = None  # after a fork it is the parent's child, and not ours to end
        if self._process is not None or self._unusable:
            return not self._unusable
        self._owner = os.getpid()
        try:
            # -P: the program's folder holds modules named as the standard library's are.
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
            )
        except OSError:
            self._unusable = True
        else:
            self._unusable = _read_line(self._process, SECONDS_TO_START) != "ready"
        return not self._unusable

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was still to be written has no reader any more
                    continue
        process.wait()


def mathematically_equal(gold: str, given: str) -> bool:
    """Whether math-verify finds the answers equal; False where it is missing or cannot tell."""
    if max(len(gold), len(given)) > MAX_CHARACTERS or not _AVAILABLE:
        return False
    return _WORKER.equal(gold, given) is True


def _read_line(process: "subprocess.Popen[str]", seconds: float) -> str:
    """The child's next line, without its end; empty where it was not there in time."""
    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    try:
        return process.stdout.readline().strip() if process.stdout is not None else ""
    finally:
        timer.cancel()


_AVAILABLE = find_spec("math_verify") is not None and bool(sys.executable)
_WORKER = MathWorker()
atexit.register(_WORKER.close)

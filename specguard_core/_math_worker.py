"""A child process that asks math-verify whether two answers are equal. Run, never imported.

It is a process because sympy can hang or eat memory on a short formula, and because math-verify's
own time limits do not work outside a main thread. The parent writes one JSON line [gold, given,
seconds] per question and reads one line back, "1" or "0"; the first line, "ready", says that the
imports are done. A question that outlasts its seconds ends the process, even inside C code and even
where the parent is gone.
"""

import json
import signal
import sys
from collections.abc import Callable
from typing import TextIO

MEMORY_LIMIT_BYTES = 2 * 2**30


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_LIMIT_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_LIMIT_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _load() -> Callable[[str, str], bool]:
    from math_verify import LatexExtractionConfig, parse, verify

    # Plain LaTeX only: math-verify's other extractor hands text to Python's own parser.
    rules = [LatexExtractionConfig()]

    def equal(gold: str, given: str) -> bool:
        parsed = [parse(f"${text}$", rules, parsing_timeout=None) for text in (gold, given)]
        return bool(verify(*parsed, timeout_seconds=None))

    equal(r"\frac{1}{2}", "0.5")  # the grammar is built on first use
    return equal


def _reply(replies: TextIO, line: str) -> None:
    replies.write(line + "\n")
    replies.flush()


def _serve() -> None:
    questions, replies = sys.stdin, sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints stays out of the replies
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    timer = getattr(signal, "setitimer", None)
    _limit_memory()
    equal = _load()
    _reply(replies, "ready")
    for line in questions:
        gold, given, seconds = json.loads(line)
        if timer is not None:
            timer(signal.ITIMER_REAL, seconds)
        try:
            same = equal(gold, given)
        except Exception:  # noqa: BLE001 - a parser and a symbolic engine raise anything
            same = False
        if timer is not None:
            timer(signal.ITIMER_REAL, 0)
        _reply(replies, "1" if same else "0")


if __name__ == "__main__":
    _serve()

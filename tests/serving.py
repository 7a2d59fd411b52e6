"""A page served by another process, as a person starts it: the real pair, or one that recites.

Run as a program, `python tests/serving.py FLAGS`, it is `app.py` with the scripted pair of the
browser tests: no weights are read, and "Slowly" in a question makes it take its time.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
START_SECONDS = 240
APP = ("app.py",)
RECITING = ("tests/serving.py",)
NO_TOUR = "try { localStorage.setItem('specguard tour', 'seen'); } catch { /* no storage here */ }"
"""For a page's init script: this visitor has seen the tour."""


@dataclass(frozen=True)
class Server:
    """A page that answers. process: ends with the block that started it."""

    address: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.address.rsplit(":", 1)[1])


@contextmanager
def served(
    program: Sequence[str], *flags: str, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """The page of a program with these flags, on a free port unless they, or the environment, name
    one."""
    more = dict(environment or {})
    port = () if "--port" in flags or "GRADIO_SERVER_PORT" in more else ("--port", "0")
    with subprocess.Popen(
        [sys.executable, *program, *port, *flags],
        cwd=ROOT,
        env={**os.environ, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield Server(_address(process), process)
        finally:
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines = []
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and (line := process.stdout.readline()):
        lines.append(line)
        if found := re.search(r"http://\S+", line):
            return found.group().rstrip("/")
    raise RuntimeError("the page did not start:\n" + "".join(lines))


def main(flags: Sequence[str]) -> int:
    """app.py with models that recite."""
    from browser.scripted_page import load

    import app

    return app.main(flags, load=lambda given: load(given.draft, given.target))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))

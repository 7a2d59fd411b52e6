"""Four people at one server, in Chromium: does its memory stay, and is nothing of theirs lost.

    python benchmarks/soak.py [--minutes N] [--sessions N] [--seed N] [--json]

Each person presses Run, Stop and Step, forces verdicts and redraws steps, which makes branches, and
asks the next problem after a few of them, all by the page's own buttons and keys, in an order drawn
from the seed.

memory     of the server's process (resident), every few seconds; growth is the median of the last
           third over that of the first, once the first fifth of the time has warmed it up
check      the session saved from the page: every branch and step that an earlier save had is in it
lost       checks that missed something; refused: sentences the page said
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.browsing import SWITCHES, Server, browser_path, served
from specguard_core.files import parse_json
from specguard_core.sessions import Session
from specguard_core.trace_io import from_json

if TYPE_CHECKING:
    from playwright.sync_api import Page

MOST_GROWTH = 1.05
MOST_BRANCHES = 6
WARM_SHARE = 0.2
SAMPLE_SECONDS = 5.0
PAUSE_MS = 250
"""Between two presses of one person."""

START = "try { localStorage.setItem('specguard tour', 'seen'); } catch { /* no storage here */ }"
CATCH = """() => {
  window.saved = null;
  SpecGuard.download = (name, blob) => { blob.text().then((text) => { window.saved = text; }); };
}"""
RESTING = """() => {
  const top = document.querySelector('.sg-top');
  const place = top.querySelector('.position').textContent;
  return !top.classList.contains('running') && !/^waiting/.test(place);
}"""
PRESS = """(key) => {
  const button = document.querySelector(`.sg-top [data-key="${key}"]`);
  if (!button || button.disabled) return false;
  button.click();
  return true;
}"""
"""In one go: the bar is drawn anew at every step."""
Branches = dict[str, list[tuple[int, ...]]]


@dataclass
class Person:
    """One browser context. seen: the steps of every branch at the last check."""

    page: Page
    dice: random.Random
    seen: Branches = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def act(self) -> None:
        """One press, whatever goes on; what it brings is seen to at the next turn."""
        if notice := self.page.evaluate("document.querySelector('.sg-top .notice')?.innerText"):
            self.said.append(notice)
            self._press("reset")
            self.seen = {}
        elif not self.resting:
            if self.dice.random() < 0.3:
                self._press("stop")
        elif self._finished or len(self.seen) >= MOST_BRANCHES or self.dice.random() < 0.1:
            self.check()
            self._go_elsewhere()
        else:
            self._go_on()
        self.page.wait_for_timeout(PAUSE_MS)

    @property
    def resting(self) -> bool:
        """Whether nothing runs for this person, and nothing was asked for."""
        return bool(self.page.evaluate(RESTING))

    @property
    def _finished(self) -> bool:
        return bool(self.page.evaluate("SpecGuard.views.top.finished"))

    def _go_on(self) -> None:
        pressed = self.dice.choice(("run", "run", "run", "step", "phase"))
        self._press(pressed)
        if pressed == "run" and self.dice.random() < 0.5:
            self.page.wait_for_timeout(self.dice.randrange(50, 600))
            self._press("stop")

    def _go_elsewhere(self) -> None:
        """A branch from some step, or the next problem once there are enough of them."""
        if len(self.seen) >= MOST_BRANCHES or not self.seen:
            examples = self.page.evaluate("SpecGuard.views.problem.examples.map((one) => one.id)")
            chosen = self.dice.choice(examples)
            self.page.evaluate("id => SpecGuard.send('setup', { example: id })", chosen)
            self.page.wait_for_function("!SpecGuard.views.top.can.reset")
            self.seen = {}
            self.done["problems"] += 1
            return
        for _ in range(self.dice.randrange(3)):
            self.page.keyboard.press("ArrowLeft")
            self.page.wait_for_timeout(PAUSE_MS)
        self.page.keyboard.press(self.dice.choice("fr"))
        self.done["branches"] += 1

    def _press(self, key: str) -> None:
        if self.page.evaluate(PRESS, key):
            self.done[key] += 1

    def check(self) -> None:
        """Save, and miss whatever was there before and is not any more."""
        if not self.page.evaluate("SpecGuard.views.top.can.reset"):
            return
        self.page.evaluate("() => { window.saved = null; SpecGuard.send('save'); }")
        self.page.wait_for_function("window.saved !== null")
        found = branches_of(self.page.evaluate("window.saved"))
        self.lost += missing(self.seen, found)
        self.seen = found
        self.done["checks"] += 1


def branches_of(text: str) -> Branches:
    """The token ids of every step, by branch, in the text of a session file."""
    session = from_json(parse_json(text.encode()))
    if not isinstance(session, Session):
        raise TypeError("expected a session file from the page, got another")
    return {one.name: [step.token_ids for step in one.trace.steps] for one in session.branches}


def missing(before: Branches, after: Branches) -> list[str]:
    """What was there before and is not any more, in words."""
    gone = [f"branch {name}" for name in before if name not in after]
    changed = [
        f"steps of {name}"
        for name, steps in before.items()
        if name in after and after[name][: len(steps)] != steps
    ]
    return gone + changed


@contextmanager
def people(executable: str, address: str, count: int, seed: int) -> Iterator[list[Person]]:
    """As many browser contexts, each with the page open."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(SWITCHES))
        found = []
        for number in range(count):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            context.add_init_script(START)
            page = context.new_page()
            page.set_default_timeout(180_000)
            page.goto(f"{address}/")
            page.wait_for_selector(".sg-top .transport")
            page.evaluate(CATCH)
            found.append(Person(page, random.Random(f"{seed} {number}")))
        yield found
        browser.close()


def resident_bytes(server: Server) -> int:
    """What the server's process holds in memory."""
    fields = Path(f"/proc/{server.pid}/statm").read_text("ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(server: Server, crowd: Sequence[Person], seconds: float) -> list[tuple[float, int]]:
    """(seconds since the start, bytes) each few seconds, while everybody acts in turn."""
    began = time.monotonic()
    samples: list[tuple[float, int]] = []
    while (now := time.monotonic() - began) < seconds:
        if not samples or now - samples[-1][0] >= SAMPLE_SECONDS:
            samples.append((now, resident_bytes(server)))
        for person in crowd:
            person.act()
    for person in crowd:
        person.page.wait_for_function(RESTING)
        person.check()
    return samples


def growth(samples: Sequence[tuple[float, int]], seconds: float) -> tuple[float, float]:
    """Megabytes at the first and at the last third of what comes after the warm-up."""
    warm = [size / 1e6 for at, size in samples if at >= WARM_SHARE * seconds]
    third = max(len(warm) // 3, 1)
    return median(warm[:third]), median(warm[-third:])


def curve(samples: Sequence[tuple[float, int]], points: int = 10) -> list[int]:
    """Megabytes over the whole time: the median of each of so many equal parts."""
    each = max(len(samples) // points, 1)
    parts = (samples[at : at + each] for at in range(0, len(samples), each))
    return [round(median(size for _, size in part) / 1e6) for part in parts]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments(arguments)
    executable = browser_path()
    if executable is None:
        print("soak.py: expected chromium or google-chrome on PATH, got neither: install one")
        return 2
    seconds = options.minutes * 60
    with (
        served() as server,
        people(executable, server.address, options.sessions, options.seed) as crowd,
    ):
        samples = soak(server, crowd, seconds)
        first, last = growth(samples, seconds)
        done = sum((person.done for person in crowd), Counter[str]())
        said = Counter(text for person in crowd for text in person.said)
        lost = [one for person in crowd for one in person.lost]
    found = {
        "minutes": options.minutes,
        "sessions": options.sessions,
        "done": dict(done),
        "started_mb": round(samples[0][1] / 1e6),
        "first_third_mb": round(first),
        "last_third_mb": round(last),
        "most_mb": round(max(size for _, size in samples) / 1e6),
        "curve_mb": curve(samples),
        "growth": round(last / first, 3),
        "flat": last / first <= MOST_GROWTH,
        "lost": lost,
        "refused": dict(said),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(found, indent=1) if options.json else "\n".join(shown(found)))
    return 0 if found["flat"] and not lost else 1


def shown(found: dict[str, object]) -> Iterator[str]:
    """One figure a line."""
    for name, value in found.items():
        yield f"{name:15} {value if value or value == 0 else 'none'}"


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

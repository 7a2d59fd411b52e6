"""What looking at a long run costs in the page: Chromium, a run of 40 steps and 4,000 tokens.

    python benchmarks/ui.py [--quick] [--rounds N] [--only NAME ...] [--json]

slider     from a key on the threshold to the run judged by the new value and painted
step       from a click on another step to that step painted in every panel
open       from the trace's file dropped on the page to its run painted
payload    bytes that the server sends for one step change, packed as they travel
memory     heap of the page's JavaScript after 200 step changes, against before them
cold       from the address asked for to the page's panels, against to its models ready

All but `cold` are taken in turn on a run of 4 steps of 100 tokens, too: growth is the ratio of the
medians, and has to stay below the ratio of the steps, 10. The page is `app.py --read-only`, so that
no model works beside it. The figures in README.md come from here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.browsing import Server, Visit, browser_path, cold_page, served, visited
from benchmarks.long_traces import long_trace
from specguard_core.trace_io import save_trace

LONG, SHORT = 40, 4
TOKENS = 100
"""Of each step."""
NAMES = ("slider", "step", "open", "payload", "memory", "cold")
GOALS = {
    "slider": (150.0, "ms"),
    "step": (200.0, "ms"),
    "open": (1500.0, "ms"),
    "payload": (200.0, "kB"),
    "memory": (1.05, "x"),
    "cold": (1.0, "x"),
}
MOST_GROWTH = LONG / SHORT
LOOKS = 200
WARM_LOOKS = 20
STRIDE = 7
"""Steps between one look and the next; no divisor of 40 or 4, so each look is at another step."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: the median of `values`, in `unit`; load is that of the machine at its end."""

    name: str
    values: tuple[float, ...]
    goal: float
    unit: str
    short: tuple[float, ...]
    note: str
    load: float

    @property
    def value(self) -> float:
        return median(self.values)

    @property
    def met(self) -> bool:
        return self.value <= self.goal

    @property
    def growth(self) -> float | None:
        """The figure as a multiple of the short run's; None where that was not taken."""
        return self.value / median(self.short) if self.short else None


def figure(
    name: str, values: Sequence[float], note: str = "", short: Sequence[float] = ()
) -> Figure:
    goal, unit = GOALS[name]
    return Figure(name, tuple(values), goal, unit, tuple(short), note, round(os.getloadavg()[0], 1))


class Samples:
    """Values by name and number of steps."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, int], list[float]] = {}

    def add(self, name: str, steps: int, value: float) -> None:
        self._values.setdefault((name, steps), []).append(value)

    def of(self, name: str, steps: int = LONG) -> list[float]:
        return self._values.get((name, steps), [])


def results(options: argparse.Namespace, executable: str) -> Iterator[Figure]:
    """Every figure asked for, as soon as it is there."""
    if set(options.only) - {"cold"}:
        with (
            tempfile.TemporaryDirectory() as folder,
            served("--read-only") as server,
            visited(executable) as page,
        ):
            files = {steps: Path(folder) / f"{steps}.json" for steps in (LONG, SHORT)}
            for steps, file in files.items():
                save_trace(long_trace(steps, TOKENS), file)
            visit = Visit(page, server.address)
            if set(options.only) - {"cold", "memory"}:
                yield from _looks(visit, server, files, options)
            if "memory" in options.only:
                yield _memory(visit, files, options.looks)
    if "cold" in options.only:
        with served() as server, visited(executable) as page:
            yield _cold(cold_page(page, server))


def _looks(
    visit: Visit, server: Server, files: dict[int, Path], options: argparse.Namespace
) -> Iterator[Figure]:
    samples = Samples()

    def timed(name: str, steps: int, act: Callable[[], float]) -> None:
        before = server.worked()
        samples.add(name, steps, act())
        samples.add(f"{name} server", steps, server.worked() - before)

    for number in range(options.rounds):
        for steps in (SHORT, LONG) if number % 2 else (LONG, SHORT):
            timed("open", steps, lambda steps=steps: visit.open(files[steps], steps))
            visit.settle()
            visit.step(0)
            for look in range(1, options.changes + 1):
                at = look * STRIDE % steps
                timed("step", steps, lambda at=at: visit.step(at))
                samples.add("payload", steps, visit.wire.sent / 1000)
                samples.add("unpacked", steps, visit.wire.decoded / 1000)
            for look in range(options.changes):
                key = "ArrowLeft" if look % 2 else "ArrowRight"
                timed("slider", steps, lambda key=key: visit.slider(key))
    for name in ("slider", "step", "open"):
        if name in options.only:
            server_side = median(samples.of(f"{name} server"))
            note = f"the server's processor worked {server_side:.0f} ms of it"
            if name == "open":
                sizes = {steps: file.stat().st_size / 1e6 for steps, file in files.items()}
                growth = sizes[LONG] / sizes[SHORT]
                note += f"; the file {sizes[LONG]:.1f} MB, {growth:.1f} x the short run's"
            yield figure(name, samples.of(name), note, samples.of(name, SHORT))
    if "payload" in options.only:
        unpacked = median(samples.of("unpacked"))
        largest = f"the largest {max(samples.of('payload')):.0f} kB; unpacked {unpacked:.0f} kB"
        yield figure("payload", samples.of("payload"), largest, samples.of("payload", SHORT))


def _memory(visit: Visit, files: dict[int, Path], looks: int) -> Figure:
    """The heap before and after the looks; some before them fill what is filled only once."""
    visit.open(files[SHORT], SHORT)
    visit.settle()
    short = visit.heap()
    visit.open(files[LONG], LONG)
    visit.settle()
    visit.step(0)
    heaps = []
    for look in range(1, WARM_LOOKS + looks + 1):
        visit.step(look * STRIDE % LONG, quiet=0)
        if look >= WARM_LOOKS and (look - WARM_LOOKS) % max(looks // 4, 1) == 0:
            heaps.append(visit.heap())
    held = ", ".join(f"{heap / 1e6:.2f}" for heap in heaps)
    note = (
        f"MB in the course of {looks} looks: {held}; "
        f"{median(heaps) / short:.2g} x the short run's {short / 1e6:.2f}"
    )
    return figure("memory", [heaps[-1] / heaps[0]], note)


def _cold(times: dict[str, float]) -> Figure:
    note = (
        f"first contentful paint {times['paint']:.0f} ms, panels {times['panels']:.0f} ms, "
        f"models {times['models']:.0f} ms after the address was asked for; "
        f"panels {times['from start'] / 1000:.1f} s after the program was started"
    )
    return figure("cold", [times["panels"] / times["models"]], note)


def shown(found: Figure) -> str:
    """One figure in one or two lines."""
    word = "met" if found.met else "MISSED"
    low, high = min(found.values), max(found.values)
    line = (
        f"{found.name:8} {found.value:.3g} {found.unit}  ({low:.3g} to {high:.3g}, "
        f"{len(found.values)} times, load {found.load})  goal <= {found.goal:.3g}: {word}"
    )
    if found.growth is not None:
        below = "below linear" if found.growth < MOST_GROWTH else "NOT BELOW LINEAR"
        line += (
            f"\n{'':8} {found.growth:.2g} x the run of {SHORT} steps "
            f"({median(found.short):.3g} {found.unit}): {below}"
        )
    return line + (f"\n{'':8} {found.note}" if found.note else "")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments(arguments)
    executable = browser_path()
    if executable is None:
        print("ui.py: expected chromium or google-chrome on PATH, got neither: install one")
        return 2
    about: dict[str, Any] = {"processors": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    if not options.json:
        print(", ".join(f"{name} {value}" for name, value in about.items()), flush=True)
    reports = []
    for found in results(options, executable):
        more = {"value": found.value, "met": found.met, "growth": found.growth}
        reports.append(asdict(found) | more)
        if not options.json:
            print(shown(found), flush=True)
    if options.json:
        print(json.dumps({"machine": about, "results": reports}, indent=1))
    return 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES), metavar="NAME")
    parser.add_argument("--rounds", type=int, help="opens of each run (default: 5, quick: 1)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and changes; 40 looks")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.changes = 6 if options.quick else 10
    options.looks = LOOKS // 5 if options.quick else LOOKS
    return options


if __name__ == "__main__":
    sys.exit(main())

"""Several things timed in turn in one process. Knows no model.

side       one of the things compared: a function that does it once and says how long it took
round      every side once; the order turns with each round, so that none is always the first
paired     the ratio of two sides within a round: what slows the machine down slows both
warm-up    rounds that are run and not counted
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

Clock = Callable[[], float]
Side = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of a paired ratio, and its least and largest value."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Rounds:
    """seconds: by side, one value for each round."""

    seconds: Mapping[str, tuple[float, ...]]

    @property
    def count(self) -> int:
        return len(next(iter(self.seconds.values())))

    def medians(self) -> dict[str, float]:
        """Seconds of a typical round, by side."""
        return {side: median(values) for side, values in self.seconds.items()}

    def ratio(self, side: str, against: str) -> Spread:
        """How long one side took, as a share of the other, round by round."""
        pairs = zip(self.seconds[side], self.seconds[against], strict=True)
        ratios = [one / other for one, other in pairs]
        return Spread(median(ratios), min(ratios), max(ratios))


def in_turn(sides: Mapping[str, Side], rounds: int, *, warmups: int = 1) -> Rounds:
    """Every side once in each of `rounds` rounds, after `warmups` that do not count."""
    names = list(sides)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-warmups, rounds):
        turned = number % len(names)
        for name in names[turned:] + names[:turned]:
            took = sides[name]()
            if number >= 0:
                seconds[name].append(took)
    return Rounds({name: tuple(values) for name, values in seconds.items()})


def seconds_of(function: Callable[[], Any], clock: Clock) -> float:
    began = clock()
    function()
    return clock() - began


@dataclass(frozen=True, slots=True)
class Result:
    """One figure.

    ratio     what the goal is about
    goal      the most it may be
    medians   what the ratio is made of, a typical round: seconds by side, or bytes
    beside    other ratios that help to read it
    note      how it was measured, where that is not plain
    """

    benchmark: str
    subject: str
    ratio: Spread
    goal: float
    rounds: int
    medians: Mapping[str, float]
    beside: Mapping[str, float]
    note: str

    @property
    def met(self) -> bool:
        return self.ratio.value <= self.goal

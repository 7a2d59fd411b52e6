"""The knob that a step must reach: its name, its value, and what a score of 1 is in its unit.

Knows no session and no widget.
"""

from dataclasses import dataclass

from specguard_core.config import DecodeConfig
from specguard_core.readings import HIGHEST_GRADE
from specguard_core.strategies import STRATEGIES, Judge, StepStrategy
from specguard_core.types import Verdict

_KNOBS: dict[Judge, tuple[str, float]] = {
    "signals": ("threshold", 1.0),
    "reward": ("reward_threshold", 1.0),
    "grade": ("grade_threshold", HIGHEST_GRADE),
}


@dataclass(frozen=True, slots=True)
class Gate:
    """A knob of DecodeConfig; `whole` is its value at which only a score of 1 passes."""

    knob: str
    value: float
    whole: float


def gate_of(config: DecodeConfig) -> Gate | None:
    """The threshold of a run's strategy; None where it judges no step by one."""
    strategy = STRATEGIES[config.strategy]
    if not isinstance(strategy, StepStrategy) or strategy.judge not in _KNOBS:
        return None
    knob, whole = _KNOBS[strategy.judge]
    return Gate(knob, getattr(config, knob), whole)


def reached(verdict: Verdict) -> Gate:
    """The knob that a verdict was made by, at the value that the step just reaches."""
    if (grade := verdict.readings.get("grade")) is not None:
        # Not the score times 9, which may miss the grade by a rounding.
        return Gate("grade_threshold", grade.raw, HIGHEST_GRADE)
    knob, whole = _KNOBS["reward" if "reward" in verdict.readings else "signals"]
    return Gate(knob, verdict.score, whole)

"""How a run is told in stops: what one unit of it is, and the transitions a unit has. Pure.

unit       a reasoning step, or a block of drafted tokens; of several chains, one step of each
phase      one transition of a unit; the last one commits it
cursor     index of a stop: 0 is before the first unit, n * i + 1 is unit i after its first phase
"""

from dataclasses import dataclass
from typing import Literal, get_args

from specguard_core.config import DecodeConfig
from specguard_core.strategies import STRATEGIES, BlockStrategy

Phase = Literal["sample", "select", "verify", "commit", "block"]
Unit = Literal["step", "block"]
ALL_PHASES: tuple[Phase, ...] = get_args(Phase)


@dataclass(frozen=True, slots=True)
class Pace:
    """The phases of every unit of one run, in order."""

    unit: Unit
    phases: tuple[Phase, ...]

    @property
    def n(self) -> int:
        """Transitions of one unit."""
        return len(self.phases)

    def stop_at(self, cursor: int) -> tuple[int, Phase]:
        """Unit index and phase of a cursor above 0."""
        return (cursor - 1) // self.n, self.phases[(cursor - 1) % self.n]

    def cursor_at(self, index: int, phase: Phase | None = None) -> int:
        """The inverse of stop_at; without a phase, where the unit is committed."""
        last = self.phases[-1]
        return index * self.n + self.phases.index(phase or last) + 1

    def before(self, index: int) -> int:
        """The cursor at which a unit has not begun."""
        return index * self.n

    def back(self, cursor: int) -> int:
        """The stop where the unit under the cursor had not begun, or the one before it ended."""
        return max((cursor - 1) // self.n, 0) * self.n

    def on(self, cursor: int) -> int:
        """The stop where the next unit, or the rest of this one, is committed."""
        return (cursor // self.n + 1) * self.n

    def within(self, cursor: int) -> bool:
        """Whether a unit has begun there and is not committed."""
        return cursor % self.n > 0


STEPS = Pace("step", ("sample", "select", "verify", "commit"))
BLOCKS = Pace("block", ("block",))


def pace_of(config: DecodeConfig) -> Pace:
    """The pace of a run under a config; chains go in step with each other, phase by phase."""
    return BLOCKS if isinstance(STRATEGIES[config.strategy], BlockStrategy) else STEPS

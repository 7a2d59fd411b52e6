"""What a decode reports, one event per transition. A closed union: consumers match and end in
assert_never.

`attention` arrays are the rows Evidence is made of. They live in events, never in states or traces.
"""

from dataclasses import dataclass

from specguard_core.lm import Floats
from specguard_core.types import Block, Candidate, Finish, Selection, Step, Trace, Verdict


@dataclass(frozen=True, slots=True)
class Proposed:
    """The draft wrote candidates after a context of n tokens.

    attention   per candidate, [layers, m, n + m] or None
    """

    step_index: int
    context_ids: tuple[int, ...]
    attempt: int
    candidates: tuple[Candidate, ...]
    attention: tuple[Floats | None, ...]


@dataclass(frozen=True, slots=True)
class Selected:
    """One candidate stands for the draws; selection is None where there was nothing to select."""

    step_index: int
    selection: Selection | None


@dataclass(frozen=True, slots=True)
class Verified:
    """The rule spoke; verdict is None where the strategy makes no check."""

    step_index: int
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class Committed:
    """A step was kept; finish is set where it was the last one."""

    step: Step
    trace: Trace
    finish: Finish | None


@dataclass(frozen=True, slots=True)
class BlockCommitted:
    """A block was drafted, judged and kept; finish is set where it was the last one."""

    block: Block
    trace: Trace
    finish: Finish | None


@dataclass(frozen=True, slots=True)
class ChainsMoved:
    """Every chain that goes on made one transition; finish is set where they have voted.

    moved   by index of the chain, what it reported
    """

    moved: "tuple[tuple[int, Event], ...]"
    trace: Trace
    finish: Finish | None


Event = Proposed | Selected | Verified | Committed | BlockCommitted | ChainsMoved

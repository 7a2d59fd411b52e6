"""What a person keeps of a sitting: branches, breakpoints, notes. Frozen, JSON-able values.

branch      one line of a session, with the trace of its run
note        a person's remark on one step of one branch
target view what the target makes of a step it was shown afterwards; no part of any run
"""

import math
from dataclasses import dataclass

from specguard_core.types import Trace

MAX_BRANCH_NAME = 40
MAX_NOTE_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class Branch:
    """One line of a session: a trace, and where it left its parent (None: the first)."""

    name: str
    trace: Trace
    parent: str | None = None
    forked_at: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Where a run should pause; `value` is the number or pattern the kind needs."""

    kind: str
    value: float | str | None = None
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Note:
    """A person's remark on a step of a branch; step_index counts from 0."""

    branch: str
    step_index: int
    text: str

    def __post_init__(self) -> None:
        if not 0 < len(self.text) <= MAX_NOTE_CHARACTERS:
            most = f"{MAX_NOTE_CHARACTERS:,}"
            raise ValueError(f"expected a note of 1 to {most} characters, got {len(self.text):,}")


@dataclass(frozen=True, slots=True)
class TargetView:
    """What the target makes of a step, read in one pass after the run, outside its cost.

    key           names the step by its context and its tokens (see `evidence_key`)
    logprobs      [m] nats, <= 0, raw softmax
    milliseconds  wall time of the pass
    """

    key: str
    logprobs: tuple[float, ...]
    milliseconds: float

    def __post_init__(self) -> None:
        if not all(value <= 0 for value in self.logprobs):
            raise ValueError(f"expected log-probabilities up to 0, got {max(self.logprobs)}")
        if not (self.milliseconds >= 0 and math.isfinite(self.milliseconds)):
            raise ValueError(f"expected a duration of 0 ms or more, got {self.milliseconds}")


@dataclass(frozen=True, slots=True)
class Session:
    """What Save writes: every branch with its trace, the breakpoints, the notes, target views."""

    branches: tuple[Branch, ...]
    current: str
    breakpoints: tuple[Breakpoint, ...] = ()
    notes: tuple[Note, ...] = ()
    target_views: tuple[TargetView, ...] = ()

    def __post_init__(self) -> None:
        traces = {branch.name: branch.trace for branch in self.branches}
        if len(traces) != len(self.branches) or self.current not in traces:
            raise ValueError(f"expected distinct branches and {self.current!r} among them")
        for branch in self.branches:
            if branch.parent is not None and branch.parent not in traces:
                raise ValueError(f"expected a parent among the branches, got {branch.parent!r}")
        places = [(note.branch, note.step_index) for note in self.notes]
        if len(set(places)) != len(places):
            raise ValueError("expected one note at most on each step, got several")
        for name, step_index in places:
            if name not in traces or not 0 <= step_index < _n_units(traces[name]):
                where = f"step {step_index + 1} of {name!r}"
                raise ValueError(f"expected notes on steps there are, got one on {where}")


def _n_units(trace: Trace) -> int:
    """Units of the longest chain, where there are several."""
    return max(len(trace.units), *(len(chain.units) for chain in trace.chains), 0)

"""What is known of a pair before it decodes: its models, and what their readings look like.

Frozen, JSON-able values; knows no model.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

from specguard_core import bundled
from specguard_core.config import ReadingName

PairRole = Literal["draft", "target"]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One loaded model, as the trace records it.

    source      an absolute path, a hub id or a server's address; see `recorded`
    grounding   "captured", or the reason in one sentence why attention is not available
    rollback    how a refused step is taken back: "crop", or "re-prefill"
    device      "remote" is a server: its counts are 0, which says nothing of the model
    """

    name: str
    source: str
    revision: str | None
    architecture: str
    n_parameters: int
    n_layers: int
    vocabulary_size: int
    context_length: int
    dtype: str
    device: str
    grounding: str
    rollback: str

    def recorded(self) -> "ModelInfo":
        """As a trace keeps it: a folder by its name, one of this project by its place in it.

        A trace is passed on, and where a person's folders lie is nobody else's business.
        """
        path = Path(self.source)
        if not path.is_absolute():
            return self
        root = bundled.ASSETS.parent
        inside = path.is_relative_to(root)
        return replace(self, source=path.relative_to(root).as_posix() if inside else path.name)

    @property
    def remote(self) -> bool:
        """Whether it runs on a server that does not say how large it is."""
        return self.device == "remote"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The 5th and 95th percentile of a reading over the calibration problems."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Expected:
    """What grounding to expect of a token by its place in the step.

    starts   places, counted from 0, at which a run of places begins; the first is 0, the last run
             has no end
    means    mean grounding of the counted tokens in each run, in [0, 1]
    bounds   of the corrected reading: the least, over a step, of grounding less its mean
    """

    starts: tuple[int, ...]
    means: tuple[float, ...]
    bounds: Bounds

    def __post_init__(self) -> None:
        rising = all(one < other for one, other in pairwise(self.starts))
        if self.starts[:1] != (0,) or not rising or len(self.means) != len(self.starts):
            raise ValueError(
                f"expected a mean for each place from 0 on, rising, got {len(self.means)} means "
                f"for {list(self.starts)[:5]}"
            )

    def at(self, place: int) -> float:
        """Mean grounding at a place in the step, counted from 0."""
        return self.means[bisect_right(self.starts, place) - 1]


@dataclass(frozen=True, slots=True)
class CalibrationTable:
    """Percentiles per reading, and the knobs they were measured under.

    expected   of readings that depend on the place in the step; none in files of older versions
    """

    settings: Mapping[str, object]
    bounds: Mapping[ReadingName, Bounds]
    expected: Mapping[ReadingName, Expected] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What readings look like on problems of one kind, for one pair.

    tables      one per way of measuring; a reading whose knobs fit none of them is uncalibrated
    entropies   nats, the 85th percentile of the raw softmax's entropy at drafted tokens, by model
    """

    pair: str
    n_problems: int
    n_steps: int
    tables: tuple[CalibrationTable, ...]
    entropies: Mapping[PairRole, float] = field(default_factory=dict)

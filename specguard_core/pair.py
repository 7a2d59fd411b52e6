"""What is known of a pair before it decodes: its models, and what their readings look like.

Frozen, JSON-able values; knows no model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from specguard_core.config import ReadingName

PairRole = Literal["draft", "target"]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One loaded model, as the trace records it.

    grounding   "captured", or the reason in one sentence why attention is not available
    rollback    how a refused step is taken back: "crop", or "re-prefill"
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


@dataclass(frozen=True, slots=True)
class Bounds:
    """The 5th and 95th percentile of a reading over the calibration problems."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CalibrationTable:
    """Percentiles per reading, and the knobs they were measured under."""

    settings: Mapping[str, object]
    bounds: Mapping[ReadingName, Bounds]


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

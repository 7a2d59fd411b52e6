"""What a recorded run's verdicts would be at other knobs, for the page. Pure; calls no model.

overlay    verdicts beside the recorded ones; what happened is never altered
stale      a step written after the first one that would have gone another way
practical  the part of a knob's range that a slider covers; typing reaches the rest
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specguard_core.config import KNOBS, DecodeConfig
from specguard_core.errors import ConfigError, NotMeasured
from specguard_core.evidence import Evidence
from specguard_core.presets import with_beta
from specguard_core.regate import Regate, regate
from specguard_core.types import Calibration, Trace, Verdict


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The run judged by `config`. regate is None where it cannot be; `trouble` says why."""

    config: DecodeConfig
    regate: Regate | None
    trouble: str = ""

    @property
    def first_flip(self) -> int | None:
        """Index of the first step that goes another way; every later step is stale."""
        return None if self.regate is None else self.regate.first_flip

    def verdict(self, step_index: int) -> Verdict | None:
        """The step's verdict at these knobs; None where it cannot be told."""
        if self.regate is None or step_index >= len(self.regate.verdicts):
            return None
        return self.regate.verdicts[step_index]

    def n_kept(self, step_index: int) -> int | None:
        """The draft's tokens of the step that would stand; None where it cannot be told."""
        if self.regate is None or step_index >= len(self.regate.n_kept):
            return None
        return self.regate.n_kept[step_index]

    def is_stale(self, step_index: int) -> bool:
        """Whether the step stands on one that would not stand."""
        return self.first_flip is not None and step_index > self.first_flip


def what_if(
    trace: Trace | None,
    config: DecodeConfig | None,
    evidence: Evidence | None,
    calibration: Calibration | None = None,
) -> WhatIf | None:
    """The overlay of a look's knobs; None where they are the run's own.

    A run that had no calibration is judged by the one that is given.
    """
    if trace is None:
        return None
    adds = calibration is not None and trace.calibration is None
    config = trace.config if config is None else config
    if config == trace.config and not adds:
        return None
    judged = replace(trace, calibration=calibration) if adds else trace
    try:
        return WhatIf(config, regate(judged, config, evidence))
    except (NotMeasured, ConfigError) as error:
        return WhatIf(config, None, str(error))


def turned(config: DecodeConfig, name: str, value: Any) -> DecodeConfig:
    """The config with one knob turned, as the page names it: a field, `beta`, or `weight NAME`.

    Raises:
        ConfigError: no such knob, or a value it cannot take.
    """
    if name == "beta":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"expected beta to be a number, got {value!r}: correct it")
        return with_beta(config, float(value))
    if name.startswith("weight "):
        reading = name.removeprefix("weight ")
        weights = dict(config.weights)
        if reading not in weights:
            raise ConfigError(f"expected a weighted reading, got {reading!r}: choose one")
        return replace(
            config, weights=tuple((n, value if n == reading else w) for n, w in weights.items())
        )
    if name not in KNOBS:
        raise ConfigError(f"expected a knob, got {name!r}: choose out of {', '.join(KNOBS)}")
    if isinstance(value, float) and value.is_integer() and _is_whole(name):
        value = int(value)
    return replace(config, **{name: value})


def has_beta(config: DecodeConfig) -> bool:
    """Whether confidence and grounding are the only weighted readings."""
    return set(config.weight) <= {"confidence", "grounding"}


def shown_knobs(config: DecodeConfig) -> Mapping[str, float]:
    """The knobs' values as the page names them, `beta` among them where it has a meaning."""
    weights = dict(config.weights)
    if has_beta(config):
        total = sum(weights.values())
        return {"beta": weights.get("confidence", 0.0) / total}
    return {f"weight {name}": weight for name, weight in weights.items()}


def _is_whole(name: str) -> bool:
    return isinstance(getattr(DecodeConfig(), name), int)

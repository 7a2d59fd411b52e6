"""The bounds that raw numbers are shown against: those the verdict used, or those it would use."""

import math
from dataclasses import replace

from specguard_core.config import ReadingName
from specguard_core.readings import SIGNALS, calibrated_bounds, scales_of
from specguard_core.types import Trace
from viz_app.sight import Sight


def bounds_of(name: ReadingName, sight: Sight) -> tuple[float, float]:
    """(low, high) of a token's value: by the calibration where it speaks of it, else fixed ones.

    Tokens show their grounding as it was measured, so that bounds of a corrected one do not apply.
    """
    if sight.verdict is not None and name in sight.verdict.readings:
        reading = sight.verdict.readings[name]
        known = reading.low is not None and reading.high is not None and reading.expected is None
        if known and reading.low < reading.high:
            return reading.low, reading.high
    return _usual_bounds(name, sight.trace)


def _usual_bounds(name: ReadingName, trace: Trace) -> tuple[float, float]:
    config = replace(trace.config, grounding_correction="none")
    bounds = calibrated_bounds(name, config, trace.calibration)
    if bounds is not None and bounds.low < bounds.high:
        return bounds.low, bounds.high
    return SIGNALS[name].fixed_bounds(config, scales_of(trace))


def entropy_ceiling() -> float:
    """Nats at the unsure end of the entropy ramp: ten equally likely tokens."""
    return math.log(10)

"""The bounds that raw numbers are shown against: those the verdict used, or those it would use."""

import math

from specguard_core.config import ReadingName
from specguard_core.types import Trace
from specguard_core.verification import SIGNALS, calibrated_bounds, scales_of
from viz_app.session import Sight


def bounds_of(name: ReadingName, sight: Sight) -> tuple[float, float]:
    """(low, high) of a reading; by the calibration where it speaks of it, else the fixed ones."""
    if sight.verdict is not None and name in sight.verdict.readings:
        reading = sight.verdict.readings[name]
        if reading.low is not None and reading.high is not None and reading.low < reading.high:
            return reading.low, reading.high
    return _usual_bounds(name, sight.trace)


def _usual_bounds(name: ReadingName, trace: Trace) -> tuple[float, float]:
    bounds = calibrated_bounds(name, trace.config, trace.calibration)
    if bounds is not None and bounds.low < bounds.high:
        return bounds.low, bounds.high
    return SIGNALS[name].fixed_bounds(trace.config, scales_of(trace))


def entropy_ceiling() -> float:
    """Nats at the unsure end of the entropy ramp: ten equally likely tokens."""
    return math.log(10)

"""The ten digits that a target could have graded a step with, and how likely each was. Pure."""

import math
from typing import Any

from specguard_core.config import DecodeConfig
from specguard_core.types import Verdict
from viz_app.views.numbers import fixed


def digits_view(verdict: Verdict, config: DecodeConfig) -> dict[str, Any] | None:
    """A bar per digit; `absent` where the run kept none; None where no digit was asked for."""
    grade = verdict.readings.get("grade")
    if grade is None or config.grade_method == "logprob":
        return None
    if grade.digits is None:
        return {"absent": "not recorded"}
    likeliest = max(grade.digits)
    threshold = config.grade_threshold
    enough = math.fsum(p for digit, p in enumerate(grade.digits) if digit >= threshold)
    return {
        "bars": [
            {
                "share": chance,
                "text": fixed(chance),
                "enough": digit >= threshold,
                "likeliest": chance == likeliest,
            }
            for digit, chance in enumerate(grade.digits)
        ],
        "sentence": f"{fixed(enough)} on digits from {threshold:g} on, "
        f"{fixed(max(0.0, 1 - math.fsum(grade.digits)))} on no digit.",
    }

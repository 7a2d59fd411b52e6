"""What would turn a verdict round, one cause at a time. Pure arithmetic on one verdict.

Values are rounded to the side on which they hold: 0.747 where 0.7463 is needed, never 0.746.
"""

import math
from typing import Any

from specguard_core.config import KNOBS, ReadingName
from specguard_core.readings import SIGNALS
from specguard_core.types import Reading, Verdict
from viz_app.sight import Sight
from viz_app.views.candidates import candidate_labels, verdict_if_chosen
from viz_app.views.gates import reached
from viz_app.views.numbers import fixed, nats

_NOISE = 1e-9
"""Sums of floating-point numbers differ from their decimals by less."""


def flips(sight: Sight, verdict: Verdict, index: int) -> list[dict[str, Any]]:
    """Lines, those that do flip it first; `knob` and `value` where a click can set one."""
    weighted = {name: r for name, r in verdict.readings.items() if r.weight > 0}
    lines = [threshold_line(verdict)]
    lines += [_reading(verdict, weighted, name) for name in weighted]
    if set(weighted) == {"confidence", "grounding"}:
        lines.append(_beta(verdict, weighted))
    lines += _candidates(sight, verdict, index)
    return [line for line in lines if line["does"]] + [line for line in lines if not line["does"]]


def upward(value: float, decimals: int = 3) -> float:
    """The least number of so many decimals that is not below the value."""
    near = round(value, decimals)
    if abs(near - value) < _NOISE:
        return near
    return math.ceil(value * 10.0**decimals) / 10.0**decimals


def downward(value: float, decimals: int = 3) -> float:
    """The greatest number of so many decimals that is not above the value."""
    near = round(value, decimals)
    if abs(near - value) < _NOISE:
        return near
    return math.floor(value * 10.0**decimals) / 10.0**decimals


def above(value: float, decimals: int = 3) -> float:
    """The least number of so many decimals that is greater than the value."""
    return round(downward(value, decimals) + 10.0**-decimals, decimals)


def below(value: float, decimals: int = 3) -> float:
    """The greatest number of so many decimals that is less than the value."""
    return round(upward(value, decimals) - 10.0**-decimals, decimals)


def threshold_line(verdict: Verdict) -> dict[str, Any]:
    """The threshold at which a verdict goes the other way; `does`: whether there is one."""
    gate = reached(verdict)
    words, highest = gate.knob.replace("_", " "), KNOBS[gate.knob].high
    if verdict.accepted:
        value = above(gate.value)
        does = highest is not None and value <= highest
        return _line(f"{words} raised to", fixed(value), does, gate.knob, value)
    value = downward(gate.value)
    exact = min(value, gate.value)
    return _line(f"{words} lowered to", fixed(value), True, gate.knob, exact)


def _reading(
    verdict: Verdict, weighted: dict[ReadingName, Reading], name: ReadingName
) -> dict[str, Any]:
    """The raw value at which the score meets the threshold, the other readings as they are."""
    reading = weighted[name]
    total = math.fsum(r.weight for r in weighted.values())
    others = math.fsum(r.weight * r.normalised for n, r in weighted.items() if n != name)
    needed = (verdict.threshold * total - others) / reading.weight
    words = name.replace("_", " ")
    write = nats if SIGNALS[name].unit == "nat" else fixed
    # A share has no bounds: it is its own normalised value.
    low, high = (0.0, 1.0) if reading.basis == "share" else (reading.low, reading.high)
    if verdict.accepted:
        if needed <= 0 or low is None or high is None:
            return _line(f"no {words} does: at least", fixed(others / total), does=False)
        raw = low + needed * (high - low)
        return _line(f"{words} lowered to, from {write(reading.raw)}", fixed(below(raw)), does=True)
    best = (others + reading.weight) / total
    if needed > 1 or low is None or high is None:
        return _line(f"no {words} does: at most", fixed(downward(best)), does=False)
    raw = low + needed * (high - low)
    return _line(f"{words} raised to, from {write(reading.raw)}", fixed(upward(raw)), does=True)


def _beta(verdict: Verdict, weighted: dict[ReadingName, Reading]) -> dict[str, Any]:
    """The score is linear in beta, from grounding's value at 0 to confidence's at 1."""
    one, zero = weighted["confidence"].normalised, weighted["grounding"].normalised
    best = max(one, zero)
    least = min(one, zero)
    if verdict.accepted and least >= verdict.threshold:
        return _line("no beta does: at least", fixed(least), does=False)
    if not verdict.accepted and best < verdict.threshold:
        return _line("no beta does: at most", fixed(downward(best)), does=False)
    if one == zero:
        return _line("no beta does: always", fixed(one), does=False)
    meets = (verdict.threshold - zero) / (one - zero)
    raise_it = (one > zero) != verdict.accepted
    if raise_it:
        value = above(meets) if verdict.accepted else upward(meets)
    else:
        value = below(meets) if verdict.accepted else downward(meets)
    word = "raised" if raise_it else "lowered"
    return _line(f"beta {word} to", fixed(value), 0 <= value <= 1, "beta", value)


def _candidates(sight: Sight, verdict: Verdict, index: int) -> list[dict[str, Any]]:
    """Other draws that the rule would judge the other way."""
    labels = candidate_labels(sight)
    lines = []
    for other in range(len(sight.candidates)):
        found = None if other == index else verdict_if_chosen(sight, other)
        if found is not None and found.accepted != verdict.accepted:
            text = f"candidate {labels[other]} chosen, scoring"
            lines.append({**_line(text, fixed(found.score), True), "candidate": other})
    return lines[:2]


def _line(
    text: str, shown: str, does: bool, knob: str | None = None, value: float | None = None
) -> dict[str, Any]:
    return {"text": text, "value": shown, "does": does, "knob": knob, "set": value}

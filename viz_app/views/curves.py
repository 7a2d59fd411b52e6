"""Readings along a step's tokens as curves: values, axis, the least one, the threshold's place."""

from collections.abc import Callable, Sequence
from typing import Any

from specguard_core.config import ReadingName
from specguard_core.types import Candidate, TokenSignal
from viz_app.sight import Sight
from viz_app.views.numbers import fixed, nats, nice_ticks, tick_text
from viz_app.views.scales import bounds_of

_TOKEN_VALUE: dict[str, Callable[[TokenSignal], float | None]] = {
    "log-prob": lambda token: token.logprob,
    "grounding": lambda token: token.grounding,
    "entropy": lambda token: token.entropy,
}


def curves(sight: Sight, candidate: Candidate, counted: Sequence[int]) -> list[dict[str, Any]]:
    """Log-probability, grounding and entropy, one value per token; None: not measured.

    Where the target's view was measured, its log-probability stands beside the draft's.
    """
    return [
        _curve(sight, candidate, counted, "log-prob", "nat", ("confidence", "target_confidence")),
        _curve(sight, candidate, counted, "grounding", "share", ("grounding",)),
        _curve(sight, candidate, counted, "entropy", "nat", ()),
    ]


def _curve(
    sight: Sight,
    candidate: Candidate,
    counted: Sequence[int],
    name: str,
    unit: str,
    readings: Sequence[ReadingName],
) -> dict[str, Any]:
    values = [_TOKEN_VALUE[name](token) for token in candidate.tokens]
    others = [t.target_logprob for t in candidate.tokens] if name == "log-prob" else []
    measured = [value for value in (*values, *others) if value is not None]
    if not measured:
        return {"name": name, "unit": unit, "values": values, "absent": "not measured"}
    found = [value for reading in readings if (value := _threshold(sight, reading)) is not None]
    threshold = found[0] if found else None
    low, high = _axis(name, measured, threshold)
    ticks = nice_ticks(low, high)
    return {
        "name": name,
        "unit": unit,
        "values": _rounded(values),
        "low": low,
        "high": high,
        "ticks": [{"value": tick, "text": tick_text(tick, ticks)} for tick in ticks],
        "threshold": None
        if threshold is None
        else {
            "value": threshold,
            "text": _raw_text(name, threshold),
            "label": f"normalised under {fixed(sight.trace.config.threshold, 2)}",
        },
        "marked": _mark(name, values, counted, most=not readings),
        "target": None
        if all(value is None for value in others)
        else {"values": _rounded(others), "marked": _mark(name, others, counted, most=False)},
    }


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 5) for value in values]


def _mark(
    name: str, values: Sequence[float | None], counted: Sequence[int], *, most: bool
) -> dict[str, Any] | None:
    """The token that decides; None where a counted one was not measured."""
    marked = _marked(values, counted, most=most)
    if marked is None:
        return None
    word = "most" if most else "least"
    return {"index": marked[0], "text": f"{word} {_raw_text(name, marked[1])}"}


def _threshold(sight: Sight, reading: ReadingName) -> float | None:
    """Where this reading alone normalises to the threshold; None where it carries no weight."""
    config = sight.trace.config
    if reading not in config.weight or config.strategy != "specguard" or config.threshold > 1:
        return None
    low, high = bounds_of(reading, sight)
    return low + config.threshold * (high - low)


def _axis(name: str, measured: Sequence[float], threshold: float | None) -> tuple[float, float]:
    low, high = min(measured), max(measured)
    if threshold is not None:
        low, high = min(low, threshold), max(high, threshold)
    if name == "log-prob":
        high = 0.0
    if name == "entropy":
        low, high = 0.0, max(high, 1.0)
    room = max(high - low, 0.05) * 0.12
    top = high + (room * 0.3 if name == "log-prob" else room)
    bottom = low if name == "entropy" else low - room * (3.0 if name == "grounding" else 1.6)
    return round(bottom, 6), round(top, 6)


def _marked(
    values: Sequence[float | None], counted: Sequence[int], *, most: bool
) -> tuple[int, float] | None:
    candidates = [(i, value) for i in counted if (value := values[i]) is not None]
    if len(candidates) < len(counted) or not candidates:
        return None
    return (
        max(candidates, key=lambda pair: (pair[1], -pair[0]))
        if most
        else min(candidates, key=lambda pair: (pair[1], pair[0]))
    )


def _raw_text(name: str, value: float) -> str:
    return fixed(value) if name == "grounding" else nats(value)

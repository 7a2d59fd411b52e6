"""From token signals to one accept-or-fall-back verdict. Knows no model and no UI.

signal       a row of SIGNALS: how a step becomes one raw number, and between which bounds it lies
counted      tokens a minimum is taken over: all but the boundary token, or only those with a
             digit, with a digit or an operator (a wrong operator has sure digits after it), or
             these and the first (which decides what the step sets out to do)
grounded     a token whose rollout mass flows back to the context
fallback     the target's own step, used when the draft's is refused
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from specguard_core.config import READING_NAMES, DecodeConfig, Normalisation, ReadingName
from specguard_core.errors import NotMeasured
from specguard_core.grounding import grounding_ceiling
from specguard_core.types import (
    Bounds,
    Calibration,
    Candidate,
    Reading,
    Selection,
    TokenSignal,
    Trace,
    Verdict,
)

HIGHEST_GRADE = 9.0
_DIGITS = tuple(str(digit).encode() for digit in range(10))
_OPERATORS = tuple(operator.encode() for operator in "+-*/=×÷−·")
_TOKEN_KNOBS = ("signal_tokens", "include_boundary_token")
ROLLOUT_KNOBS = ("rollout_layers", "sparsify", "renormalise", "residual", "sink_tokens")


@dataclass(frozen=True, slots=True)
class Scales:
    """What raw readings are held against: a calibration (or none) and the models' depths."""

    calibration: Calibration | None
    draft_layers: int
    target_layers: int


@dataclass(frozen=True, slots=True)
class Signal:
    """One row. `token_value` is None for a share of the draws, which needs no normalisation.

    fixed_bounds   (low, high) where no calibration applies, in the raw reading's unit
    knobs          a calibration holds only where these knobs are as they were when it was made
    """

    sentence: str
    unit: Literal["nat", "share", "grade"]
    token_value: Callable[[TokenSignal], float | None] | None
    fixed_bounds: Callable[[DecodeConfig, Scales], tuple[float, float]]
    knobs: tuple[str, ...]
    reads_target: bool


def _log_bounds(config: DecodeConfig, scales: Scales) -> tuple[float, float]:
    return config.logprob_floor, 0.0


SIGNALS: dict[ReadingName, Signal] = {
    "confidence": Signal(
        sentence="least log-probability the draft gave to a token of its own step",
        unit="nat",
        token_value=lambda token: token.logprob,
        fixed_bounds=_log_bounds,
        knobs=_TOKEN_KNOBS,
        reads_target=False,
    ),
    "grounding": Signal(
        sentence="least share of the draft's rollout mass that flows back to the context",
        unit="share",
        token_value=lambda token: token.grounding,
        fixed_bounds=lambda config, scales: (
            0.0,
            grounding_ceiling(min(config.rollout_layers, scales.draft_layers), config.residual),
        ),
        knobs=_TOKEN_KNOBS + ROLLOUT_KNOBS,
        reads_target=False,
    ),
    "agreement": Signal(
        sentence="share of the draws in the chosen candidate's cluster",
        unit="share",
        token_value=None,
        fixed_bounds=lambda config, scales: (0.0, 1.0),
        knobs=(),
        reads_target=False,
    ),
    "target_confidence": Signal(
        sentence="least log-probability the target gives to a token of the draft's step",
        unit="nat",
        token_value=lambda token: token.target_logprob,
        fixed_bounds=_log_bounds,
        knobs=_TOKEN_KNOBS,
        reads_target=True,
    ),
    "target_grounding": Signal(
        sentence="least share of the target's rollout mass that flows back to the context",
        unit="share",
        token_value=lambda token: token.target_grounding,
        fixed_bounds=lambda config, scales: (
            0.0,
            grounding_ceiling(min(config.rollout_layers, scales.target_layers), config.residual),
        ),
        knobs=_TOKEN_KNOBS + ROLLOUT_KNOBS,
        reads_target=True,
    ),
    "grade": Signal(
        sentence="the grade the target gives the draft's step, 0 to 9; it is judged alone",
        unit="grade",
        token_value=None,
        fixed_bounds=lambda config, scales: (0.0, HIGHEST_GRADE),
        knobs=(),
        reads_target=True,
    ),
    "reward": Signal(
        sentence="the reward a reward model gives the draft's step, 0 to 1; it is judged alone",
        unit="share",
        token_value=None,
        fixed_bounds=lambda config, scales: (0.0, 1.0),
        knobs=(),
        reads_target=False,
    ),
}


def scales_of(trace: Trace) -> Scales:
    """The scales a trace's readings are held against."""
    return Scales(
        calibration=trace.calibration,
        draft_layers=1 if trace.draft is None else trace.draft.n_layers,
        target_layers=1 if trace.target is None else trace.target.n_layers,
    )


def boundary_index(candidate: Candidate) -> int | None:
    """Index of the token that completes the delimiter or ends the sequence; None after a limit."""
    return len(candidate.tokens) - 1 if candidate.stop in ("delimiter", "eos") else None


def counted_tokens(
    candidate: Candidate, config: DecodeConfig, pieces: Mapping[int, bytes]
) -> tuple[int, ...]:
    """Indices of the tokens a minimum is taken over, never empty (DESIGN section 5)."""
    boundary = None if config.include_boundary_token else boundary_index(candidate)
    counted = tuple(i for i in range(len(candidate.tokens)) if i != boundary)
    # A step that is nothing but its boundary token is judged by that token.
    counted = counted or (0,)
    if config.signal_tokens == "all":
        return counted
    marks = _DIGITS if config.signal_tokens == "numeric" else _DIGITS + _OPERATORS
    opens = config.signal_tokens == "setup"
    marked = tuple(
        i
        for i in counted
        if (opens and i == 0) or any(mark in pieces[candidate.tokens[i].token_id] for mark in marks)
    )
    return marked or counted


def measure(
    name: ReadingName, candidate: Candidate, config: DecodeConfig, pieces: Mapping[int, bytes]
) -> tuple[float, int] | None:
    """Raw value of a per-token signal and the index of the token that decided it.

    None where any counted token was not measured: a minimum over the rest would be made up.
    """
    token_value = SIGNALS[name].token_value
    if token_value is None:
        return None
    least: tuple[float, int] | None = None
    for index in counted_tokens(candidate, config, pieces):
        value = token_value(candidate.tokens[index])
        if value is None:
            return None
        if least is None or value < least[0]:
            least = value, index
    return least


def agreement(candidates: Sequence[Candidate], selection: Selection | None) -> float | None:
    """Share of the draws in the chosen candidate's cluster; None where there was one draw."""
    total = sum(len(candidate.draws) for candidate in candidates)
    if selection is None or total < 2:
        return None
    cluster = selection.clusters[selection.chosen]
    members = zip(candidates, selection.clusters, strict=True)
    return sum(len(candidate.draws) for candidate, c in members if c == cluster) / total


def verify(
    candidates: Sequence[Candidate],
    selection: Selection | None,
    config: DecodeConfig,
    *,
    scales: Scales,
    pieces: Mapping[int, bytes],
) -> Verdict:
    """The verdict on the chosen candidate: every reading that was measured, weighted or not.

    Raises:
        NotMeasured: a weighted reading has no data. Agreement among fewer than two draws is the
            one exception: its weight is dropped.
    """
    chosen = 0 if selection is None else selection.chosen
    weight = dict(config.weight)
    share = agreement(candidates, selection)
    if share is None:
        weight.pop("agreement", None)
    readings: dict[ReadingName, Reading] = {}
    for name in READING_NAMES:
        if name == "agreement":
            if share is not None:
                readings[name] = Reading(share, share, weight.get(name, 0.0), "share")
            continue
        raws = [measure(name, candidate, config, pieces) for candidate in candidates]
        raw = raws[chosen]
        if raw is not None:
            others = [value for value, _ in filter(None, raws)] if None not in raws else None
            reading = _reading(name, raw, weight.get(name, 0.0), others, config, scales)
            if reading is not None:
                readings[name] = reading
    missing = [name for name in weight if name not in readings]
    if missing:
        raise NotMeasured(
            f"expected a measurement of {missing[0]}, which carries weight {weight[missing[0]]:g}, "
            "got none: set its weight to 0 or decode again so that it is recorded"
        )
    if not weight:
        raise NotMeasured(
            "expected two draws or more for agreement, the only weighted reading, got one: "
            "raise n_candidates or weigh another reading"
        )
    total = math.fsum(weight.values())
    # Shares first: a single weight then gives its normalised reading to the last bit.
    score = math.fsum(w / total * readings[name].normalised for name, w in weight.items())
    return Verdict(readings, score, config.threshold, score >= config.threshold)


def calibrated_bounds(
    name: ReadingName, config: DecodeConfig, calibration: Calibration | None
) -> Bounds | None:
    """The bounds a calibration gives a reading under the knobs as they stand; None: it has none."""
    for table in () if calibration is None else calibration.tables:
        fits = all(table.settings.get(k) == getattr(config, k) for k in SIGNALS[name].knobs)
        if fits and name in table.bounds:
            return table.bounds[name]
    return None


def _reading(
    name: ReadingName,
    raw: tuple[float, int],
    weight: float,
    others: Sequence[float] | None,
    config: DecodeConfig,
    scales: Scales,
) -> Reading | None:
    value, weakest = raw
    basis: Normalisation = config.normalisation
    bounds = calibrated_bounds(name, config, scales.calibration)
    if basis == "candidates":
        if others is None:
            return None
        low, high = min(others), max(others)
    elif basis == "calibrated" and bounds is not None:
        low, high = bounds.low, bounds.high
    else:
        basis = "fixed"
        low, high = SIGNALS[name].fixed_bounds(config, scales)
    return Reading(value, normalise(value, low, high), weight, basis, low, high, weakest)


def grade_verdict(grade: float, config: DecodeConfig) -> Verdict:
    """The verdict on a grade in [0, 9]: accepted from `grade_threshold` on; both as shares of 9."""
    score = normalise(grade, 0.0, HIGHEST_GRADE)
    reading = Reading(grade, score, 1.0, "fixed", 0.0, HIGHEST_GRADE)
    threshold = config.grade_threshold / HIGHEST_GRADE
    return Verdict({"grade": reading}, score, threshold, grade >= config.grade_threshold)


def reward_verdict(reward: float, config: DecodeConfig) -> Verdict:
    """The verdict on a reward in [0, 1]: accepted from `threshold` on."""
    readings: dict[ReadingName, Reading] = {"reward": Reading(reward, reward, 1.0, "share")}
    return Verdict(readings, reward, config.threshold, reward >= config.threshold)


def normalise(raw: float, low: float, high: float) -> float:
    """`(raw - low) / (high - low)` clipped to [0, 1]; bounds that coincide divide 0 from 1."""
    if high > low:
        return min(1.0, max(0.0, (raw - low) / (high - low)))
    return 1.0 if raw >= high else 0.0

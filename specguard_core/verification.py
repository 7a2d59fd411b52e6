"""From raw readings to one accept-or-fall-back verdict. Knows no model and no UI.

grounded     a token whose rollout mass flows back to the context
fallback     the target's own step, used when the draft's is refused
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from specguard_core.config import READING_NAMES, DecodeConfig, Normalisation, ReadingName
from specguard_core.errors import NotMeasured
from specguard_core.readings import (
    HIGHEST_GRADE,
    SIGNALS,
    Scales,
    calibrated_bounds,
    counted_values,
    expectation,
    is_corrected,
    measure,
    require_expectations,
)
from specguard_core.types import Candidate, Reading, Selection, Verdict


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
        expected = expectation(name, config, scales.calibration)
        if expected is None and is_corrected(name, config):
            continue
        raws = [measure(name, candidate, config, pieces, expected) for candidate in candidates]
        raw = raws[chosen]
        if raw is not None:
            others = [value for value, _ in filter(None, raws)] if None not in raws else None
            reading = _reading(name, raw, weight.get(name, 0.0), others, config, scales)
            if reading is not None and expected is not None:
                reading = replace(reading, expected=expected.at(raw[1]))
            if reading is not None:
                readings[name] = reading
    require_expectations(config, scales.calibration)
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
    score = _score({name: readings[name].normalised for name in weight}, weight)
    return Verdict(readings, score, config.threshold, score >= config.threshold)


def n_standing(
    verdict: Verdict,
    candidate: Candidate,
    config: DecodeConfig,
    *,
    scales: Scales,
    pieces: Mapping[int, bytes],
) -> int:
    """Tokens of a refused step that the target goes on from, where it takes over at a token: those
    before the first one with which the minima, taken over the tokens so far, score too little.

    0 where it writes the whole step, and where no token is to blame: a reading of the whole step
    refuses it by itself.
    """
    if config.fallback_from == "step":
        return 0
    weight = {name: r.weight for name, r in verdict.readings.items() if r.weight > 0}
    score_of = {name: verdict.readings[name].normalised for name in weight}
    values = {
        name: counted_values(
            name, candidate, config, pieces, expectation(name, config, scales.calibration)
        )
        for name in weight
        if SIGNALS[name].token_value is not None
    }
    score_of |= dict.fromkeys(values, 1.0)
    if _score(score_of, weight) < verdict.threshold:
        return 0
    least = dict.fromkeys(values, math.inf)
    for index in next(iter(values.values()), ()):
        for name, of_tokens in values.items():
            reading = verdict.readings[name]
            assert reading.low is not None and reading.high is not None
            least[name] = min(least[name], of_tokens[index])
            score_of[name] = normalise(least[name], reading.low, reading.high)
        if _score(score_of, weight) < verdict.threshold:
            return index
    return 0


def _score(normalised: Mapping[ReadingName, float], weight: Mapping[ReadingName, float]) -> float:
    """The weighted mean, in [0, 1]."""
    total = math.fsum(weight.values())
    # Shares first: a single weight then gives its normalised reading to the last bit.
    return math.fsum(w / total * normalised[name] for name, w in weight.items())


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


def grade_verdict(
    grade: float, config: DecodeConfig, digits: tuple[float, ...] | None = None
) -> Verdict:
    """The verdict on a grade in [0, 9]: accepted from `grade_threshold` on; both as shares of 9.

    digits: the ten digits' probabilities that the grade was read from, to be kept with it.
    """
    score = normalise(grade, 0.0, HIGHEST_GRADE)
    reading = Reading(grade, score, 1.0, "fixed", 0.0, HIGHEST_GRADE, digits=digits)
    threshold = config.grade_threshold / HIGHEST_GRADE
    return Verdict({"grade": reading}, score, threshold, grade >= config.grade_threshold)


def reward_verdict(reward: float, config: DecodeConfig) -> Verdict:
    """The verdict on a reward in [0, 1]: accepted from `reward_threshold` on."""
    readings: dict[ReadingName, Reading] = {"reward": Reading(reward, reward, 1.0, "share")}
    threshold = config.reward_threshold
    return Verdict(readings, reward, threshold, reward >= threshold)


def normalise(raw: float, low: float, high: float) -> float:
    """`(raw - low) / (high - low)` clipped to [0, 1]; bounds that coincide divide 0 from 1."""
    if high > low:
        return min(1.0, max(0.0, (raw - low) / (high - low)))
    return 1.0 if raw >= high else 0.0

"""From readings to a verdict: the score by hand, and the laws that hold for all of them."""

import math
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.config import READING_NAMES, ReadingName
from specguard_core.errors import NotMeasured
from specguard_core.readings import SIGNALS
from specguard_core.verification import agreement, normalise, verify
from tests.builders import (
    PIECES,
    UNCALIBRATED,
    candidate,
    chosen_among,
    confident,
    configured,
    judged,
)

UNIT = st.floats(0, 1)
LOGPROB = st.floats(-20, 0)
WEIGHTS = st.dictionaries(st.sampled_from(READING_NAMES), st.floats(0.01, 1), min_size=1)


@st.composite
def judged_steps(draw):
    """Candidates with every signal measured, a selection among them, and weights."""
    n = draw(st.integers(1, 4))
    candidates = []
    for index in range(n):
        values = [draw(st.tuples(LOGPROB, UNIT, LOGPROB, UNIT)) for _ in range(4)]
        logprobs, grounding, target_logprobs, target_grounding = zip(*values, strict=True)
        one = candidate(
            "a1bc",
            logprobs,
            grounding=grounding,
            target_logprobs=target_logprobs,
            target_grounding=target_grounding,
            draws=tuple(range(10 * index, 10 * index + draw(st.integers(1, 3)))),
            stop=draw(st.sampled_from(["delimiter", "step_limit"])),
        )
        candidates.append(one)
    clusters = draw(st.tuples(*[st.integers(0, 2)] * n))
    total = sum(len(one.draws) for one in candidates)
    selection = chosen_among(n, draw(st.integers(0, n - 1)), clusters) if total > 1 else None
    weights = draw(WEIGHTS)
    if selection is None:
        weights = {"confidence": 0.5, **weights}
    return candidates, selection, weights


# Laws


@given(judged_steps(), st.floats(0, 1.01), st.floats(0, 1.01))
def test_a_stricter_threshold_never_accepts_more(judged_step, one, other):
    candidates, selection, weights = judged_step
    mild, strict = (
        verify(
            candidates,
            selection,
            configured(weights=weights, threshold=threshold),
            scales=UNCALIBRATED,
            pieces=PIECES,
        )
        for threshold in sorted((one, other))
    )
    assert mild.accepted >= strict.accepted
    assert mild.score == strict.score


@given(judged_steps(), st.sampled_from(["fixed", "candidates", "calibrated"]))
def test_threshold_0_accepts_every_step_and_1_01_none(judged_step, normalisation):
    candidates, selection, weights = judged_step
    for threshold, accepted in ((0.0, True), (1.01, False)):
        config = configured(weights=weights, threshold=threshold, normalisation=normalisation)
        verdict = verify(candidates, selection, config, scales=UNCALIBRATED, pieces=PIECES)
        assert verdict.accepted is accepted
        assert 0 <= verdict.score <= 1


@given(judged_steps())
def test_a_score_exactly_at_the_threshold_is_accepted(judged_step):
    candidates, selection, weights = judged_step
    config = configured(weights=weights)
    score = verify(candidates, selection, config, scales=UNCALIBRATED, pieces=PIECES).score
    at = verify(
        candidates,
        selection,
        replace(config, threshold=score),
        scales=UNCALIBRATED,
        pieces=PIECES,
    )
    above = verify(
        candidates,
        selection,
        replace(config, threshold=math.nextafter(score, 2)),
        scales=UNCALIBRATED,
        pieces=PIECES,
    )
    assert at.accepted
    assert not above.accepted


@given(judged_steps())
def test_the_score_is_the_weighted_mean_of_the_normalised_readings(judged_step):
    candidates, selection, weights = judged_step
    verdict = verify(
        candidates, selection, configured(weights=weights), scales=UNCALIBRATED, pieces=PIECES
    )
    counted = {name: w for name, w in weights.items() if name in verdict.readings}
    mean = sum(w * verdict.readings[name].normalised for name, w in counted.items())
    assert verdict.score == pytest.approx(mean / sum(counted.values()))
    assert all(verdict.readings[name].weight == w for name, w in counted.items())


@given(judged_steps(), st.floats(0.1, 1))
def test_only_the_proportion_of_weights_counts(judged_step, factor):
    candidates, selection, weights = judged_step
    whole, scaled = (
        verify(candidates, selection, configured(weights=w), scales=UNCALIBRATED, pieces=PIECES)
        for w in (weights, {name: factor * value for name, value in weights.items()})
    )
    assert whole.score == pytest.approx(scaled.score)


@given(judged_steps(), st.sampled_from(["fixed", "candidates"]))
def test_a_reading_says_how_it_was_normalised(judged_step, normalisation):
    candidates, selection, weights = judged_step
    config = configured(weights=weights, normalisation=normalisation)
    verdict = verify(candidates, selection, config, scales=UNCALIBRATED, pieces=PIECES)
    for name, reading in verdict.readings.items():
        if name == "agreement":
            assert (reading.basis, reading.normalised) == ("share", reading.raw)
        else:
            assert reading.basis == normalisation
            assert reading.normalised == normalise(reading.raw, reading.low, reading.high)


@given(judged_steps(), st.randoms())
def test_the_order_of_candidates_changes_no_verdict(judged_step, random):
    candidates, selection, weights = judged_step
    order = list(range(len(candidates)))
    random.shuffle(order)
    moved = None
    if selection is not None:
        moved = chosen_among(
            len(order), order.index(selection.chosen), [selection.clusters[i] for i in order]
        )
    elif order != [0]:
        return
    config = configured(weights=weights, normalisation="candidates")
    one = verify(candidates, selection, config, scales=UNCALIBRATED, pieces=PIECES)
    other = verify(
        [candidates[i] for i in order], moved, config, scales=UNCALIBRATED, pieces=PIECES
    )
    assert one == other


# Agreement


def test_agreement_is_the_share_of_draws_in_the_chosen_ones_cluster():
    candidates = [
        candidate("a", draws=(0, 3, 4)),
        candidate("b", draws=(1,)),
        candidate("c", draws=(2,)),
        candidate("d", draws=(5, 6, 7)),
    ]
    assert agreement(candidates, chosen_among(4, 0, (0, 0, 1, 1))) == 4 / 8
    assert agreement(candidates, chosen_among(4, 1, (0, 0, 1, 1))) == 4 / 8
    assert agreement(candidates, chosen_among(4, 2, (0, 0, 1, 2))) == 1 / 8
    assert agreement(candidates, chosen_among(4, 3, (0, 0, 1, 2))) == 3 / 8


def test_draws_that_are_all_equal_agree_wholly():
    assert agreement([candidate("a", draws=(0, 1, 2, 3))], chosen_among(1, 0)) == 1.0


def test_one_draw_agrees_with_nobody_and_its_weight_is_dropped():
    one = candidate("ab", -2.5)
    assert agreement([one], None) is None
    config = configured(weights={"agreement": 0.9, "confidence": 0.1})
    verdict = judged(one, config)
    assert verdict.score == pytest.approx(0.75)
    assert "agreement" not in verdict.readings


def test_agreement_alone_cannot_judge_one_draw():
    with pytest.raises(NotMeasured, match="raise n_candidates"):
        judged(candidate("ab"), configured(weights={"agreement": 1.0}))


def test_an_agreement_of_half_scores_half():
    candidates = [candidate("a", draws=(0, 1)), candidate("b", draws=(2, 3))]
    config = configured(weights={"agreement": 1.0}, threshold=0.5)
    verdict = verify(candidates, chosen_among(2, 0), config, scales=UNCALIBRATED, pieces=PIECES)
    assert (verdict.score, verdict.accepted) == (0.5, True)
    assert verdict.readings["agreement"].weakest_token is None


# What was not measured


@pytest.mark.parametrize("name", ["grounding", "target_confidence", "target_grounding"])
def test_a_weighted_reading_without_data_is_an_error_and_never_a_score(name):
    with pytest.raises(NotMeasured, match=name):
        judged(candidate("ab"), configured(weights={"confidence": 0.9, name: 0.1}))


def test_confidence_too_must_have_been_measured():
    with pytest.raises(NotMeasured, match="confidence"):
        judged(candidate("ab", (None, -1.0, -1.0)), confident())


def test_a_reading_of_no_weight_may_be_missing_and_is_shown_where_it_is_not():
    assert set(judged(candidate("ab"), confident()).readings) == {"confidence"}
    everything = candidate(
        "ab", grounding=0.5, target_logprobs=-1.0, target_grounding=0.5, draws=(0, 1)
    )
    verdict = verify(
        [everything], chosen_among(1, 0), confident(), scales=UNCALIBRATED, pieces=PIECES
    )
    assert set(verdict.readings) == set(READING_NAMES)
    assert verdict.readings["grounding"].weight == 0.0
    assert verdict.score == verdict.readings["confidence"].normalised


# By hand, whole


def test_the_papers_score_by_hand():
    one = candidate("a1b.\n\n", (-0.5, -2.0, -1.0, -9.0), grounding=(0.7, 0.6125, 0.525, None))
    verdict = judged(one, configured())  # 0.3 confidence + 0.7 grounding
    assert verdict.readings["confidence"].normalised == 0.8
    assert verdict.readings["confidence"].weakest_token == 1
    assert verdict.readings["grounding"].normalised == pytest.approx(0.6)
    assert verdict.readings["grounding"].weakest_token == 2
    assert verdict.score == pytest.approx(0.3 * 0.8 + 0.7 * 0.6)
    assert (verdict.threshold, verdict.accepted) == (0.7, False)
    digits = judged(one, configured(signal_tokens="numeric"))
    assert digits.score == pytest.approx(0.3 * 0.8 + 0.7 * 0.7)


def test_the_table_of_signals_is_the_menu_of_readings():
    assert tuple(SIGNALS) == get_args(ReadingName)
    assert all(signal.sentence for signal in SIGNALS.values())
    reads_target = {name for name, signal in SIGNALS.items() if signal.reads_target}
    assert reads_target == {"target_confidence", "target_grounding", "grade"}

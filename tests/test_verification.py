"""From signals to a verdict: every rule of it by hand, and the laws that hold for all of them."""

import math
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.config import READING_NAMES, DecodeConfig, ReadingName
from specguard_core.errors import NotMeasured
from specguard_core.types import Bounds, Calibration, CalibrationTable
from specguard_core.verification import (
    ROLLOUT_KNOBS,
    SIGNALS,
    Scales,
    agreement,
    boundary_index,
    calibrated_bounds,
    counted_tokens,
    measure,
    normalise,
    verify,
)
from tests.builders import PIECES, UNCALIBRATED, candidate, chosen_among, configured

UNIT = st.floats(0, 1)
LOGPROB = st.floats(-20, 0)
WEIGHTS = st.dictionaries(st.sampled_from(READING_NAMES), st.floats(0.01, 1), min_size=1)


def judged(one, config, *, scales=UNCALIBRATED):
    """The verdict on a candidate that stands alone."""
    return verify([one], None, config, scales=scales, pieces=PIECES)


def confident(**knobs):
    return configured(weights={"confidence": 1.0}, **knobs)


def calibrated(bounds, **settings):
    knobs = {
        name: getattr(DecodeConfig(), name)
        for name in ("signal_tokens", "include_boundary_token", *ROLLOUT_KNOBS)
    }
    return replace(
        UNCALIBRATED,
        calibration=Calibration("pair", 10, 40, (CalibrationTable({**knobs, **settings}, bounds),)),
    )


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


# Which tokens count


@pytest.mark.parametrize(
    ("one", "knobs", "counted"),
    [
        (candidate("abc\n\n"), {}, (0, 1, 2, 3)),
        (candidate("abc.\n\n"), {}, (0, 1, 2)),  # ".\n\n" is one token
        (candidate("abc"), {}, (0, 1, 2)),  # EOS
        (candidate("abc", stop="step_limit"), {}, (0, 1, 2)),
        (candidate("abc", stop="context_limit"), {}, (0, 1, 2)),
        (candidate("abc.\n\n"), {"include_boundary_token": True}, (0, 1, 2, 3)),
        (candidate("abc"), {"include_boundary_token": True}, (0, 1, 2, 3)),
        (candidate(""), {}, (0,)),  # nothing but EOS
        (candidate("x\n\n", stop="delimiter"), {}, (0, 1)),
        (candidate("a1b2\n\n"), {"signal_tokens": "numeric"}, (1, 3)),
        (candidate("ab\n\n"), {"signal_tokens": "numeric"}, (0, 1, 2)),
        (candidate("3 4", stop="step_limit"), {"signal_tokens": "numeric"}, (0, 1)),
        (candidate(""), {"signal_tokens": "numeric"}, (0,)),
        (candidate("a1+b=2\n\n"), {"signal_tokens": "equation"}, (1, 2, 4, 5)),
        (candidate("ab\n\n"), {"signal_tokens": "equation"}, (0, 1, 2)),
        (candidate("ab1+b=2\n\n"), {"signal_tokens": "setup"}, (0, 2, 3, 5, 6)),
        (candidate("ab\n\n"), {"signal_tokens": "setup"}, (0,)),
    ],
)
def test_tokens_that_count(one, knobs, counted):
    assert counted_tokens(one, configured(**knobs), PIECES) == counted


def test_a_digit_in_the_boundary_token_does_not_count():
    pieces = {0: b"so ", 1: b"2\n\n"}
    one = candidate("ab", stop="step_limit")
    tokens = tuple(replace(token, token_id=i) for i, token in enumerate(one.tokens))
    one = replace(one, tokens=tokens, stop="delimiter")
    assert counted_tokens(one, configured(signal_tokens="numeric"), pieces) == (0,)
    both = configured(signal_tokens="numeric", include_boundary_token=True)
    assert counted_tokens(one, both, pieces) == (1,)


def test_only_ascii_digits_are_digits():
    pieces = {0: "²".encode(), 1: "٣".encode(), 2: b"7"}
    one = candidate("abc", stop="step_limit")
    tokens = tuple(replace(token, token_id=i) for i, token in enumerate(one.tokens))
    one = replace(one, tokens=tokens)
    assert counted_tokens(one, configured(signal_tokens="numeric"), pieces) == (2,)


def test_the_boundary_is_the_last_token_of_a_step_that_ended_by_itself():
    assert boundary_index(candidate("ab.\n\n")) == 2
    assert boundary_index(candidate("ab")) == 2
    assert boundary_index(candidate("ab", stop="step_limit")) is None
    assert boundary_index(candidate("ab", stop="context_limit")) is None


@given(
    st.lists(LOGPROB, min_size=4, max_size=4),
    st.sampled_from(["all", "numeric", "equation", "setup"]),
)
def test_a_reading_is_the_least_value_over_the_counted_tokens(logprobs, signal_tokens):
    one = candidate("a1b2", logprobs, stop="step_limit")
    config = configured(signal_tokens=signal_tokens)
    value, weakest = measure("confidence", one, config, PIECES)
    counted = counted_tokens(one, config, PIECES)
    assert value == min(logprobs[i] for i in counted)
    assert weakest == min(i for i in counted if logprobs[i] == value)


def test_the_boundary_token_decides_only_where_it_is_asked_to():
    one = candidate("ab\n\n", (-0.5, -1.0, -0.1, -9.0), grounding=(0.9, 0.8, 0.7, None))
    assert measure("confidence", one, configured(), PIECES) == (-1.0, 1)
    assert measure("grounding", one, configured(), PIECES) == (0.7, 2)
    asked = configured(include_boundary_token=True)
    assert measure("confidence", one, asked, PIECES) == (-9.0, 3)
    assert measure("grounding", one, asked, PIECES) is None  # it was never a query


def test_grounding_is_the_sum_over_all_segments():
    one = candidate("ab", stop="step_limit")
    tokens = (
        replace(one.tokens[0], attribution=(0.25, 0.5, 0.125)),
        replace(one.tokens[1], attribution=(0.5, 0.0, 0.125)),
    )
    assert measure("grounding", replace(one, tokens=tokens), configured(), PIECES) == (0.625, 1)


def test_a_token_with_no_value_leaves_the_step_unmeasured_though_others_have_one():
    one = candidate("abc\n\n", grounding=(0.9, None, 0.9, 0.9, 0.9))
    assert measure("grounding", one, configured(), PIECES) is None
    numeric = candidate("a1b\n\n", grounding=(None, 0.4, None, None, None))
    assert measure("grounding", numeric, configured(signal_tokens="numeric"), PIECES) == (0.4, 1)


def test_agreement_is_no_minimum_over_tokens():
    assert measure("agreement", candidate("ab"), configured(), PIECES) is None


# Normalisation


@pytest.mark.parametrize(
    ("raw", "low", "high", "normalised"),
    [
        (-5.0, -10.0, 0.0, 0.5),
        (-10.0, -10.0, 0.0, 0.0),
        (0.0, -10.0, 0.0, 1.0),
        (-30.0, -10.0, 0.0, 0.0),
        (0.9, 0.0, 0.875, 1.0),
        (0.35, 0.0, 0.875, 0.4),
        (0.5, 0.5, 0.5, 1.0),
        (0.4, 0.5, 0.5, 0.0),
        (0.6, 0.5, 0.5, 1.0),
    ],
)
def test_a_raw_value_between_bounds(raw, low, high, normalised):
    assert normalise(raw, low, high) == pytest.approx(normalised)


@given(st.floats(-50, 50), st.floats(-50, 50), st.floats(-50, 50), st.floats(-50, 50))
def test_normalising_keeps_order_and_stays_in_the_unit_interval(a, b, low, high):
    low, high = sorted((low, high))
    one, other = (normalise(value, low, high) for value in sorted((a, b)))
    assert 0 <= one <= other <= 1


def test_with_no_calibration_confidence_runs_from_the_floor_to_0():
    verdict = judged(candidate("ab", -2.5), confident())
    reading = verdict.readings["confidence"]
    assert (reading.basis, reading.low, reading.high) == ("fixed", -10.0, 0.0)
    assert (reading.raw, reading.normalised, reading.weakest_token) == (-2.5, 0.75, 0)
    assert judged(candidate("ab", -2.5), confident(logprob_floor=-5.0)).score == 0.5


@pytest.mark.parametrize(
    ("n_layers", "rollout_layers", "residual", "ceiling"),
    [
        (4, 3, True, 0.875),
        (2, 3, True, 0.75),  # the model has fewer layers than the rollout asks for
        (1, 3, True, 0.5),
        (4, 1, True, 0.5),
        (4, 3, False, 1.0),
    ],
)
def test_with_no_calibration_grounding_is_held_against_the_most_there_can_be(
    n_layers, rollout_layers, residual, ceiling
):
    config = configured(
        weights={"grounding": 1.0}, rollout_layers=rollout_layers, residual=residual
    )
    scales = Scales(None, draft_layers=n_layers, target_layers=30)
    reading = judged(candidate("ab", grounding=0.35), config, scales=scales).readings["grounding"]
    assert (reading.low, reading.high) == (0.0, ceiling)
    assert reading.normalised == pytest.approx(0.35 / ceiling)


def test_each_models_grounding_is_held_against_its_own_depth():
    one = candidate("ab", grounding=0.375, target_grounding=0.375)
    scales = Scales(None, draft_layers=1, target_layers=2)
    readings = judged(one, configured(), scales=scales).readings
    assert (readings["grounding"].high, readings["target_grounding"].high) == (0.5, 0.75)
    assert readings["target_grounding"].normalised == 0.5


def test_a_calibration_gives_the_bounds_and_clips():
    scales = calibrated({"confidence": Bounds(-4.0, -2.0)})
    for logprob, normalised in ((-3.0, 0.5), (-5.0, 0.0), (-1.0, 1.0), (-2.0, 1.0)):
        reading = judged(candidate("ab", logprob), confident(), scales=scales).readings[
            "confidence"
        ]
        assert (reading.basis, reading.low, reading.high) == ("calibrated", -4.0, -2.0)
        assert reading.normalised == normalised


def test_a_calibration_that_does_not_speak_of_a_reading_leaves_it_fixed():
    scales = calibrated({"grounding": Bounds(0.2, 0.8)})
    readings = judged(candidate("ab", grounding=0.5), configured(), scales=scales).readings
    assert (readings["confidence"].basis, readings["grounding"].basis) == ("fixed", "calibrated")


@pytest.mark.parametrize("knob", ["signal_tokens", "include_boundary_token", *ROLLOUT_KNOBS])
def test_a_calibration_made_under_another_knob_is_ignored(knob):
    other = {
        "signal_tokens": "numeric",
        "include_boundary_token": True,
        "rollout_layers": 2,
        "sparsify": 0.02,
        "renormalise": False,
        "residual": False,
        "sink_tokens": 1,
    }
    bounds = {"confidence": Bounds(-4.0, -2.0), "grounding": Bounds(0.2, 0.8)}
    scales = calibrated(bounds, **{knob: other[knob]})
    readings = judged(candidate("ab", grounding=0.5), configured(), scales=scales).readings
    assert readings["grounding"].basis == "fixed"
    # Confidence does not depend on how attention is rolled out.
    assert readings["confidence"].basis == ("calibrated" if knob in ROLLOUT_KNOBS else "fixed")


def test_a_calibration_that_does_not_say_its_knobs_is_ignored():
    calibration = Calibration(
        "pair", 1, 1, (CalibrationTable({}, {"confidence": Bounds(-4.0, -2.0)}),)
    )
    assert calibrated_bounds("confidence", configured(), calibration) is None
    assert calibrated_bounds("confidence", configured(), None) is None


def test_a_person_may_turn_the_calibration_off():
    scales = calibrated({"confidence": Bounds(-4.0, -2.0)})
    verdict = judged(candidate("ab", -3.0), confident(normalisation="fixed"), scales=scales)
    assert verdict.readings["confidence"].basis == "fixed"


def test_among_candidates_the_least_is_0_and_the_most_is_1():
    candidates = [candidate("a", -1.0), candidate("b", -3.0), candidate("c", -2.0)]
    config = confident(normalisation="candidates")
    for chosen, normalised in ((0, 1.0), (1, 0.0), (2, 0.5)):
        verdict = verify(
            candidates,
            chosen_among(3, chosen),
            config,
            scales=UNCALIBRATED,
            pieces=PIECES,
        )
        reading = verdict.readings["confidence"]
        assert (reading.basis, reading.low, reading.high) == ("candidates", -3.0, -1.0)
        assert reading.normalised == normalised


def test_among_equal_candidates_all_are_1():
    candidates = [candidate("a", -9.0), candidate("b", -9.0)]
    config = confident(normalisation="candidates")
    verdict = verify(candidates, chosen_among(2, 1), config, scales=UNCALIBRATED, pieces=PIECES)
    assert verdict.score == 1.0
    assert judged(candidate("a", -9.0), config).score == 1.0


def test_among_candidates_one_that_was_not_measured_leaves_the_reading_unmeasured():
    candidates = [candidate("a", -1.0, target_logprobs=-1.0), candidate("b", -1.0)]
    weights = {"target_confidence": 1.0}
    config = configured(weights=weights, normalisation="candidates")
    with pytest.raises(NotMeasured, match="target_confidence"):
        verify(candidates, chosen_among(2, 0), config, scales=UNCALIBRATED, pieces=PIECES)
    fixed = replace(config, normalisation="fixed")
    assert verify(candidates, chosen_among(2, 0), fixed, scales=UNCALIBRATED, pieces=PIECES)


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

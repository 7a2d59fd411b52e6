"""From raw readings to [0, 1]: calibrated, fixed, and among candidates."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.errors import NotMeasured
from specguard_core.readings import ROLLOUT_KNOBS, Scales, calibrated_bounds
from specguard_core.types import Bounds, Calibration, CalibrationTable
from specguard_core.verification import normalise, verify
from tests.builders import (
    PIECES,
    UNCALIBRATED,
    calibrated,
    candidate,
    chosen_among,
    confident,
    configured,
    judged,
)


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

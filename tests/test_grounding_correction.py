"""Grounding less what is usual at a token's place in its step: by hand, its laws, its table."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core import bundled
from specguard_core.calibration import MIN_TOKENS_AT_PLACE, calibrate, expected_of
from specguard_core.decoder.step import start
from specguard_core.errors import NotMeasured, TraceFileError
from specguard_core.problem_files import FileProblem
from specguard_core.readings import CORRECTABLE, measure
from specguard_core.regate import regate
from specguard_core.trace_io import from_json, load_calibration, to_json
from specguard_core.types import Bounds, Expected
from specguard_core.verification import verify
from tests.builders import (
    PIECES,
    PROBLEM,
    UNCALIBRATED,
    AttentiveModel,
    calibrated,
    candidate,
    chosen_among,
    configured,
    judged,
    pair,
    run,
    scripted_info,
    with_config,
)

SHARES = st.lists(st.floats(0, 0.875), min_size=1, max_size=12)
USUAL = Expected((0, 2), (0.8, 0.5), Bounds(-0.2, 0.0))
GROUNDED = {"grounding": Bounds(0.25, 0.75)}


def corrected(**knobs):
    """A config that weighs corrected grounding alone, unless told otherwise."""
    defaults = {"grounding_correction": "position", "weights": {"grounding": 1.0}}
    return configured(**(defaults | knobs))


def knowing(usual, name="grounding", **settings):
    """Scales whose calibration says what is usual of a reading."""
    scales = calibrated(GROUNDED, **settings)
    (table,) = scales.calibration.tables
    table = replace(table, expected={name: usual})
    return replace(scales, calibration=replace(scales.calibration, tables=(table,)))


def words(shares):
    """A step of one token for each share, cut by a limit so that all of them count."""
    return candidate("a" * len(shares), grounding=tuple(shares), stop="step_limit")


# By hand


def test_each_token_is_held_against_its_own_place_before_the_least_is_taken():
    one = words((0.7, 0.8, 0.45, 0.5))  # usual 0.8, 0.8, 0.5, 0.5
    plain = judged(one, corrected(grounding_correction="none"), scales=knowing(USUAL))
    assert plain.readings["grounding"].weakest_token == 2
    assert plain.readings["grounding"].expected is None
    assert plain.score == pytest.approx((0.45 - 0.25) / 0.5)
    verdict = judged(one, corrected(), scales=knowing(USUAL))
    reading = verdict.readings["grounding"]
    assert (reading.weakest_token, reading.expected) == (0, 0.8)
    assert reading.raw == pytest.approx(-0.1)
    assert (reading.basis, reading.low, reading.high) == ("calibrated", -0.2, 0.0)
    assert verdict.score == pytest.approx(0.5)


def test_the_last_run_of_places_has_no_end():
    assert [USUAL.at(place) for place in (0, 1, 2, 3, 500)] == [0.8, 0.8, 0.5, 0.5, 0.5]


def test_only_counted_tokens_are_held_against_their_place():
    one = candidate("a1b2\n\n", grounding=(0.1, 0.75, 0.1, 0.5, 0.1, None))
    digits = corrected(signal_tokens="numeric")
    scales = knowing(USUAL, signal_tokens="numeric")
    reading = judged(one, digits, scales=scales).readings["grounding"]
    assert (reading.weakest_token, reading.raw) == (1, pytest.approx(-0.05))


def test_the_targets_grounding_is_corrected_by_its_own_table():
    one = candidate("ab", grounding=0.5, target_grounding=0.7, stop="step_limit")
    config = corrected(weights={"target_grounding": 1.0})
    scales = knowing(USUAL, "target_grounding")
    readings = judged(one, config, scales=scales).readings
    assert readings["target_grounding"].raw == pytest.approx(-0.1)
    assert "grounding" not in readings  # nothing is known of it, so nothing is made up


def test_confidence_is_never_corrected():
    one = words((0.5, 0.5))
    plain, moved = (
        judged(one, configured(grounding_correction=how), scales=knowing(USUAL))
        for how in ("none", "position")
    )
    assert plain.readings["confidence"] == moved.readings["confidence"]


def test_fixed_bounds_of_a_corrected_reading_end_at_as_usual():
    scales = knowing(USUAL)
    reading = judged(words((0.8, 0.8)), corrected(normalisation="fixed"), scales=scales).readings
    assert (reading["grounding"].low, reading["grounding"].high) == (-0.875, 0.0)
    assert reading["grounding"].normalised == 1.0


def test_among_candidates_corrected_readings_are_compared():
    candidates = [words((0.7,)), words((0.8, 0.8, 0.5))]
    config = corrected(normalisation="candidates")
    scores = [
        verify(
            candidates, chosen_among(2, chosen), config, scales=knowing(USUAL), pieces=PIECES
        ).score
        for chosen in (0, 1)
    ]
    assert scores == [0.0, 1.0]  # plain grounding says the opposite


# Laws


@given(SHARES)
def test_a_step_that_is_as_usual_everywhere_reads_0_whatever_its_length(shares):
    usual = Expected(tuple(range(len(shares))), tuple(shares), Bounds(-0.2, 0.0))
    for length in range(1, len(shares) + 1):
        assert measure("grounding", words(shares[:length]), corrected(), PIECES, usual) == (0.0, 0)


@given(SHARES, st.floats(0, 0.875))
def test_where_all_places_are_alike_only_the_unit_changes(shares, usual):
    plain = measure("grounding", words(shares), corrected(), PIECES)
    alike = Expected((0,), (usual,), Bounds(-0.2, 0.0))
    moved = measure("grounding", words(shares), corrected(), PIECES, alike)
    assert moved[0] == pytest.approx(plain[0] - usual)
    assert shares[moved[1]] == pytest.approx(shares[plain[1]])


@given(st.lists(SHARES, min_size=1, max_size=30))
def test_what_is_usual_is_a_mean_and_every_mean_has_enough_tokens(steps):
    numbered = [dict(enumerate(shares)) for shares in steps]
    usual = expected_of(numbered)
    left = {index: [] for index in range(len(usual.starts))}
    for step in numbered:
        for place, value in step.items():
            run_of_place = max(i for i, first in enumerate(usual.starts) if first <= place)
            left[run_of_place].append(value - usual.at(place))
    for values in left.values():
        assert sum(values) == pytest.approx(0, abs=1e-9)
        assert len(values) >= MIN_TOKENS_AT_PLACE or len(left) == 1
    least = [min(value - usual.at(place) for place, value in s.items()) for s in numbered]
    assert min(least) - 1e-12 <= usual.bounds.low <= usual.bounds.high <= max(least) + 1e-12


def test_places_with_few_tokens_share_a_mean():
    long, short = {0: 0.8, 1: 0.6, 2: 0.4, 4: 0.2}, {0: 0.6, 1: 0.4}
    usual = expected_of([long] * 30 + [short] * 30)
    assert usual.starts == (0, 1, 2)
    assert usual.means == pytest.approx((0.7, 0.5, 0.3))


# Where nothing is known


def test_a_correction_without_a_table_is_an_error_and_never_a_score():
    for scales, got in ((UNCALIBRATED, "got none"), (calibrated(GROUNDED), "does not say")):
        with pytest.raises(NotMeasured, match=f"{got}.*make one with `calibrate`"):
            judged(words((0.5,)), corrected(), scales=scales)
    other_rollout = corrected(sparsify=0.02)
    with pytest.raises(NotMeasured, match="under these knobs"):
        judged(words((0.5,)), other_rollout, scales=knowing(USUAL))


def test_a_decode_that_cannot_be_corrected_is_refused_before_a_model_is_called():
    models = pair()
    with pytest.raises(NotMeasured, match="what grounding is usual at each place"):
        start(PROBLEM, models, corrected())
    assert models.draft.n_calls == 0
    assert start(PROBLEM, models, corrected(weights={"confidence": 1.0}))
    assert start(PROBLEM, models, corrected(strategy="draft_only"))


# Files


def test_a_file_of_an_older_version_opens_and_says_what_it_lacks():
    known = knowing(USUAL).calibration
    data = to_json(known)
    assert from_json(data) == known
    for table in data["tables"]:
        del table["expected"]
    old = from_json(data)
    assert old.tables[0].bounds == known.tables[0].bounds
    with pytest.raises(NotMeasured, match="make one with `calibrate`"):
        start(PROBLEM, pair(), corrected(), calibration=old)


@pytest.mark.parametrize(
    "broken",
    [
        {"starts": [], "means": []},
        {"starts": [1], "means": [0.5]},
        {"starts": [0, 2, 2], "means": [0.5, 0.5, 0.5]},
        {"starts": [0, 1], "means": [0.5]},
    ],
)
def test_a_table_that_leaves_a_place_open_is_refused_with_its_place_in_the_file(broken):
    data = to_json(knowing(USUAL).calibration)
    data["tables"][0]["expected"]["grounding"] |= broken
    with pytest.raises(TraceFileError, match=r"a mean for each place.*tables\.0\.expected"):
        from_json(data)


def test_the_bundled_calibration_says_what_is_usual_in_every_way_of_counting():
    calibration = load_calibration(bundled.DRAFT / bundled.CALIBRATION_NAME)
    for table in calibration.tables:
        assert set(table.expected) == set(CORRECTABLE)
        for usual in table.expected.values():
            assert usual.means[0] > usual.means[-1]  # grounding falls along a step


# Whole runs


def attentive():
    return pair(AttentiveModel(info=scripted_info("draft")))


@cache
def measured():
    problems = [FileProblem(str(n), f"Ann has {n} apples.", str(n)) for n in range(1, 15)]
    return calibrate(problems, attentive(), configured(max_steps=4))


def test_turning_it_on_for_a_recorded_run_gives_what_a_run_with_it_would_say():
    calibration = measured()
    assert all(set(table.expected) == set(CORRECTABLE) for table in calibration.tables)
    plain = run(attentive(), configured(max_steps=1, threshold=1.01), calibration=calibration)
    config = with_config(plain, grounding_correction="position")
    fresh = run(attentive(), config, calibration=calibration)
    (verdict,) = regate(plain, config).verdicts
    assert verdict == fresh.units[0].verdict
    assert verdict.readings["grounding"].expected is not None
    assert verdict != plain.units[0].verdict
    (back,) = regate(fresh, plain.config).verdicts
    assert back == plain.units[0].verdict


@given(st.sampled_from(["all", "numeric", "equation", "setup"]), st.integers(0, 100))
@settings(max_examples=8)
def test_a_corrected_trace_comes_back_from_its_file(tokens, seed):
    config = corrected(signal_tokens=tokens, seed=seed, max_steps=2)
    trace = run(attentive(), config, calibration=measured())
    assert from_json(to_json(trace)) == trace

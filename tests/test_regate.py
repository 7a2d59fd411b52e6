"""Judging a trace again: its own config says what it said, others say what a decode would say."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core.config import KNOBS
from specguard_core.decoder.step import AwaitingCommit, advance, decode, start
from specguard_core.errors import ConfigError, NotMeasured
from specguard_core.evidence import Evidence
from specguard_core.regate import regate
from specguard_core.types import Bounds, Calibration, CalibrationTable, Outcome
from tests.builders import (
    PROBLEM,
    AttentiveModel,
    configured,
    pair,
    run,
    scripted_info,
    trace_from,
    with_config,
)

ROLLOUTS = st.fixed_dictionaries(
    {
        "sparsify": st.sampled_from([0.0, 0.01, 0.1, 0.5]),
        "renormalise": st.booleans(),
        "residual": st.booleans(),
        "sink_tokens": st.integers(0, 3),
        "rollout_layers": st.integers(1, 3),
    }
)
JUDGES = st.fixed_dictionaries(
    {
        "threshold": st.floats(0, 1.01),
        "signal_tokens": st.sampled_from(["all", "numeric", "equation", "setup"]),
        "normalisation": st.sampled_from(["calibrated", "fixed"]),
        "weights": st.dictionaries(
            st.sampled_from(["confidence", "grounding", "agreement"]),
            st.floats(0.01, 1),
            min_size=1,
        ).map(lambda weights: tuple(weights.items())),
    }
)
SEEDS = st.integers(0, 1000)


def attentive():
    return pair(AttentiveModel(info=scripted_info("draft")))


def decoded(config, models=None):
    """A trace and the evidence of its decode."""
    models = attentive() if models is None else models
    evidence = Evidence()
    for event in decode(start(PROBLEM, models, config), models):
        evidence.record(event)
    return event.trace, evidence


def verdicts_of(trace):
    return tuple(step.verdict for step in trace.units)


# The trace's own config


@given(SEEDS, JUDGES, ROLLOUTS, st.booleans())
@settings(max_examples=20)
def test_a_traces_own_config_reproduces_every_verdict_exactly(seed, judge, rollout, boundary):
    config = configured(seed=seed, max_steps=3, include_boundary_token=boundary, **judge, **rollout)
    trace, evidence = decoded(config)
    for known in (None, evidence):
        again = regate(trace, trace.config, known)
        assert again.verdicts == verdicts_of(trace)
        assert again.selections == tuple(step.selection for step in trace.units)
        assert (again.flips, again.first_flip, dict(again.unmeasured)) == ((), None, {})


@given(SEEDS, ROLLOUTS, ROLLOUTS)
@settings(max_examples=20)
def test_there_and_back_again_changes_nothing(seed, rollout, other):
    # The way back is computed from the rows, so this says that they give what was recorded.
    config = configured(seed=seed, max_steps=3, normalisation="fixed", **rollout)
    trace, evidence = decoded(config)
    there = replace(trace.config, **{**other, "rollout_layers": config.rollout_layers})
    moved = replace(trace, config=there)
    assert regate(moved, config, evidence).verdicts == verdicts_of(trace)


@given(SEEDS, ROLLOUTS, ROLLOUTS, st.booleans())
@settings(max_examples=20)
def test_rollout_knobs_give_what_a_fresh_decode_of_the_same_draws_would(
    seed, rollout, other, boundary
):
    config = configured(
        seed=seed, max_steps=1, include_boundary_token=boundary, **{**rollout, "rollout_layers": 3}
    )
    trace, evidence = decoded(config)
    turned = replace(config, **other)
    fresh, _ = decoded(turned)
    assert regate(trace, turned, evidence).verdicts == verdicts_of(fresh)


@given(SEEDS, JUDGES, st.sampled_from(["step", "token"]))
@settings(max_examples=40)
def test_judge_knobs_give_what_a_fresh_decode_would_up_to_the_first_flip(seed, judge, place):
    trace, _ = decoded(configured(seed=seed, max_steps=4, threshold=0.5, fallback_from=place))
    turned = replace(trace.config, **judge)
    again = regate(trace, turned)
    fresh, _ = decoded(turned)
    sure = len(trace.units) if again.first_flip is None else again.first_flip + 1
    assert again.verdicts[:sure] == verdicts_of(fresh)[:sure]
    if again.first_flip is None:
        assert fresh.text == trace.text


@given(SEEDS, st.sampled_from(["lexical", "numeric", "hidden"]), st.floats(0, 1))
@settings(max_examples=30)
def test_select_knobs_give_the_selection_a_fresh_decode_would(seed, method, cut):
    weights = {"confidence": 0.5, "agreement": 0.5}
    trace, evidence = decoded(configured(seed=seed, max_steps=1, weights=weights))
    turned = replace(trace.config, selection_method=method, cluster_similarity=cut)
    fresh, _ = decoded(turned)
    again = regate(trace, turned, evidence)
    assert again.selections == tuple(step.selection for step in fresh.units)
    assert again.verdicts == verdicts_of(fresh)


# Thresholds


@given(SEEDS, st.floats(0, 1.01), st.floats(0, 1.01))
@settings(max_examples=20)
def test_a_stricter_threshold_never_accepts_more(seed, one, other):
    trace = run(pair(), configured(seed=seed, max_steps=5))
    mild, strict = (
        regate(trace, with_config(trace, threshold=threshold)).verdicts
        for threshold in sorted((one, other))
    )
    assert all(m.accepted >= s.accepted for m, s in zip(mild, strict, strict=True))


def test_at_threshold_0_all_are_accepted_and_at_1_01_none():
    trace = run(pair(), configured(max_steps=5, threshold=1.01))
    assert len(trace.units) == 5
    for threshold, accepted in ((0.0, True), (1.01, False)):
        again = regate(trace, with_config(trace, threshold=threshold))
        assert [verdict.accepted for verdict in again.verdicts] == [accepted] * 5
    assert regate(trace, with_config(trace, threshold=0.0)).flips == (0, 1, 2, 3, 4)
    assert regate(trace, with_config(trace, threshold=0.0)).first_flip == 0


def test_the_trace_is_left_as_it_was():
    trace, evidence = decoded(configured(max_steps=3))
    before = repr(trace)
    regate(trace, with_config(trace, threshold=0.1, sparsify=0.1, residual=False), evidence)
    assert repr(trace) == before


# What cannot be told


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("n_candidates", 9),
        ("strategy", "draft_only"),
        ("seed", 1),
        ("include_boundary_token", True),
        ("delimiter", "\n"),
        ("draft_temperature", 0.0),
        ("max_steps", 1),
    ],
)
def test_a_knob_that_needs_a_new_decode_is_refused_by_name(knob, value):
    trace = run(pair(), configured(max_steps=2))
    assert KNOBS[knob].effect == "rerun"
    with pytest.raises(ConfigError, match=f"{knob} as it was recorded"):
        regate(trace, with_config(trace, **{knob: value}))


@pytest.mark.parametrize(
    "knobs", [{"sparsify": 0.1}, {"residual": False}, {"sink_tokens": 1}, {"rollout_layers": 2}]
)
def test_rollout_knobs_without_rows_are_not_measured(knobs):
    trace = run(pair(), configured(max_steps=2))
    with pytest.raises(NotMeasured, match="attention rows"):
        regate(trace, with_config(trace, **knobs))


def test_rollout_knobs_matter_to_no_reading_but_grounding():
    trace = run(pair(), configured(max_steps=3))
    turned = with_config(trace, weights={"confidence": 1.0}, residual=False)
    again = regate(trace, turned)
    assert all("grounding" not in verdict.readings for verdict in again.verdicts)
    expected = regate(trace, with_config(trace, weights={"confidence": 1.0}))
    assert [v.score for v in again.verdicts] == [v.score for v in expected.verdicts]


def test_more_layers_than_were_recorded_are_not_measured_and_more_than_there_are_do_not_matter():
    trace, evidence = decoded(configured(max_steps=1, rollout_layers=2))
    with pytest.raises(NotMeasured, match="rows of 3 layers"):
        regate(trace, with_config(trace, rollout_layers=3), evidence)
    deep, evidence = decoded(configured(max_steps=1, rollout_layers=4))  # the model has 4
    again = regate(deep, with_config(deep, rollout_layers=200), evidence)
    assert again.verdicts == verdicts_of(deep)


def test_rows_of_some_steps_tell_the_verdicts_of_those():
    trace, evidence = decoded(configured(max_steps=4, threshold=1.01))
    assert len(trace.units) == 4
    some = Evidence.from_rows(dict(list(evidence.items())[1:]))
    again = regate(trace, with_config(trace, residual=False), some)
    assert [verdict is None for verdict in again.verdicts] == [True, False, False, False]
    assert list(again.unmeasured) == [0]
    assert "attention rows" in again.unmeasured[0]


def test_a_reading_that_was_never_taken_cannot_be_weighed_later():
    trace = run(pair(), configured(max_steps=2))
    with pytest.raises(NotMeasured, match="target_confidence"):
        regate(trace, with_config(trace, weights={"target_confidence": 1.0}))


def test_the_targets_grounding_is_not_known_under_another_rollout():
    weights = {"target_grounding": 1.0}
    trace, evidence = decoded(configured(max_steps=2, weights=weights))
    with pytest.raises(NotMeasured, match="target_grounding"):
        regate(trace, with_config(trace, sink_tokens=2), evidence)


def test_another_choice_whose_target_reading_is_missing_is_not_measured():
    weights = {"target_confidence": 1.0}
    for seed in range(30):
        trace = run(pair(), configured(max_steps=1, weights=weights, seed=seed))
        turned = with_config(trace, selection_method="hidden")
        unread = regate(trace, replace(turned, weights=(("confidence", 1.0),)))
        if unread.selections[0].chosen != trace.units[0].selection.chosen:
            with pytest.raises(NotMeasured, match="target_confidence"):
                regate(trace, turned)
            return
    raise AssertionError("expected some seed to choose another candidate")


def test_a_method_that_was_not_recorded_is_answered_with_those_that_were():
    trace = run(pair(), configured(max_steps=1))
    assert len(trace.units[0].candidates) > 1
    with pytest.raises(NotMeasured, match="lexical, numeric"):
        regate(trace, with_config(trace, selection_method="sentence-transformers"))


def test_where_no_check_was_made_there_is_no_verdict():
    for strategy in ("draft_only", "target_only"):
        trace = run(pair(), configured(strategy=strategy, max_steps=3))
        again = regate(trace, with_config(trace, threshold=1.0, sparsify=0.2))
        assert again.verdicts == (None,) * len(trace.units)
        assert again.first_flip is None


def test_a_trace_with_no_steps_has_no_verdicts():
    trace = start(PROBLEM, pair(), configured()).trace
    assert regate(trace, with_config(trace, threshold=0.1)).verdicts == ()


# Flips


def test_another_accepted_text_is_a_flip_though_the_verdict_stands():
    for seed in range(30):
        trace = run(pair(), configured(max_steps=1, threshold=0.0, seed=seed))
        again = regate(trace, with_config(trace, selection_method="hidden"))
        other = again.selections[0].chosen != trace.units[0].selection.chosen
        assert again.flips == ((0,) if other else ())
        if other:
            return
    raise AssertionError("expected some seed to choose another candidate")


def test_another_refused_text_is_no_flip():
    trace = run(pair(), configured(max_steps=5, threshold=1.01))
    again = regate(trace, with_config(trace, selection_method="hidden"))
    assert any(
        a.chosen != step.selection.chosen
        for a, step in zip(again.selections, trace.units, strict=True)
    )
    assert again.flips == ()


def test_a_forced_step_keeps_its_verdict_apart_from_what_happened():
    models = attentive()
    state = start(PROBLEM, models, configured(threshold=1.01, max_steps=1))
    while not isinstance(state, AwaitingCommit):
        state, _ = advance(state, models)
    state, _ = advance(replace(state, plan=Outcome("draft", forced=True)), models)
    trace = trace_from(state, models)
    again = regate(trace, trace.config)
    assert [verdict.accepted for verdict in again.verdicts] == [False]
    assert again.flips == ()


# Calibration


def test_the_traces_calibration_counts_only_where_it_still_speaks_of_the_knobs():
    knobs = {
        name: getattr(configured(), name)
        for name, knob in KNOBS.items()
        if knob.effect == "rollout" or name in ("signal_tokens", "include_boundary_token")
    }
    bounds = {"confidence": Bounds(-4.0, -0.1), "grounding": Bounds(0.1, 0.6)}
    trace = run(
        pair(),
        configured(max_steps=1),
        calibration=Calibration("pair", 1, 1, (CalibrationTable(knobs, bounds),)),
    )
    assert trace.units[0].verdict.readings["grounding"].basis == "calibrated"
    numeric = regate(trace, with_config(trace, signal_tokens="numeric")).verdicts[0]
    assert {reading.basis for reading in numeric.readings.values()} == {"fixed", "share"}
    fixed = regate(trace, with_config(trace, normalisation="fixed")).verdicts[0]
    assert fixed.readings["confidence"].basis == "fixed"

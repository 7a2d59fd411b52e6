"""Figures about runs, against brute force, against each other, and worked by hand."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core import metrics
from specguard_core.types import Candidate, Cost, Outcome, RoleCost, Step, TokenSignal, Trace
from tests.any_traces import full_trace

SMALL = st.integers(-3, 3)
LABELLED = st.lists(st.tuples(st.booleans(), SMALL, st.integers(0, 2)), max_size=30)


def test_wilson_interval_of_nine_out_of_ten_as_the_textbooks_have_it() -> None:
    interval = metrics.wilson_interval(9, 10)
    assert interval is not None
    assert (interval.value, round(interval.low, 4), round(interval.high, 4)) == (
        0.9,
        0.5958,
        0.9821,
    )


@given(st.integers(0, 300), st.integers(1, 300))
def test_wilson_interval_holds_its_value_and_mirrors(successes: int, total: int) -> None:
    successes = min(successes, total)
    one = metrics.wilson_interval(successes, total)
    other = metrics.wilson_interval(total - successes, total)
    assert one is not None
    assert other is not None
    assert 0 <= one.low <= one.value <= one.high <= 1
    assert one.low == pytest.approx(1 - other.high)


def test_wilson_interval_of_nothing_is_not_measured_and_of_nonsense_an_error() -> None:
    assert metrics.wilson_interval(0, 0) is None
    with pytest.raises(ValueError, match="from 0 to 3"):
        metrics.wilson_interval(4, 3)


@given(LABELLED)
def test_auc_is_the_share_of_pairs_that_are_in_order(rows: list[tuple[bool, int, int]]) -> None:
    def brute(pairs: list[tuple[int, int]]) -> float | None:
        won = sum((right > wrong) + (right == wrong) / 2 for right, wrong in pairs)
        return won / len(pairs) if pairs else None

    labels, scores, strata = (
        (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 3
    )
    pairs = [(s, t, g == h) for r, s, g in rows if r for w, t, h in rows if not w]
    assert metrics.roc_auc(labels, scores) == pytest.approx(brute([(s, t) for s, t, _ in pairs]))
    within = brute([(s, t) for s, t, same in pairs if same])
    assert metrics.roc_auc(labels, scores, strata) == pytest.approx(within)


def test_a_signal_that_only_knows_the_stratum_is_worth_nothing_within_it() -> None:
    labels, length = [True, True, False, False, False, True], [5, 5, 9, 9, 5, 9]
    shorter_is_better = [-n for n in length]
    assert metrics.roc_auc(labels, shorter_is_better) == pytest.approx(6 / 9)
    assert metrics.roc_auc(labels, shorter_is_better, length) == 0.5


def _step(index: int, source: Any, n_tokens: int, milliseconds: float = 0.0) -> Step:
    step = Candidate((TokenSignal(0),) * n_tokens, "delimiter", draws=(0,))
    spent = {"target_written": RoleCost(n_tokens, milliseconds)} if source == "target" else {}
    written = None if source == "draft" else step
    return Step(index, (step,), None, None, Outcome(source), written, Cost(spent))  # type: ignore[arg-type]  # the literal keys of a dict


def _trace(*steps: Step) -> Trace:
    return replace(full_trace(), units=steps)


def test_rates_are_shares_of_steps_and_not_measured_where_there_is_none() -> None:
    judged = full_trace()
    assert metrics.accept_rate([judged]) == 0.0
    assert metrics.accept_rate([_trace(_step(0, "draft", 3))]) is None
    mixed = _trace(_step(0, "draft", 3), _step(1, "target", 2), _step(2, "draft", 1))
    assert metrics.fallback_rate([mixed, judged]) == 0.25
    assert metrics.fallback_rate([_trace()]) is None


def test_target_only_time_is_measured_estimated_or_unknown() -> None:
    all_target = _trace(_step(0, "target", 4, 40.0), _step(1, "target", 6, 50.0))
    assert metrics.target_only_time(all_target) == metrics.TargetOnlyTime(90.0, "measured")
    some = _trace(_step(0, "target", 4, 40.0), _step(1, "draft", 6))
    assert metrics.target_only_time(some) == metrics.TargetOnlyTime(100.0, "estimated")
    assert metrics.target_only_time(_trace(_step(0, "draft", 4))) is None
    assert metrics.target_only_time(_trace(_step(0, "target", 4, 0.0))) is None


def test_cost_is_summed_over_traces_by_role() -> None:
    trace = full_trace()
    cost = metrics.total_cost([trace, trace])
    assert cost.roles["draft_kept"] == RoleCost(4)
    assert cost.roles["draft_kept"].milliseconds == 3.0
    assert (cost.target_passes, cost.target_positions) == (2, 4)
    assert metrics.kept_tokens(trace) == 2

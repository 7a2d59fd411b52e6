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


@pytest.mark.parametrize(
    ("gained", "lost", "p"), [(0, 0, 1), (1, 0, 1), (5, 0, 1 / 16), (2, 10, 79 / 2048), (3, 3, 1)]
)
def test_mcnemar_is_a_fair_coins_two_tails(gained: int, lost: int, p: float) -> None:
    assert metrics.mcnemar_p(gained, lost) == pytest.approx(p)


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_has_no_side_and_falls_as_one_side_grows(gained: int, lost: int) -> None:
    p = metrics.mcnemar_p(gained, lost)
    assert 0 < p <= 1
    assert p == metrics.mcnemar_p(lost, gained)
    fewer, more = sorted((gained, lost))
    assert metrics.mcnemar_p(fewer, more + 1) <= p


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


def test_rank_correlation_by_hand_ties_at_their_mean_rank() -> None:
    # Ranks 1.5, 1.5, 3, 4 against 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5.
    found = metrics.rank_correlation([7.0, 7.0, 8.0, 9.0], [1.0, 2.0, 3.0, 4.0])
    assert found == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert metrics.rank_correlation([1.0, 1.0], [1.0, 2.0]) is None
    assert metrics.rank_correlation([], []) is None


@given(st.lists(st.integers(-9, 9), min_size=2), st.randoms(use_true_random=False))
def test_rank_correlation_knows_order_alone(values: list[int], random: Any) -> None:
    others = [random.randint(0, 9) for _ in values]
    found = metrics.rank_correlation(values, others)
    bent = metrics.rank_correlation([value**3 for value in values], others)
    turned = metrics.rank_correlation([-value for value in values], others)
    if found is None:
        assert bent is None and turned is None
    else:
        assert bent == pytest.approx(found)
        assert turned == pytest.approx(-found)


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

"""Every threshold at once, over recorded runs, and what counts as right or wrong there."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from any_traces import traces
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_traces import QUESTION, coin_trace

from specguard_core.metrics import accept_rate
from specguard_core.regate import regate
from viz_app.gold import NO_GOLD, gold_steps
from viz_app.requests import looked, set_up
from viz_app.session import Look, Session, opened
from viz_app.views.rightness import label
from viz_app.views.tables import tables_view
from viz_app.views.thresholds import (
    HIGHEST,
    Judged,
    curve,
    judged_steps,
    labels_told,
    thresholds_view,
    told,
)

GOLD = {
    QUESTION: (
        "The bags hold 4 * 6 = 24 coins.",
        "Ana now has 23 + 24 = 47 coins.",
        "Ana is left with 47 - 15 = 32 coins.",
        "The answer is \\boxed{32}.",
    )
}
THERE = Look(tab="thresholds")

steps = st.lists(
    st.builds(
        Judged,
        key=st.text(max_size=3),
        score=st.floats(0, 1),
        right=st.sampled_from([True, False, None]),
        basis=st.just("equations"),
    ),
    min_size=1,
    max_size=12,
)


def coins() -> Session:
    return opened(Session(), coin_trace())


def at(rows: list[list[float | None]], threshold: float) -> list[float | None]:
    """The row that holds at a threshold: the first one that reaches it."""
    return next(row for row in rows if row[0] >= threshold)


def test_the_refused_step_is_the_wrong_one_by_the_known_solution():
    judged = judged_steps([coin_trace()], None, GOLD)
    assert [step.right for step in judged] == [True, True, False, True]
    assert {step.basis for step in judged} == {"gold steps"}


def test_the_words_at_a_threshold_count_what_the_rule_would_do():
    judged = judged_steps([coin_trace()], None, GOLD)
    assert [line["text"] for line in told(judged, 0.7)] == [
        "3 of 4 steps accepted",
        "0 of 1 wrong ones let through",
        "0 of 3 right ones refused in vain",
    ]
    assert told(judged, 0.4)[1]["text"] == "1 of 1 wrong ones let through"
    assert told(judged, HIGHEST)[2]["text"] == "3 of 3 right ones refused in vain"


@given(steps, st.floats(0, 1))
def test_the_curve_is_the_counts_at_every_threshold(judged, threshold):
    row = at(curve(judged), round(threshold, 6))
    near = any(abs(step.score - threshold) < 1e-5 for step in judged)
    accepted = sum(step.score >= threshold for step in judged) / len(judged)
    assert near or row[1] == pytest.approx(accepted)
    right = [step for step in judged if step.right is True]
    if right and not near:
        vain = sum(step.score < threshold for step in right) / len(right)
        assert row[3] == pytest.approx(vain)


@given(steps)
def test_a_stricter_threshold_accepts_no_more_and_lets_no_more_through(judged):
    rows = curve(judged)
    for one, other in pairwise(rows):
        assert other[1] <= one[1]
        if one[2] is not None:
            assert other[2] <= one[2]
        if one[3] is not None:
            assert other[3] >= one[3]
    assert rows[-1][1] == 0


@given(steps)
def test_what_is_not_known_is_counted_as_not_known(judged):
    unknown = sum(step.right is None for step in judged)
    bare = [replace(s, basis=None) if s.right is None else s for s in judged]
    assert (f"{unknown} not known" in labels_told(bare)) == (unknown > 0)


@settings(max_examples=25)
@given(traces())
def test_the_share_accepted_at_the_run_s_threshold_is_that_of_regate(trace):
    judged = judged_steps([trace])
    if not judged:
        return
    verdicts = [v for v in regate(trace, trace.config).verdicts if v and "grade" not in v.readings]
    keys = {step.key for step in judged}
    assert len(keys) <= len(verdicts)
    assert accept_rate([trace]) is not None
    assert {step.score for step in judged} <= {verdict.score for verdict in verdicts}
    assert all(math.isfinite(value) for row in curve(judged) for value in row if value is not None)


def test_without_a_known_solution_equations_and_the_answer_tell():
    assert label("Ana has 47 - 9 = 38 coins.", None, 2, "32") == (True, "equations")
    assert label("Ana has 47 - 9 = 39 coins.", None, 2, "32") == (False, "equations")
    assert label("The answer is \\boxed{32.0}.", None, 3, "32") == (True, "answer")
    assert label("The answer is \\boxed{31}.", None, 3, "32") == (False, "answer")
    assert label("So we go on.", None, 1, "32") == (None, None)


def test_after_a_wrong_step_was_kept_later_ones_are_held_against_their_equations_alone():
    trace = coin_trace()
    first = trace.units[0]
    wrong = replace(
        first,
        candidates=trace.units[2].candidates[:1],
        selection=None,
        written=None,
        outcome=replace(first.outcome, source="draft"),
    )
    broken = replace(trace, units=(wrong, *trace.units[1:]))
    bases = [step.basis for step in judged_steps([broken], None, GOLD)]
    assert bases[0] == "gold steps"
    assert set(bases[1:]) <= {"equations", None}


def test_a_step_that_two_branches_share_counts_once():
    one = coins()
    twice = replace(one, lines=(*one.lines, replace(one.lines[0], name="copy", parent="main")))
    assert thresholds_view(one, THERE, GOLD)["n"] == 4
    assert thresholds_view(twice, THERE, GOLD)["n"] == 4
    assert thresholds_view(twice, THERE, GOLD)["n_runs"] == 2


def test_the_threshold_that_catches_all_is_a_click_and_catches_all():
    view = thresholds_view(coins(), THERE, GOLD)
    there = looked(coins(), THERE, {"knob": "threshold", "value": view["catch"]["set"]})
    again = thresholds_view(coins(), there, GOLD)
    assert again["now"] == view["catch"]["set"] == 0.41
    assert again["told"][1]["text"] == "0 of 1 wrong ones let through"


def test_other_knobs_move_the_scores_but_never_the_labels():
    only = Look(tab="thresholds", knobs=replace(coin_trace().config, weights=(("grounding", 1.0),)))
    before, after = (thresholds_view(coins(), look, GOLD) for look in (THERE, only))
    assert before["curve"] != after["curve"]
    assert before["labels"] == after["labels"]


def test_the_table_is_made_only_while_it_is_open_and_says_what_it_will_show():
    assert tables_view(coins(), Look(), NO_GOLD)["thresholds"] is None
    assert tables_view(coins(), THERE, NO_GOLD)["thresholds"]["n"] == 4
    assert "will stand here" in thresholds_view(Session(), THERE, NO_GOLD)["empty"]


def test_runs_from_files_stand_beside_and_can_be_taken_away():
    from viz_app.files import to_file

    session = coins()
    more = set_up(session, {"beside": [to_file(session)]}, ())
    assert thresholds_view(more, THERE, GOLD)["beside"] == 1
    assert more.lines == session.lines
    assert set_up(more, {"beside": None}, ()).beside == ()


def test_known_solutions_are_read_from_a_problem_file(tmp_path):
    path = tmp_path / "problems.jsonl"
    path.write_text(
        '{"question": "q ", "answer": "1", "steps": ["a", "b"]}\n{"question": "r"}\nno json\n[]\n',
        "utf-8",
    )
    assert dict(gold_steps(path)) == {"q": ("a", "b")}
    assert dict(gold_steps(tmp_path / "none.jsonl")) == {}

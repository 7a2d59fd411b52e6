"""A breakpoint is a condition on a committed step: a run pauses there, and goes on unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_traces import coin_trace
from test_session import CONFIG, models, pair_of, run_by_hand

from specguard_core.errors import UsageError
from specguard_core.sessions import Breakpoint
from viz_app.breakpoints import KINDS, checked, hits, safe_pattern, words_of
from viz_app.driving import drive
from viz_app.files import from_file, to_file
from viz_app.requests import set_up
from viz_app.session import Problem, Session
from viz_app.work import Room

TRACE = coin_trace()


def steps_hit(kind: str, value: object = None) -> list[int]:
    point = checked(kind, value)
    return [step.index for step in TRACE.steps if hits([point], step, TRACE)]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("fallback", None, [2]),
        ("margin", 0.1, [3]),
        ("score", 0.5, [2]),
        ("confidence", 0.3, [2]),
        ("grounding", 0.5, [2]),
        ("clusters", None, [2]),
        ("equation", None, []),
        ("pattern", r"\b47 - \d+", [2]),
        ("step", 2, [1]),
        ("answer", None, [3]),
    ],
)
def test_each_kind_holds_where_it_should(kind, value, expected):
    assert steps_hit(kind, value) == expected


def test_a_breakpoint_that_is_off_holds_nowhere():
    point = Breakpoint("fallback", None, enabled=False)
    assert not any(hits([point], step, TRACE) for step in TRACE.steps)


def test_a_run_pauses_at_a_breakpoint_and_goes_on_to_the_same_end():
    session = set_up(
        Session(Problem("How many?", "47"), CONFIG), {"breakpoint": "step", "value": 1}, ()
    )
    *_, last = drive(session, "run", pair_of(models()), Room())
    assert last.session.pause == "step number 1"
    assert len(last.session.trace.steps) == 1
    *_, last = drive(last.session, "run", pair_of(models()), Room())
    assert last.session.pause == ""
    assert last.session.trace == run_by_hand(models()).trace


def test_setting_a_breakpoint_twice_takes_it_away_and_changes_no_run():
    session = run_by_hand(models())
    once = set_up(session, {"breakpoint": "fallback"}, ())
    assert once.breakpoints == (Breakpoint("fallback"),)
    assert once.lines is session.lines
    assert set_up(once, {"breakpoint": "fallback"}, ()) == session


def test_breakpoints_are_saved_with_the_session():
    session = set_up(run_by_hand(models()), {"breakpoint": "score", "value": 0.25}, ())
    assert from_file(to_file(session)).breakpoints == session.breakpoints


@pytest.mark.parametrize(
    ("kind", "value"),
    [("no such", 1), ("score", "x"), ("score", float("nan")), ("pattern", ""), ("pattern", "(")],
)
def test_a_breakpoint_that_cannot_be_is_one_sentence(kind, value):
    with pytest.raises(UsageError, match="expected"):
        checked(kind, value)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", r"(.*)\1", ".*.*.*.*x", "(?:x+x+)+y"])
def test_a_pattern_that_could_run_away_is_refused(pattern):
    with pytest.raises(UsageError, match="simplify"):
        safe_pattern(pattern)


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_a_sentence(text):
    try:
        point = checked("pattern", text)
    except UsageError:
        return
    assert isinstance(hits([point], TRACE.steps[0], TRACE), list)
    assert words_of(point).startswith(KINDS["pattern"].words)

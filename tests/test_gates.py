"""A step judged by its reward or its grade: the page names that knob, and turning it turns it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.config import DecodeConfig
from specguard_core.lm import Models
from specguard_core.regate import regate
from specguard_core.trace_io import from_json, to_json
from specguard_core.verification import grade_verdict, reward_verdict
from tests.builders import pair, recited
from tests.test_pace import chain_models, run_by_hand
from tests.test_rsd import RIGHT, WRONG
from viz_app.gold import NO_GOLD
from viz_app.requests import looked
from viz_app.session import Look, Session, opened
from viz_app.sight import sight
from viz_app.views.flips import flips
from viz_app.views.gates import gate_of, reached
from viz_app.views.knobs import knobs_view
from viz_app.views.rewards import rewards_view
from viz_app.views.thresholds import thresholds_view
from viz_app.views.timeline import timeline_view
from viz_app.views.why import why_view
from viz_app.whatif import turned, what_if


def graded_models() -> Models:
    models = pair(recited(*WRONG), recited(*RIGHT))
    models.target.grades = {WRONG[0]: 6, "".join(WRONG): 9}  # type: ignore[union-attr]
    return models


def rewarded(**knobs: object) -> Session:
    return run_by_hand(chain_models(), DecodeConfig(strategy="rsd", **knobs))  # type: ignore[arg-type]


def graded(**knobs: object) -> Session:
    return run_by_hand(graded_models(), DecodeConfig(strategy="specreason", max_steps=2, **knobs))  # type: ignore[arg-type]


RUNS = {
    "reward_threshold": rewarded,
    "grade_threshold": graded,
}


def lines_of(session: Session, index: int = 0) -> list[dict]:
    seen = sight(session, Look(session.pace.cursor_at(index)))
    return flips(seen, seen.verdict, 0)


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (rewarded(), ("reward threshold raised to", "0.901", "reward_threshold")),
        (
            rewarded(reward_threshold=0.95),
            ("reward threshold lowered to", "0.900", "reward_threshold"),
        ),
        (graded(), ("grade threshold lowered to", "6.000", "grade_threshold")),
        (graded(grade_threshold=5.0), ("grade threshold raised to", "6.001", "grade_threshold")),
    ],
)
def test_the_line_of_a_threshold_sets_the_knob_that_judged_and_flips_the_step(made, line):
    found = next(one for one in lines_of(made) if one["knob"] is not None)
    assert (found["text"], found["value"], found["knob"]) == line
    assert found["does"]
    config = turned(made.run_config, found["knob"], found["set"])
    assert regate(made.trace, config).first_flip == 0


def test_a_reward_and_a_grade_say_what_they_would_have_to_be():
    texts = {line["text"]: line["value"] for line in (*lines_of(rewarded()), *lines_of(graded()))}
    assert texts["reward lowered to, from 0.900"] == "0.699"
    assert texts["grade raised to, from 6.000"] == "7.000"


@given(st.floats(0, 1), st.floats(0, 9), st.floats(0, 1), st.floats(0, 9))
def test_a_step_just_reaches_the_value_it_is_said_to_reach(reward, grade, at, level):
    by_reward = DecodeConfig(strategy="rsd", reward_threshold=at)
    by_grade = DecodeConfig(strategy="specreason", grade_threshold=level)
    for verdict, config, judge in (
        (reward_verdict(reward, by_reward), by_reward, lambda c: reward_verdict(reward, c)),
        (grade_verdict(grade, by_grade), by_grade, lambda c: grade_verdict(grade, c)),
    ):
        gate = reached(verdict)
        assert gate.knob == gate_of(config).knob
        assert judge(turned(config, gate.knob, gate.value)).accepted


@pytest.mark.parametrize("knob", RUNS)
def test_its_slider_its_line_and_its_curve_are_those_of_the_knob(knob):
    session = RUNS[knob](threshold=0.11, **{knob: 0.5})
    sliders = knobs_view(session, Look(), None, has_rows=False)["sliders"]
    assert [slider["key"] for slider in sliders] == [knob]
    assert sliders[0]["off"] == ""
    gate = timeline_view(session, Look())["gate"]
    assert (gate["knob"], gate["threshold_text"]) == (knob, "0.50")
    assert rewards_view(session, session, Look())["curve"]["threshold_text"] == "0.50"


@pytest.mark.parametrize("knob", RUNS)
def test_turning_it_judges_the_recorded_run_again_at_once(knob):
    session = RUNS[knob](**{knob: 0.1})
    look = looked(session, Look(), {"knob": knob, "value": 0.95 if "reward" in knob else 9.01})
    overlay = what_if(session.trace, look.knobs, None)
    assert overlay is not None and overlay.first_flip == 0
    assert timeline_view(session, look, overlay)["gate"]["turned"]


def test_all_thresholds_of_rewards_are_those_of_their_own_knob():
    session = rewarded(threshold=0.11)
    view = thresholds_view(session, Look(tab="thresholds"), NO_GOLD)
    assert (view["knob"], view["run"], view["n"], view["n_runs"]) == ("reward_threshold", 0.7, 2, 1)
    there = looked(session, Look(), {"knob": view["knob"], "value": 0.85})
    assert thresholds_view(session, there, NO_GOLD)["told"][0]["text"] == "1 of 2 steps accepted"


def test_the_digits_of_a_grade_stand_beside_its_sum():
    session = graded()
    look = Look(session.pace.cursor_at(0))
    whole = why_view(sight(session, look), look)
    # A grade has its own scale: no calibration is missing.
    assert whole["uncalibrated"] is False
    view = whole["digits"]
    assert [bar["text"] for bar in view["bars"]] == ["0.010"] * 6 + ["0.910"] + ["0.010"] * 3
    assert [n for n, bar in enumerate(view["bars"]) if bar["likeliest"]] == [6]
    assert [n for n, bar in enumerate(view["bars"]) if bar["enough"]] == [7, 8, 9]
    assert view["sentence"] == "0.030 on digits from 7 on, 0.000 on no digit."


def test_digits_that_a_file_lacks_are_not_recorded_and_elsewhere_there_are_none():
    session = graded()
    data = to_json(session.trace)
    for unit in data["units"]:
        del unit["verdict"]["readings"]["grade"]["digits"]
    older = opened(Session(), from_json(data))
    look = Look(older.pace.cursor_at(0))
    assert why_view(sight(older, look), look)["digits"] == {"absent": "not recorded"}
    for other in (rewarded(), graded(grade_method="logprob")):
        assert why_view(sight(other, look), look)["digits"] is None

"""Branches share their past, keep what happened elsewhere, and survive being saved."""

import json
from dataclasses import replace

import pytest
from sample_traces import coin_trace
from test_session import CONFIG, models, pair_of, run_by_hand

from specguard_core.errors import TraceFileError, UsageError
from specguard_core.trace_io import to_json
from viz_app.branches import chosen, dropped, forced, redrawn, rerun, switched
from viz_app.driving import drive
from viz_app.files import file_name, from_file, to_file
from viz_app.pace import STEPS
from viz_app.requests import departed, set_up
from viz_app.session import MAIN, Look, Problem, Session, opened
from viz_app.views.compare import compare_view
from viz_app.views.tables import log_view, tree_view
from viz_app.work import Room


def gone_on(session: Session, move="run") -> Session:
    *_, last = drive(session, move, pair_of(models()), Room())
    assert last.session.notice is None
    return last.session


def test_a_branch_that_changes_nothing_gives_the_same_run():
    session = run_by_hand(models())
    again = gone_on(rerun(session, 1, CONFIG))
    assert again.current == "re-run 2"
    assert again.trace == session.trace
    assert switched(again, MAIN).trace == session.trace


def test_a_redraw_is_the_next_attempt_and_the_first_run_stands():
    session = run_by_hand(models())
    branch = gone_on(redrawn(session, 0), "step")
    assert branch.trace.units[0].attempt == 1
    assert branch.lines[0] == session.lines[0]


@pytest.mark.parametrize(("force", "source"), [("accept", "draft"), ("fall back", "target")])
def test_a_forced_step_says_so_and_the_verdict_stays_the_rules(force, source):
    session = run_by_hand(models())
    branch = gone_on(forced(session, 0, force), "step")
    step = branch.trace.units[0]
    assert (step.outcome.source, step.outcome.forced) == (source, True)
    assert step.verdict == session.trace.units[0].verdict


def test_another_candidate_is_judged_in_its_own_right():
    session = opened(Session(), coin_trace())
    branch = chosen(session, 2, 1)
    assert branch.history[-1].selection.chosen == 1
    assert len(branch.history) == STEPS.cursor_at(2, "select") + 1
    with pytest.raises(UsageError, match="pick another"):
        chosen(session, 2, 9)


@pytest.mark.parametrize("depart", [redrawn, lambda s, i: forced(s, i, "accept")])
def test_there_is_no_branch_from_where_nothing_is(depart):
    with pytest.raises(UsageError, match=r"step to it first|step it first"):
        depart(Session(), 0)


def test_branches_have_names_of_their_own_and_can_be_deleted():
    session = run_by_hand(models())
    twice = redrawn(switched(redrawn(session, 0), MAIN), 0)
    assert [line.name for line in twice.lines] == [MAIN, "redraw 1", "redraw 1 (2)"]
    fewer = dropped(twice, "redraw 1 (2)")
    assert fewer.current == MAIN
    with pytest.raises(UsageError, match="other than the first"):
        dropped(fewer, MAIN)


def test_a_request_names_the_branch_it_wants():
    session = run_by_hand(models())
    branch, move = departed(session, Look(), {"move": "redraw", "step": 1})
    assert (branch.current, move) == ("redraw 2", "step")
    assert departed(session, Look(), {"move": "run"}) == (session, "run")
    with pytest.raises(UsageError, match="way to go on"):
        departed(session, Look(), {"move": "sideways"})


def test_the_tree_draws_children_under_their_parent():
    session = run_by_hand(models())
    session = redrawn(switched(redrawn(session, 1), MAIN), 0)
    view = tree_view(session)
    assert [(row["name"], row["row"], row["first"]) for row in view["rows"]] == [
        (MAIN, 0, 0),
        ("redraw 2", 1, 1),
        ("redraw 1", 2, 0),
    ]


def test_two_branches_are_compared_step_by_step():
    session = run_by_hand(models())
    assert compare_view(session, Look())["rows"] == []
    branch = gone_on(forced(session, 1, "fall back"))
    view = compare_view(branch, Look())
    assert view["names"] == [MAIN, "fall back 2"]
    assert [row["same"] for row in view["rows"]] == [True, True]
    assert view["rows"][1]["right"]["source"] == "target, forced"
    short = redrawn(session, 1)
    assert compare_view(short, Look())["rows"][1]["right"] is None
    assert compare_view(short, Look(compared="gone"))["names"][0] == MAIN


def test_the_log_tells_every_transition():
    rows = log_view(opened(Session(), coin_trace()), Look())["rows"]
    assert len(rows) == 16
    assert rows[10]["text"] == "refused, 0.409 of 0.70"
    assert rows[11]["text"] == "target kept: Ana is left with 47 - 15 = 32 coins."


def test_a_saved_session_loads_as_it_was():
    session = gone_on(forced(run_by_hand(models()), 0, "fall back"))
    again = from_file(to_file(session))
    assert again.current == session.current
    assert [line.name for line in again.lines] == [line.name for line in session.lines]
    for before, after in zip(session.lines, again.lines, strict=True):
        assert after.history[-1].trace == before.history[-1].trace


def test_a_run_under_way_is_saved_as_stopped_and_goes_on():
    session = gone_on(Session(Problem("How many?", "47"), CONFIG), "step")
    again = from_file(to_file(session))
    assert again.trace.status == "running"
    assert gone_on(again).trace == run_by_hand(models()).trace


def test_a_bare_trace_loads_too():
    text = json.dumps(to_json(coin_trace()))
    assert set_up(Session(), {"file": text}, ()).trace == coin_trace()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "trace"}', "null", '{"a": NaN}'])
def test_a_broken_file_is_one_sentence(text):
    with pytest.raises(TraceFileError, match="expected"):
        from_file(text)


def test_a_file_name_is_one_everywhere():
    session = replace(Session(), problem=Problem("x", None, "../a b"))
    assert file_name(session) == "specguard----a-b.json"

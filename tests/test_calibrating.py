"""Calibrating in the page: for one session, on demand, and never a change of what happened."""

from dataclasses import replace

import pytest
from builders import pair
from sample_traces import calibration, coin_trace

from specguard_core.errors import UsageError
from specguard_core.types import Trace
from viz_app import phases
from viz_app.branches import rerun
from viz_app.calibrating import N_PROBLEMS, Calibrate, calibrate_move, calibrated, told
from viz_app.requests import departed
from viz_app.session import Look, Session, opened
from viz_app.views.knobs import knobs_view
from viz_app.whatif import what_if
from viz_app.work import Job, Loaded, Pair


def bare() -> Trace:
    """The coins as a pair without a calibration would have left them."""
    return replace(coin_trace(), calibration=None)


def knobs(session: Session) -> dict:
    return knobs_view(session, Look(), None, has_rows=False)


def test_a_pair_without_calibration_is_called_so_and_a_calibrated_one_is_not():
    assert "confidence and grounding" in knobs(opened(Session(), bare()))["uncalibrated"]
    assert knobs(opened(Session(), coin_trace()))["uncalibrated"] == ""
    assert knobs(Session())["uncalibrated"] == ""


def test_a_session_s_own_calibration_judges_a_bare_run_and_changes_nothing_in_it():
    session = replace(opened(Session(), bare()), calibration=calibration())
    overlay = what_if(session.trace, None, None, session.calibration)
    recorded = [step.verdict for step in coin_trace().units]
    assert list(overlay.regate.verdicts) == recorded
    assert session.trace == bare()
    assert knobs(session)["uncalibrated"] == ""
    assert knobs(session)["calibrated"] == "calibrated here: 100 problems, 380 steps"
    assert what_if(coin_trace(), None, None, session.calibration) is None


def test_a_rerun_goes_on_with_the_calibration():
    session = replace(opened(Session(), bare()), calibration=calibration())
    after, move = departed(session, Look(), {"move": "rerun", "step": 1})
    assert move == "run"
    assert after.trace.calibration == calibration()
    assert rerun(opened(Session(), coin_trace()), 1, coin_trace().config).trace.calibration


def test_calibrating_shows_its_progress_and_leaves_the_run_as_it_was(monkeypatch):
    def quick(problems, models, config, *, on_problem, should_stop):
        on_problem(len(problems))
        return calibration()

    monkeypatch.setattr(phases, "calibrate", quick)
    session = opened(Session(), bare())
    models = Pair(lambda: Loaded(pair(), None), ("a", "b"))
    models.get()
    frames = calibrated(session, calibrate_move(None), models, Job(), 0.01)
    *_, (after, words) = frames
    assert after.calibration == calibration()
    assert after.history == session.history
    assert words is None
    assert told(None) == ""


def test_the_problems_are_the_shipped_ones_or_a_file_s():
    assert len(calibrate_move(None).problems) == N_PROBLEMS
    own = calibrate_move('{"question": "2 + 2?"}\n')
    assert isinstance(own, Calibrate)
    assert [problem.question for problem in own.problems] == ["2 + 2?"]
    with pytest.raises(UsageError, match="line 1"):
        calibrate_move("no json")

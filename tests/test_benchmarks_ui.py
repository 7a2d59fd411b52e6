"""The page's benchmark without its browser: the run it is made on, and what it says of a figure."""

import pytest

from benchmarks import ui
from benchmarks.long_traces import long_trace
from specguard_core.regate import regate
from specguard_core.trace_io import load_trace, save_trace


@pytest.mark.parametrize("steps", [2, 7])
def test_a_lengthened_run_loads_and_is_as_long_as_was_asked_for(steps, tmp_path):
    trace = long_trace(steps, 30)
    save_trace(trace, tmp_path / "long.json")
    assert load_trace(tmp_path / "long.json") == trace
    assert [len(step.token_ids) for step in trace.steps] == [30] * steps
    for step in trace.steps:
        for token in step.chosen.tokens:
            if token.attribution is not None:
                assert len(token.attribution) == len(trace.context_segment_lengths(step.index))


def test_a_lengthened_run_is_judged_as_it_was_recorded():
    trace = long_trace(7, 30)
    judged = regate(trace, trace.config)
    assert judged.flips == ()
    for step, verdict in zip(trace.steps, judged.verdicts, strict=True):
        assert verdict.score == pytest.approx(step.verdict.score)


def test_a_figure_says_its_goal_and_how_it_grew():
    found = ui.figure("step", [190, 260, 180], "a note", [100, 100])
    assert found.met
    line = ui.shown(found)
    assert "goal <= 200: met" in line
    assert "1.9 x the run of 4 steps (100 ms): below linear" in line
    assert "MISSED" in ui.shown(ui.figure("step", [201]))
    assert "NOT BELOW LINEAR" in ui.shown(ui.figure("step", [1000], short=[100]))


def test_without_a_browser_the_benchmark_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(ui, "browser_path", lambda: None)
    assert ui.main([]) == 2
    assert "install one" in capsys.readouterr().out

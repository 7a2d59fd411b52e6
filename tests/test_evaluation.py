"""Evaluations and calibrations: figures, files that go on, and problem files that are none."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specguard_core.backends.scripted import ScriptedModel, scripted_info
from specguard_core.commands.briefs import trace_brief
from specguard_core.errors import ModelError
from specguard_core.metrics import block_accept_rate
from specguard_core.results import result_of, summarise
from specguard_core.trace_io import load_calibration, load_trace
from tests.bench import PROBLEM, Bench, Run, one_sentence, renamed
from tests.block_models import LONG, blocks, random_pair
from tests.builders import run as decoded


@pytest.fixture
def bench() -> Bench:
    return Bench()


def _problems(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "problems.jsonl"
    given = lines or (
        json.dumps({"id": "a", "question": PROBLEM, "answer": "10", "level": 1}),
        "",
        json.dumps({"id": "b", "question": PROBLEM, "answer": 11}),
        json.dumps({"question": "Ben has 4 pears.", "answer": "4"}),
    )
    path.write_text("\n".join(given))
    return path


def evaluate(bench: Bench, tmp_path: Path, *more: str) -> Run:
    fixed = ("--set", "normalisation=fixed", *more)
    return bench("eval", "--problems", tmp_path / "problems.jsonl", "--out", tmp_path / "r", *fixed)


def test_eval_writes_the_figures_with_their_intervals(bench: Bench, tmp_path: Path) -> None:
    _problems(tmp_path)
    run = evaluate(bench, tmp_path, "--limit", "2")
    assert run.code == 0
    data = json.loads((tmp_path / "r").read_text())
    assert set(data) == {"config", "summary", "problems"}
    accuracy = data["summary"]["accuracy"]
    assert accuracy["value"] == 0.5
    assert accuracy["low"] == pytest.approx(0.0945, abs=1e-4)
    assert accuracy["high"] == pytest.approx(0.9055, abs=1e-4)
    assert data["summary"]["fallback_rate"] == pytest.approx(1 / 3)
    assert data["summary"]["accept_rate"] == pytest.approx(2 / 3)
    assert data["summary"]["tokens"]["target_written"] > 0
    assert set(data["summary"]["seconds"]) == set(data["summary"]["tokens"])
    assert [(p["id"], p["correct"]) for p in data["problems"]] == [("a", True), ("b", False)]
    assert "[1/2] a right · accuracy 1.000" in run.err
    assert "accuracy 0.500 [0.095, 0.905] of 2 problems" in run.out
    assert json.loads(evaluate(bench, tmp_path, "--limit", "2", "--json").out) == data


def test_what_blocks_took_is_in_results_and_briefs() -> None:
    trace = replace(decoded(random_pair(), blocks(max_new_tokens=30, **LONG)), gold="1")
    one, brief = result_of(trace), trace_brief(trace)
    assert (one.n_steps, one.n_fallback, one.n_blocks) == (0, 0, len(trace.blocks))
    assert one.n_accepted / one.n_judged == block_accept_rate([trace])
    assert summarise([one]).accept_rate == brief["block_accept_rate"] == block_accept_rate([trace])
    assert summarise([one]).fallback_rate is None
    cost = trace.cost
    for found in (one.target_passes, summarise([one]).target_passes, brief["target_passes"]):
        assert found == cost.target_passes > 0
    for found in (one.target_positions, summarise([one]).target_positions):
        assert found == brief["target_positions"] == cost.target_positions
    assert len(brief["blocks"]) == one.n_blocks
    assert [block["accepted"] for block in brief["blocks"]] == [b.n_accepted for b in trace.blocks]


def test_eval_goes_on_where_it_was_stopped(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _problems(tmp_path)
    straight = evaluate(bench, tmp_path)
    assert straight.code == 0
    (tmp_path / "r").rename(tmp_path / "straight")

    ordinary = ScriptedModel.sample_steps

    def sample_steps(self: ScriptedModel, *given: Any, **keywords: Any) -> Any:
        if self is bench.target and self.n_calls == 1:
            raise KeyboardInterrupt
        return ordinary(self, *given, **keywords)

    bench.draft.n_calls = bench.target.n_calls = 0
    with monkeypatch.context() as patched:
        patched.setattr(ScriptedModel, "sample_steps", sample_steps)
        run = evaluate(bench, tmp_path)
    assert run.code == 1
    assert run.err.splitlines()[-1].startswith("error: stopped; finished problems are in")
    assert [p["id"] for p in json.loads((tmp_path / "r").read_text())["problems"]] == ["a"]
    run = evaluate(bench, tmp_path)
    assert run.code == 0
    assert "] a " not in run.err

    def figures(path: Path) -> Any:
        data = json.loads(path.read_text())
        del data["summary"]["seconds"]
        for problem in data["problems"]:
            del problem["seconds"]
        return data

    assert figures(tmp_path / "r") == figures(tmp_path / "straight")


def test_problems_decoded_together_have_the_results_of_one_by_one(
    bench: Bench, tmp_path: Path
) -> None:
    _problems(tmp_path)
    results, calls = [], []
    for size in ("1", "2"):
        bench.draft.n_calls = 0
        assert evaluate(bench, tmp_path, "--batch-size", size).code == 0
        data = json.loads((tmp_path / "r").read_text())
        (tmp_path / "r").unlink()
        results.append([p | {"seconds": None} for p in data["problems"]])
        calls.append(bench.draft.n_calls)
    assert results[0] == results[1]
    assert calls[1] < calls[0]


def test_eval_goes_on_from_a_file_that_is_older_than_a_knob(bench: Bench, tmp_path: Path) -> None:
    _problems(tmp_path)
    assert evaluate(bench, tmp_path).code == 0
    file = tmp_path / "r"
    before = json.loads(file.read_text())
    for name in ("enable_thinking", "reward_threshold"):
        del before["config"]["decode"][name]
    file.write_text(json.dumps(before))
    bench.draft.n_calls = 0
    assert evaluate(bench, tmp_path).code == 0
    assert bench.draft.n_calls == 0
    refused = evaluate(bench, tmp_path, "enable_thinking=on").err
    assert "differ by their settings: name another file" in refused


def test_eval_refuses_a_file_of_another_config_or_another_problem(
    bench: Bench, tmp_path: Path
) -> None:
    _problems(tmp_path)
    assert evaluate(bench, tmp_path).code == 0
    before = (tmp_path / "r").read_bytes()
    run = evaluate(bench, tmp_path, "threshold=0.5")
    assert run.code == 2
    assert one_sentence(run)
    assert "differ by their settings: name another file" in run.err
    bench.target = renamed(bench.target, "larger")
    assert "differ by their target" in evaluate(bench, tmp_path).err
    bench.target = renamed(bench.target, "large")
    _problems(tmp_path, json.dumps({"id": "a", "question": PROBLEM, "answer": "12"}))
    run = evaluate(bench, tmp_path)
    assert run.code == 2
    assert "expected problem a as" in run.err
    assert (tmp_path / "r").read_bytes() == before


@pytest.mark.parametrize("text", ["", "{}", '{"config": {}, "summary": {}, "problems": []}'])
def test_a_file_that_holds_no_results_is_never_written_over(
    text: str, bench: Bench, tmp_path: Path
) -> None:
    _problems(tmp_path)
    (tmp_path / "r").write_text(text)
    run = evaluate(bench, tmp_path)
    assert run.code == 2
    assert one_sentence(run)
    assert (tmp_path / "r").read_text() == text


def test_a_problem_that_fails_counts_as_wrong_and_is_tried_again(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _problems(tmp_path)
    ordinary = ScriptedModel.sample_steps

    def sample_steps(self: ScriptedModel, *given: Any, **keywords: Any) -> Any:
        if self is bench.target and self.n_calls == 1:
            self.n_calls += 1
            raise ModelError("expected memory, got none: free some")
        return ordinary(self, *given, **keywords)

    with monkeypatch.context() as patched:
        patched.setattr(ScriptedModel, "sample_steps", sample_steps)
        run = evaluate(bench, tmp_path)
    assert run.code == 1
    assert "1 problems failed and count as wrong; problem b: expected memory" in run.err
    assert [p["id"] for p in json.loads((tmp_path / "r").read_text())["problems"]][:2] == ["a", "b"]
    run = evaluate(bench, tmp_path)
    assert run.code == 0
    assert "[3/3] b wrong" in run.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "line 2: expected a JSON object, got text"),
        ("[1]", "line 2: expected a JSON object, got list"),
        ('{"answer": "3"}', "line 2: expected a question"),
        ('{"question": "  ", "answer": "3"}', "line 2: expected a problem with some text"),
        ('{"question": "x", "answer": ["3"]}', "line 2: expected an answer as text"),
        ('{"question": "x", "answer": "3", "id": {}}', "line 2: expected an id"),
        ('{"question": "x", "answer": "3", "id": "a"}', "line 2: expected an id of its own"),
        ('{"question": "x", "answer": NaN}', "line 2: expected a JSON object"),
        ('{"question": "x"}', "expected an answer to problem 2"),
    ],
)
def test_a_bad_line_of_a_problem_file_is_named_by_its_number(
    line: str, said: str, bench: Bench, tmp_path: Path
) -> None:
    _problems(tmp_path, json.dumps({"id": "a", "question": PROBLEM, "answer": "10"}), line)
    run = evaluate(bench, tmp_path)
    assert run.code == 2
    assert one_sentence(run)
    assert said in run.err
    assert not (tmp_path / "r").exists()


def test_a_problem_too_long_for_the_context_fails_alone(bench: Bench, tmp_path: Path) -> None:
    long = json.dumps({"id": "long", "question": "word " * 2000, "answer": "1"})
    _problems(tmp_path, long, json.dumps({"id": "a", "question": PROBLEM, "answer": "10"}))
    run = evaluate(bench, tmp_path)
    assert run.code == 1
    assert "problem long: expected a prompt that leaves room" in run.err
    assert json.loads((tmp_path / "r").read_text())["summary"]["accuracy"]["value"] == 0.5


def test_calibrate_measures_the_readings_and_decode_uses_them(bench: Bench, tmp_path: Path) -> None:
    rows = [{"question": f"Ann has {n} apples.", "answer": str(n)} for n in range(1, 15)]
    _problems(tmp_path, *map(json.dumps, rows))
    problems, path = tmp_path / "problems.jsonl", tmp_path / "c.json"
    bench.draft = ScriptedModel(info=scripted_info("small"))
    measured = bench("calibrate", "--problems", problems, "--out", path)
    assert measured.code == 0
    calibration = load_calibration(path)
    readings = {"confidence", "grounding", "target_confidence", "target_grounding"}
    assert [set(table.bounds) for table in calibration.tables] == [readings] * 4
    assert calibration.n_problems == 14
    ways = [table.settings["signal_tokens"] for table in calibration.tables]
    assert ways == ["all", "numeric", "equation", "setup"]
    assert all(table.settings["rollout_layers"] == 3 for table in calibration.tables)
    assert all(b.low < b.high for table in calibration.tables for b in table.bounds.values())
    again = bench("calibrate", "--problems", problems, "--out", tmp_path / "again.json", "--json")
    assert json.loads(again.out)["n_steps"] == calibration.n_steps
    assert load_calibration(tmp_path / "again.json") == calibration
    run = bench("decode", "--problem", PROBLEM, "--calibration", path, "--out", tmp_path / "t")
    assert run.code == 0
    assert "uncalibrated" not in run.out
    trace = load_trace(tmp_path / "t")
    assert trace.calibration == calibration
    verdict = trace.units[0].verdict
    assert verdict is not None
    assert verdict.readings["grounding"].basis == "calibrated"
    bench.target = renamed(bench.target, "other")
    other = bench("decode", "--problem", PROBLEM, "--calibration", path)
    assert other.code == 2
    assert "expected a calibration of small + other" in other.err
    assert "uncalibrated: confidence, grounding" in bench("decode", "--problem", PROBLEM).out


def test_a_calibration_of_too_few_steps_is_refused(bench: Bench, tmp_path: Path) -> None:
    _problems(tmp_path)
    run = bench("calibrate", "--problems", tmp_path / "problems.jsonl", "--out", tmp_path / "c")
    assert run.code == 2
    assert one_sentence(run)
    assert "at least 20 steps" in run.err
    assert not (tmp_path / "c").exists()


def test_the_draft_folder_may_hold_its_own_calibration(bench: Bench, tmp_path: Path) -> None:
    rows = [{"question": f"Ann has {n} apples.", "answer": str(n)} for n in range(1, 12)]
    _problems(tmp_path, *map(json.dumps, rows))
    info = replace(scripted_info("small"), source=str(tmp_path))
    bench.draft = ScriptedModel(info=info)
    out = tmp_path / "calibration.json"
    assert bench("calibrate", "--problems", tmp_path / "problems.jsonl", "--out", out).code == 0
    decode = ("decode", "--problem", PROBLEM, "--preset", "cpu")
    assert "uncalibrated" not in bench(*decode).out
    assert "uncalibrated" in bench(*decode, "--calibration", "none").out
    bench.target = renamed(bench.target, "other")
    assert "uncalibrated" in bench(*decode).out

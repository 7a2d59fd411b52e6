"""The command line in process, on scripted models: what it prints, saves, refuses and survives."""

import errno
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specguard_core import files
from specguard_core.backends.scripted import ScriptedModel, ScriptedStep, scripted_info
from specguard_core.cli import main
from specguard_core.commands.console import Console, visible
from specguard_core.commands.shell import Shell
from specguard_core.errors import Cancelled, ModelError, SpecGuardError
from specguard_core.lm import Models
from specguard_core.trace_io import load_evidence, load_trace, save_session, save_trace
from tests.any_traces import full_session, full_trace
from tests.bench import FIRST, LAST, PROBLEM, RIGHT, WRONG, Bench, Run, decode, one_sentence


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_decode_prints_each_step_with_score_and_verdict_and_saves_the_trace(
    bench: Bench, tmp_path: Path
) -> None:
    run = decode(bench, "--gold", "10", "--out", tmp_path / "t.json")
    assert (run.code, run.err) == (0, "")
    assert "accepted   score 1.00 >= 0.65" in run.out
    assert "fallback   score 0.03 <  0.65  confidence 0.10 (-9.00 nat) · grounding" in run.out
    assert "- 5 * 2 = 11." in run.out
    assert "+ 5 * 2 = 10." in run.out
    assert "answer: 10 (right answer: 10)" in run.out
    trace = load_trace(tmp_path / "t.json")
    assert trace.status == "finished"
    assert trace.text == FIRST + RIGHT + LAST
    assert [step.outcome.source for step in trace.units] == ["draft", "target", "draft"]


def test_decode_is_repeated_exactly_by_its_seed(bench: Bench, tmp_path: Path) -> None:
    traces = []
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        bench.draft = ScriptedModel(info=scripted_info("small"))
        run = decode(bench, "threshold=0", "--seed", str(seed), "--out", tmp_path / name)
        assert run.code == 0
        traces.append(load_trace(tmp_path / name))
    assert traces[0] == traces[1]
    assert traces[0].text != traces[2].text


def test_decode_reads_the_problem_from_standard_input(bench: Bench) -> None:
    bench.stdin = PROBLEM
    run = bench("decode", "--problem", "-")
    assert run.code == 0
    assert PROBLEM in run.out


def test_only_the_models_that_a_strategy_calls_are_loaded(bench: Bench) -> None:
    for strategy in ("draft_only", "target_only", "specguard"):
        arguments = (
            "--strategy",
            strategy,
            "--draft",
            "d",
            "--target",
            "t",
            "--set",
            "max_steps=1",
        )
        assert decode(bench, *arguments).code == 0
    assert bench.loaded == [("d", None), (None, "t"), ("d", "t")]


def test_colours_are_for_terminals_and_the_words_stay_the_same(bench: Bench) -> None:
    plain = decode(bench).out
    bench.colour = True
    coloured = decode(bench).out
    assert "\x1b[" not in plain
    assert "\x1b[36maccepted" in coloured
    assert "\x1b[33mfallback" in coloured


def test_progress_is_drawn_on_a_live_error_stream_and_wiped(bench: Bench) -> None:
    ticks = iter(range(1_000_000))
    bench.live, bench.clock = True, lambda: float(next(ticks))
    run = decode(bench)
    assert "step 1: drafting · 1 tokens" in run.err
    assert "step 2: the target writes · 1 tokens" in run.err
    assert run.err.endswith("\r")
    assert "drafting" not in run.out


def test_a_model_cannot_drive_the_terminal(bench: Bench, tmp_path: Path) -> None:
    bench.draft = ScriptedModel({"": [ScriptedStep("\x1b[2Jgone\r\u202e \\boxed{1}", -0.1)]})
    run = decode(bench, "--strategy", "draft_only", "--out", tmp_path / "t.json")
    assert "\x1b" not in run.out
    assert "\u241b[2Jgone\u240d\ufffd" in run.out
    assert "\x1b[2J" in load_trace(tmp_path / "t.json").text
    assert visible("né 😀 👩\u200d👩 日本\n") == "né 😀 👩\u200d👩 日本\n"


def test_json_is_for_machines_and_has_no_other_text(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    decoded = json.loads(decode(bench, "--json", "--out", path).out)
    assert (decoded["status"], decoded["answer"]) == ("finished", "10")
    assert [step["source"] for step in decoded["steps"]] == ["draft", "target", "draft"]
    assert decoded["steps"][1]["refused"] == WRONG
    assert json.loads(bench("show", path, "--json").out) == decoded
    (regated,) = json.loads(bench("regate", path, "--set", "threshold=0", "--json").out)
    assert (regated["flips"], regated["first_flip"]) == ([1], 1)


def test_show_prints_what_decode_printed(bench: Bench, tmp_path: Path) -> None:
    decoded = decode(bench, "--out", tmp_path / "t.json").out.splitlines()
    shown = bench("show", tmp_path / "t.json").out.splitlines()
    assert shown == [line for line in decoded if not line.startswith("saved in")]


def test_show_names_the_branches_of_a_session(bench: Bench, tmp_path: Path) -> None:
    save_session(full_session(), tmp_path / "s.json")
    run = bench("show", tmp_path / "s.json")
    assert run.code == 0
    assert "branch b; also main" in run.out
    assert "edited" in run.out


def test_regate_lists_the_flips_of_any_number_of_traces(bench: Bench, tmp_path: Path) -> None:
    for name in ("a", "b"):
        decode(bench, "--out", tmp_path / name)
    run = bench("regate", tmp_path / "a", tmp_path / "b", "--set", "threshold=0")
    assert run.code == 0
    assert run.out.count("refused -> accepted") == 2
    assert "2 of 6 judged steps flip" in run.out
    strict = bench("regate", tmp_path / "a", "--set", "threshold=1.01").out
    assert strict.count("accepted -> refused") == 2
    assert strict.count("stale") == 1


def test_regate_reports_a_trace_it_cannot_judge_and_goes_on(bench: Bench, tmp_path: Path) -> None:
    decode(bench, "--out", tmp_path / "a")
    run = bench("regate", tmp_path / "none", tmp_path / "a", "--set", "threshold=0")
    assert run.code == 2
    assert one_sentence(run)
    assert "1 of 3 judged steps flip" in run.out


def test_rollout_knobs_are_turned_where_the_evidence_was_saved(
    bench: Bench, tmp_path: Path
) -> None:
    path = tmp_path / "t.json"
    decode(bench, "--out", path)
    run = bench("regate", path, "--set", "residual=false")
    assert run.code == 1
    assert "attention rows" in run.err
    decode(bench, "--out", path, "--evidence")
    assert load_evidence(tmp_path / "t.evidence.npz").size_bytes > 0
    assert bench("regate", path, "--set", "residual=false").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "arguments are required"),
        (("dekode",), "invalid choice: 'dekode'"),
        (("decode",), "--problem"),
        (("decode", "--problem"), "expected one argument"),
        (("decode", "--problem", ""), "empty"),
        (("decode", "--problem", " \n\t "), "empty"),
        (("decode", "--problem", "\x00\x07\x1b"), "empty"),
        (("decode", "--problem", "x" * 100_000), "at most 20,000 characters, got 100,000"),
        (("decode", "--problem", "x", "--set", "colour=red"), "choose out of strategy"),
        (("decode", "--problem", "x", "--set", "threshold"), "name=value"),
        (("decode", "--problem", "x", "--set", "threshold=2"), "from 0 to 1.01, got 2"),
        (("decode", "--problem", "x", "--set", "threshold=nan"), "from 0 to 1.01"),
        (("decode", "--problem", "x", "--set", "n_candidates=0"), "from 1 to 64"),
        (("decode", "--problem", "x", "--set", "n_candidates=two"), "a whole number"),
        (("decode", "--problem", "x", "--strategy", "magic"), "specguard, draft_only, target_only"),
        (("decode", "--problem", "x", "--preset", "fast"), "paper, cpu, best"),
        (("decode", "--problem", "x", "--seed", "-1"), "seed from 0"),
        (("decode", "--problem", "x", "--seed", "abc"), "seed to be a whole number"),
        (("decode", "--problem", "x", "--out", "/none/such/t.json"), "make /none/such"),
        (("decode", "--problem", "x", "--out", "/"), "the folder /"),
        (("decode", "--problem", "x", "--calibration", "/none.json"), "no such file"),
        (("decode", "--problem", "x", "--evidence"), "--out beside --evidence"),
        (("show", "/none.json"), "no such file"),
        (("show", "/"), "a folder"),
        (("eval", "--problems", "/none", "--out", "r.json"), "no such file"),
        (("eval", "--problems", "p", "--out", "r.json", "--limit", "0"), "from 1, got '0'"),
        (("regate", "t.json"), "--set"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence_before_any_model_is_loaded(
    arguments: tuple[str, ...], said: str, bench: Bench
) -> None:
    run = bench(*arguments)
    assert run.code == 2
    assert one_sentence(run)
    assert said in run.err
    assert bench.loaded == [] or "--calibration" in arguments


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"kind": "trace", "schema_version": 99}'])
def test_a_broken_or_foreign_trace_is_told_in_one_sentence(
    text: str, bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_text(text)
    for command in (("show",), ("regate", "--set", "threshold=0.5")):
        run = bench(command[0], tmp_path / "t.json", *command[1:])
        assert run.code == 2
        assert one_sentence(run)


def test_control_characters_leave_a_problem_and_its_text_stays(
    bench: Bench, tmp_path: Path
) -> None:
    run = bench("decode", "--problem", f"\x00{PROBLEM}\x1b[31m", "--out", tmp_path / "t.json")
    assert run.code == 0
    assert load_trace(tmp_path / "t.json").problem == f"{PROBLEM}[31m"


def _interrupt_at(n_tokens: int) -> Callable[..., Any]:
    """sample_steps that a person interrupts after some tokens of the third step."""
    ordinary = ScriptedModel.sample_steps

    def sample_steps(self: ScriptedModel, requests: Any, **keywords: Any) -> Any:
        self_calls = self.n_calls

        def on_token(n: int) -> None:
            if self_calls == 2 and n == n_tokens:
                raise KeyboardInterrupt
            keywords["on_token"](n)

        return ordinary(self, requests, **{**keywords, "on_token": on_token})

    return sample_steps


@pytest.mark.parametrize("out", [True, False])
def test_interrupting_a_decode_saves_the_whole_steps(
    out: bool, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptedModel, "sample_steps", _interrupt_at(3))
    path = tmp_path / "t.json"
    run = decode(bench, *(("--out", path) if out else ()))
    assert run.code == 1
    assert one_sentence(run)
    assert "stopped after 2 whole steps" in run.err
    assert path.exists() == out
    if out:
        assert str(path) in run.err
        trace = load_trace(path)
        assert (trace.status, trace.text) == ("stopped", FIRST + RIGHT)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModelError("expected memory, got none: free some"), "expected memory"),
        (RuntimeError("CUDA\nsaid no"), "unexpected RuntimeError: CUDA said no"),
        (Cancelled(), "stopped after 2 whole steps"),
    ],
)
def test_a_run_that_fails_saves_the_whole_steps_and_says_why(
    error: Exception,
    said: str,
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ordinary = ScriptedModel.sample_steps

    def sample_steps(self: ScriptedModel, *given: Any, **keywords: Any) -> Any:
        if self is bench.draft and self.n_calls == 2:
            raise error
        return ordinary(self, *given, **keywords)

    monkeypatch.setattr(ScriptedModel, "sample_steps", sample_steps)
    run = decode(bench, "--out", tmp_path / "t.json")
    assert run.code == 1
    assert one_sentence(run)
    assert said in run.err
    trace = load_trace(tmp_path / "t.json")
    assert trace.text == FIRST + RIGHT
    assert trace.status == ("stopped" if isinstance(error, Cancelled) else "failed")


def test_a_full_disk_is_told_in_one_sentence_and_the_old_file_stays(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    save_trace(full_trace(), path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    run = decode(bench, "--out", path)
    assert run.code == 1
    assert one_sentence(run)
    assert "no space left on device; the old file is as it was" in run.err
    monkeypatch.undo()
    assert load_trace(path) == full_trace()
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_that_goes_away_does_not_end_the_work(bench: Bench, tmp_path: Path) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    console = Console(Closed(), io.StringIO(), False, False, time.perf_counter)
    arguments = ["decode", "--problem", PROBLEM, "--out", str(tmp_path / "t.json")]
    assert main(arguments, Shell(console, io.StringIO(), bench.load)) == 0
    assert load_trace(tmp_path / "t.json").status == "finished"


def test_help_lists_every_command_and_every_knob(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    for command in ("decode", "show", "eval", "compare", "regate", "calibrate", "models"):
        assert command in listed
    assert main(["decode", "--help"]) == 0
    listed = capsys.readouterr().out
    assert (
        "threshold              accept a step that scores at least this (0.7; 0 to 1.01)" in listed
    )


def test_a_run_that_meets_the_context_limit_says_so_and_never_goes_past_it(
    bench: Bench, tmp_path: Path
) -> None:
    info = scripted_info("small", context_length=190)
    bench.draft = ScriptedModel({"": [ScriptedStep("word " * 100, -0.1)]}, info=info)
    run = decode(bench, "--strategy", "draft_only", "--out", tmp_path / "t.json")
    assert run.code == 0
    assert "context_limit after 1 step" in run.out
    trace = load_trace(tmp_path / "t.json")
    assert len(trace.context_ids) == 190
    assert trace.units[0].output.stop == "context_limit"


def test_every_error_of_the_tree_has_its_exit_code(bench: Bench) -> None:
    def failing(error: SpecGuardError) -> Run:
        def load(*_: Any, **__: Any) -> Models:
            raise error

        bench.load = load  # type: ignore[method-assign]  # a bench whose models do not load
        return decode(bench)

    assert failing(ModelError("expected a model folder, got none: name one")).code == 1
    assert failing(SpecGuardError("expected luck, got none: try again")).code == 1

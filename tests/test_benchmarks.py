"""The benchmarks run and say what they found. What they find depends on the machine: no test
judges a time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import blocks, context, engine, strategies
from benchmarks.pairing import Rounds, in_turn
from benchmarks.speed import BENCHMARKS
from specguard_core import bundled
from specguard_core.backends.placement import computes_in_bf16

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("subject", ["real", "bundled"])
def test_every_benchmark_prints_a_ratio_beside_its_goal(
    subject: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert engine.main(["--toy", "--subject", subject, "--only", *BENCHMARKS]) == 0
    figures = [line for line in capsys.readouterr().out.splitlines() if "goal <= " in line]
    in_fp32 = [name for name in BENCHMARKS if name != "layout"]
    assert [line.split()[0] for line in figures] == in_fp32
    assert all(line.endswith((": met", ": MISSED")) for line in figures)


@pytest.mark.skipif(not computes_in_bf16(), reason="this processor does not compute in bf16")
def test_two_layouts_of_weights_are_timed_on_the_same_logits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["--toy", "--subject", "real", "--dtype", "bfloat16", "--only", "layout"]
    assert engine.main(asked) == 0
    assert "the same logits" in capsys.readouterr().out


def test_memory_is_measured_in_two_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert engine.main(["--toy", "--subject", "real", "--only", "memory", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (figure,) = report["results"]
    assert figure["medians"].keys() == {"grounding", "eager"}
    assert 0 <= figure["ratio"]["value"] < 1
    assert report["machine"].keys() >= {"threads", "OMP_WAIT_POLICY", "load", "torch"}


def test_cache_and_rows_grow_by_the_same_bytes_for_each_token_of_context(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [str(bundled.DRAFT), "--lengths", "256", "512", "768", "--tokens", "4", "--json"]
    assert context.main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    for name in ("cache", "rows"):
        sizes = [at[name] for at in found]
        assert sizes[2] - sizes[1] == sizes[1] - sizes[0] > 0
    assert context.row(found[-1]).startswith("| 768 | ")


@pytest.mark.parametrize("only", ["bundled", "real", "alone"])
def test_speculative_decoding_is_timed_against_others_on_the_same_tokens(
    only: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert blocks.main(["--toy", "--rounds", "1", "--only", only]) == 0
    figures = [line for line in capsys.readouterr().out.splitlines() if "goal <= 1: " in line]
    assert len(figures) == 1


def test_strategies_are_compared_part_by_part_and_the_files_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--part", "times", "--limit", "1", "--out", str(tmp_path / "found")]
    assert strategies.main(arguments) == 0
    out = capsys.readouterr().out
    assert "| specguard@best |" in out
    assert strategies.main(arguments) == 0
    assert capsys.readouterr().out == out
    assert [file.name for file in (tmp_path / "found").iterdir()] == ["times.json"]


def test_every_row_of_every_part_is_a_variant_with_one_way_of_the_target_to_sample() -> None:
    for part in strategies.PARTS:
        configs = strategies.configs_of(part).values()
        assert len({(c.target_temperature, c.target_top_p, c.target_top_k) for c in configs}) == 1
        assert any(config.strategy == "target_only" for config in configs)


@pytest.mark.parametrize("name", ["engine", "pair_quality", "strategies", "blocks"])
def test_a_benchmark_runs_as_its_first_lines_say(name: str, tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, script, "--help"], check=False, cwd=tmp_path, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_sides_take_turns_and_a_warm_up_does_not_count() -> None:
    log: list[str] = []

    def side(name: str) -> float:
        log.append(name)
        return float(len(log))

    rounds = in_turn({name: lambda name=name: side(name) for name in "ab"}, 2, warmups=1)
    assert "".join(log) == "ba" + "ab" + "ba"
    assert rounds.seconds == {"a": (3.0, 6.0), "b": (4.0, 5.0)}


def test_a_ratio_is_taken_within_each_round() -> None:
    rounds = Rounds({"new": (1.0, 20.0, 3.0), "old": (2.0, 40.0, 4.0)})
    ratio = rounds.ratio("new", "old")
    assert (ratio.value, ratio.low, ratio.high) == (0.5, 0.5, 0.75)
    assert rounds.medians() == {"new": 3.0, "old": 4.0}

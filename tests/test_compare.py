"""Strategies side by side: what the table says, in which order runs are made, what is refused."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core import bundled
from specguard_core.backends.scripted import ScriptedModel
from specguard_core.comparison import against, compare, load_comparison
from specguard_core.config import STRATEGY_NAMES, DecodeConfig
from specguard_core.errors import ConfigError, ModelError
from specguard_core.evaluation import run_problem, run_together
from specguard_core.presets import ABLATIONS, PRESETS, changed, preset, variants
from specguard_core.problem_files import FileProblem, read_problems
from specguard_core.results import ProblemResult, failed_result
from tests.bench import PROBLEM, Bench, Run, one_sentence
from tests.block_models import LONG, blocks, random_pair
from tests.builders import pair

ROWS = "specguard,draft_only"


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.jsonl"
    rows = [{"id": "a", "question": PROBLEM, "answer": "10"}]
    rows.append({"id": "b", "question": PROBLEM + " How many?", "answer": "10"})
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def beside(bench: Bench, problems: Path, strategies: str = ROWS, *more: str) -> Run:
    out = problems.with_name("table.json")
    fixed = ("--set", "normalisation=fixed", *more)
    return bench(
        "compare", "--problems", problems, "--strategies", strategies, "--out", out, *fixed
    )


# The table


def test_each_row_stands_beside_the_target_alone(bench: Bench, problems: Path) -> None:
    run = beside(bench, problems)
    assert run.code == 0
    table = load_comparison(problems.with_name("table.json"))
    rows = {row.name: row for row in table.rows}
    assert list(rows) == ["target_only", "specguard", "draft_only"]
    alone, guarded, draft = rows.values()
    assert (guarded.against, draft.against) != (None, None)
    assert guarded.summary.fallback_rate == pytest.approx(1 / 3)
    assert draft.summary.target_passes == draft.summary.target_positions == 0
    assert draft.against.written == 0.0
    assert alone.against.written == alone.against.passes == alone.against.positions == 1.0
    assert (alone.against.points, alone.against.p_value) == (0.0, 1.0)


def test_the_tables_are_markdown_and_every_row_is_as_wide_as_its_head(
    bench: Bench, problems: Path
) -> None:
    lines = beside(bench, problems).out.splitlines()
    assert lines[0] == "2 problems of problems.jsonl"
    tables = [block.split("\n") for block in "\n".join(lines[2:]).split("\n\n")]
    assert len(tables) == 3
    for head, rule, *rows in tables:
        assert set(rule) == {"|", "-"}
        assert {line.count("|") for line in (rule, *rows)} == {head.count("|")}
        assert [row.split()[1] for row in rows] == ["target_only", "specguard", "draft_only"]
    assert json.loads(beside(bench, problems, ROWS, "--json").out)["rows"][1]["name"] == "specguard"


def test_every_strategy_does_a_problem_before_any_does_the_next(
    bench: Bench, problems: Path
) -> None:
    told = re.findall(r"\[(\d)/2\] (\w) (\w+) (?:right|wrong)", beside(bench, problems).err)
    names = ("target_only", "specguard", "draft_only")
    assert told == [("1", "a", name) for name in names] + [("2", "b", name) for name in names]


def test_a_target_with_other_knobs_is_what_the_rows_are_compared_with(
    bench: Bench, problems: Path
) -> None:
    lines = beside(bench, problems, "draft_only,target_only@seed=1").out.splitlines()
    rows = [line for line in lines[2 : lines.index("", 2)] if "_only" in line]
    assert [row.split("|")[3].strip() == "-" for row in rows] == [False, True]
    assert load_comparison(problems.with_name("table.json")).baseline == "target_only@seed=1"


def result(name: str, correct: bool) -> ProblemResult:
    return replace(failed_result(name, "?", "1", "x"), correct=correct)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_gains_less_losses_are_the_difference_of_the_accuracies(
    pairs: list[tuple[bool, bool]],
) -> None:
    ours = [result(str(i), one) for i, (one, _) in enumerate(pairs)]
    theirs = [result(str(i), other) for i, (_, other) in enumerate(pairs)]
    both = against(ours, theirs)
    assert both is not None
    share = (sum(one for one, _ in pairs) - sum(other for _, other in pairs)) / len(pairs)
    assert both.points == pytest.approx(share)
    # Problems that only one of them did say nothing of the two.
    assert against([*ours, result("more", True)], theirs) == both
    assert against([result("more", True)], theirs) is None


def test_a_rows_cost_is_what_it_costs_alone(tmp_path: Path) -> None:
    models = random_pair()
    asked = [FileProblem("a", PROBLEM, "1")]
    config = blocks(max_new_tokens=20, **LONG)
    target = replace(config, strategy="target_only")

    def positions(*names: str) -> dict[str, int]:
        configs = {n: target if n.startswith("target_only") else config for n in names}
        table = compare(asked, configs, models, tmp_path / "-".join(names))
        return {row.name: row.summary.target_positions for row in table.rows}

    there, back = positions("target_only", "block"), positions("block", "target_only")
    assert there == back
    assert positions("target_only", "target_only again")["target_only again"] == back["target_only"]


# Going on


def test_a_stopped_comparison_goes_on_and_ends_as_if_it_had_not(
    bench: Bench, problems: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = problems.with_name("table.json")
    straight = beside(bench, problems)
    path.unlink()
    ordinary = ScriptedModel.sample_steps

    def sample_steps(self: ScriptedModel, *given: Any, **keywords: Any) -> Any:
        if self is bench.draft and self.n_calls == 8:
            raise KeyboardInterrupt
        return ordinary(self, *given, **keywords)

    bench.draft.n_calls = 0
    with monkeypatch.context() as patched:
        patched.setattr(ScriptedModel, "sample_steps", sample_steps)
        run = beside(bench, problems)
    assert (run.code, run.err.splitlines()[-1].startswith("error: stopped; finished")) == (1, True)
    done = {row.name: len(row.problems) for row in load_comparison(path).rows}
    assert done == {"target_only": 2, "specguard": 1, "draft_only": 1}
    again = beside(bench, problems)
    assert again.code == 0
    assert "] a " not in again.err
    # All but the table of times.
    assert again.out.split("| seconds")[0] == straight.out.split("| seconds")[0]


def test_a_file_of_other_rows_is_refused_and_left_as_it_was(bench: Bench, problems: Path) -> None:
    assert beside(bench, problems).code == 0
    before = problems.with_name("table.json").read_bytes()
    for other in ("specguard", "specguard@threshold=0.5,draft_only"):
        run = beside(bench, problems, other)
        assert run.code == 2
        assert one_sentence(run)
        assert "differ by their strategies or their settings: name another file" in run.err
    assert problems.with_name("table.json").read_bytes() == before


def test_a_run_that_fails_counts_as_wrong_and_is_tried_again(
    bench: Bench, problems: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = ScriptedModel.sample_steps

    def sample_steps(self: ScriptedModel, *given: Any, **keywords: Any) -> Any:
        if self is bench.target:
            raise ModelError("expected memory, got none: free some")
        return ordinary(self, *given, **keywords)

    with monkeypatch.context() as patched:
        patched.setattr(ScriptedModel, "sample_steps", sample_steps)
        run = beside(bench, problems, "draft_only")
    assert run.code == 1
    assert "2 runs failed and count as wrong; target_only, problem a: expected memory" in run.err
    assert beside(bench, problems, "draft_only").code == 0


# Problems in the same batches


@pytest.mark.parametrize("strategy", ["specguard", "target_only", "draft_only"])
def test_problems_done_together_end_as_they_do_alone(strategy: str) -> None:
    models = pair()
    config = DecodeConfig(strategy=strategy, max_steps=4, max_step_tokens=20)  # type: ignore[arg-type]
    asked = [FileProblem(str(i), f"{PROBLEM} {i}", "1") for i in range(5)]
    asked.insert(2, FileProblem("long", "word " * 5000, "1"))
    together = run_together(asked, models, config)
    assert [one.id for one in together] == [problem.problem_id for problem in asked]
    assert together[2].failure is not None

    def plain(one: ProblemResult) -> ProblemResult:
        return replace(one, seconds={})

    assert list(map(plain, together)) == [plain(run_problem(p, models, config)) for p in asked]


def test_of_problems_done_together_only_the_one_that_fails_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models, ordinary = pair(), ScriptedModel.sample_steps
    marked = models.vocabulary.encode("zzz")[0]

    def sample_steps(self: ScriptedModel, requests: Any, **keywords: Any) -> Any:
        if any(marked in request.prefix for request in requests):
            raise ModelError("expected memory, got none: free some")
        return ordinary(self, requests, **keywords)

    monkeypatch.setattr(ScriptedModel, "sample_steps", sample_steps)
    config = DecodeConfig(strategy="target_only", max_steps=2, system_prompt="")
    asked = [FileProblem("a", "2 + 2?", "4"), FileProblem("z", "zzz?", "4")]
    failures = [one.failure for one in run_together(asked, models, config)]
    assert failures == [None, "expected memory, got none: free some"]


# Variants


def config_of(text: str) -> DecodeConfig:
    (row,) = variants(text)
    return changed(preset(row.preset or "cpu"), row.settings)


def test_a_variant_names_a_strategy_a_preset_an_ablation_and_settings() -> None:
    assert config_of("speculative") == replace(PRESETS["cpu"], strategy="speculative")
    assert config_of("specguard@best") == PRESETS["best"]
    assert config_of("specguard@best+no-selector+seed=3") == replace(
        PRESETS["best"], n_candidates=1, seed=3
    )
    for name in ("confidence", "grounding"):
        assert config_of(f"specguard@paper+{name}-only").weight == {name: 1.0}
    assert set(ABLATIONS) == {"no-selector", "grounding-only", "confidence-only"}


def test_commas_between_weights_part_no_variants() -> None:
    text = "easd,specguard@weights=agreement:0.3,confidence:0.7+seed=1,target_only"
    names = [row.name for row in variants(text)]
    assert names == ["easd", text.split(",", 1)[1].rsplit(",", 1)[0], "target_only"]
    assert config_of(names[1]).weight == {"agreement": 0.3, "confidence": 0.7}


@pytest.mark.parametrize(
    ("strategies", "said"),
    [
        ("", "expected a strategy out of specguard"),
        ("magic", "got 'magic': choose one"),
        ("easd,magic", "got 'magic': choose one"),
        ("easd,easd", "each strategy once, got 'easd' again"),
        ("specguard@fast", "got 'fast': choose out of paper, cpu, best, read, no-selector"),
        ("specguard@paper+best", "got 'best'"),
        ("rsd@no-selector", "an ablation of specguard"),
        ("specguard@colour=red", "expected a knob, got 'colour'"),
        ("specguard@threshold=2", "threshold from 0 to 1.01, got 2"),
        ("rsd_majority@n_chains=0", "n_chains from 1 to 64, got 0"),
        ("speculative@gamma=65", "gamma from 1 to 64, got 65"),
        ("specguard@target_temperature=0.5", "one target_temperature in all rows, got 0.0, 0.5"),
    ],
)
def test_strategies_that_cannot_be_compared_are_one_sentence(
    strategies: str, said: str, bench: Bench, problems: Path
) -> None:
    run = beside(bench, problems, strategies)
    assert run.code == 2
    assert one_sentence(run)
    assert said in run.err
    assert not problems.with_name("table.json").exists()


def test_a_reward_model_that_is_not_there_is_missed_before_anything_is_loaded(
    bench: Bench, problems: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundled, "REWARD", problems.with_name("none"))
    run = beside(bench, problems, "speculative,rsd")
    assert (run.code, one_sentence(run), bench.loaded) == (2, True, [])
    assert "expected --reward" in run.err


def test_without_the_target_alone_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected target_only among the strategies"):
        compare([], {"specguard": DecodeConfig()}, pair(), tmp_path / "t.json")


# The pair that ships

HARD = bundled.ASSETS / "problems" / "abacus-hard.jsonl"
ENDS = {"eos", "answer"}


@pytest.mark.bundled(bundled.REWARD)
@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_every_strategy_solves_a_problem_with_the_pair_that_ships(
    strategy: str, bundled_models: Callable[[], Any]
) -> None:
    settings = [f"strategy={strategy}", "grade_method=logprob", "n_chains=2"]
    (problem,) = read_problems(bundled.PROBLEMS, limit=1)
    one = run_problem(problem, bundled_models(), changed(preset("best"), settings))
    assert (one.failure, one.finish in ENDS, one.given is not None) == (None, True, True)
    assert one.n_blocks if strategy in ("speculative", "easd") else one.n_steps
    assert (one.target_positions > 0) == (strategy != "draft_only")


@pytest.fixture(scope="module")
def bundled_models() -> Callable[[], Any]:
    from specguard_core.backends.hf import load_models

    reward = bundled.REWARD if bundled.REWARD.is_dir() else None
    models = load_models(bundled.DRAFT, bundled.TARGET, reward=reward)

    def fresh() -> Any:
        models.forget()
        return models

    return fresh


def test_the_hard_problems_are_what_the_generator_writes_and_no_others_are_among_them() -> None:
    from specguard_core.training.generator import problems as generated
    from specguard_core.training.problems import read_rows

    rows = list(read_rows(HARD))
    streams = [generated("hard", "test", n_steps) for n_steps in (7, 8)]
    for row in rows[:20]:
        streams.append(streams.pop(0))
        made = next(streams[-1])
        assert row["id"] == made.id
        assert (row["question"], row["answer"]) == (made.question, str(made.answer))
        assert row["steps"] == list(made.steps)
    assert len(rows) == len({row["id"] for row in rows}) == 200
    assert {len(row["steps"]) for row in rows} == {8, 9}
    shipped = HARD.parent.glob("abacus-*.jsonl")
    others = {row["id"] for path in shipped if path != HARD for row in read_rows(path)}
    assert not others & {row["id"] for row in rows}

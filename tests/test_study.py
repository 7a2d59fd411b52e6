"""What signals are worth, on samples small enough to count by hand."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core import bundled, load_models
from specguard_core.decoder.step import decode, start
from specguard_core.errors import NotMeasured
from specguard_core.events import Committed
from specguard_core.evidence import Evidence
from specguard_core.presets import preset
from specguard_core.study import Sample, is_right, samples_of, study, variants
from tests.bench import FIRST, WRONG, Bench, one_sentence
from tests.sample_traces import coin_trace

PROBLEMS = (
    '{"question": "Ann has 2 apples. She buys 3 more and doubles them.", "answer": "10"}\n'
    '{"question": "Ann has 2 apples. She buys 3 more, and doubles them.", "answer": "11"}\n'
)


def sample(right: bool, score: float, problem: str = "p", n_tokens: int = 8, **values: float):
    return Sample(problem, right, n_tokens, 64, {"score": score, **values})


FOUR = [
    sample(True, 0.9, "a", confidence=-0.1),
    sample(True, 0.6, "a", confidence=-0.4),
    sample(False, 0.7, "b", confidence=-0.6),
    sample(False, 0.2, "b", confidence=-0.9),
]


def test_a_step_is_right_when_its_equations_hold_and_unknown_without_any():
    assert is_right("So 2 + 3 = 5 apples.") is True
    assert is_right("2 + 3 = 5, and 5 * 2 = 11.") is False
    assert is_right("The answer is 5.") is None


def test_worth_is_counted_over_pairs():
    score, confidence = study(FOUR, label="equation", threshold=0.5).worths
    assert (score.signal, score.n_right, score.n_wrong) == ("score", 2, 2)
    assert score.auc.value == pytest.approx(3 / 4)
    assert confidence.auc.value == 1.0
    assert confidence.auc.low <= 1.0 <= confidence.auc.high


def test_a_threshold_is_the_least_that_lets_no_more_wrong_steps_through_than_wanted():
    found = study(FOUR, label="equation", threshold=0.5, wanted=(0.0, 0.5, 1.0))
    assert found.now.false_accept == found.now.accepted - 0.25 == 0.5
    assert found.now.false_refuse == 0.0
    assert found.operating[0.0].threshold == 0.9
    assert found.operating[0.0].false_refuse == 0.5
    assert found.operating[0.5].threshold == 0.6
    assert found.operating[1.0].threshold == 0.0


def test_length_alone_is_worth_nothing_at_equal_length():
    by_length = [
        sample(True, 0.9, n_tokens=4),
        sample(True, 0.9, n_tokens=4),
        sample(False, 0.1, n_tokens=40),
        sample(True, 0.1, n_tokens=40),
    ]
    [score] = study(by_length, label="equation", threshold=0.5).worths
    assert score.auc.value > 0.8
    assert score.auc_at_length == 0.5
    assert score.with_length == pytest.approx(-1.0)


def test_one_kind_of_step_alone_gives_no_auc_and_no_made_up_share():
    found = study([sample(True, 0.9), sample(True, 0.2)], label="answer", threshold=0.5)
    assert found.worths[0].auc is None
    assert found.now.false_accept is None
    assert set(found.operating.values()) == {None}
    with pytest.raises(NotMeasured, match="got none"):
        study([], label="equation", threshold=0.5)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1, max_size=40))
def test_bins_hold_every_sample_once_and_rise(drawn: list[tuple[bool, float]]):
    samples = [sample(right, score) for right, score in drawn]
    bins = study(samples, label="equation", threshold=0.5).reliability
    assert sum(found.count for found in bins) == len(samples)
    assert [found.score for found in bins] == sorted(found.score for found in bins)


def test_variants_read_the_same_record_and_those_that_change_nothing_are_left_out():
    trace = coin_trace()
    assert all(way != trace.config for name, way in variants(trace.config).items() if name)
    found, unlabelled = samples_of(trace, lambda step, text: step.index == 0)
    assert len(found) + unlabelled <= len(trace.steps)
    names = {worth.signal for worth in study(found, label="equation", threshold=0.5).worths}
    assert "confidence, no residual" not in names


@pytest.mark.bundled(bundled.DRAFT, bundled.TARGET)
def test_rollout_variants_are_read_from_the_rows_whatever_else_was_weighed():
    config = replace(
        preset("cpu"),
        n_candidates=1,
        weights=(("grounding", 0.5), ("target_grounding", 0.5)),
        normalisation="fixed",
        threshold=0.0,
        max_steps=1,
    )
    models, evidence = load_models(bundled.DRAFT, bundled.TARGET), Evidence()
    for event in decode(start("Ana has 3 pens. She buys 4. How many now?", models, config), models):
        evidence.record(event)
        if isinstance(event, Committed):
            trace = event.trace
    (one,), _ = samples_of(trace, lambda step, text: True, evidence)
    assert {"target_grounding", "grounding, no residual"} <= one.values.keys()
    assert "target_grounding, no residual" not in one.values
    assert one.values["grounding, no residual"] != one.values["grounding"]


def test_the_command_decodes_once_and_reports_again_without_decoding(tmp_path):
    problems = tmp_path / "p.jsonl"
    problems.write_text(PROBLEMS)
    arguments = ("study", "--problems", problems, "--traces", tmp_path / "t")
    settings = ("--set", "normalisation=fixed")
    bench = Bench()
    run = bench(*arguments, *settings, "--out", tmp_path / "r.md")
    assert run.code == 0, run.err
    assert "| score |" in run.out
    assert (tmp_path / "r.md").read_text().strip() == run.out.strip()
    calls = bench.draft.n_calls
    again = bench(*arguments, *settings, "--json")
    assert bench.draft.n_calls == calls
    report = json.loads(again.out)
    # FIRST holds, WRONG does not, and the answer has no equation: of each problem one of each.
    assert (report["n_steps"], report["n_unlabelled"]) == (4, 2), (FIRST, WRONG)
    other = bench(*arguments, "--set", "normalisation=fixed", "threshold=0.1")
    assert other.code == 2
    assert one_sentence(other)
    assert "another folder" in other.err


@pytest.mark.parametrize("label", ["answer", "target"])
def test_other_labels_come_from_the_answer_and_from_the_target(tmp_path, label):
    problems = tmp_path / "p.jsonl"
    problems.write_text(PROBLEMS)
    run = Bench()(
        *("study", "--problems", problems, "--traces", tmp_path / "t", "--label", label, "--json"),
        *("--set", "normalisation=fixed"),
    )
    assert run.code == 0, run.err
    score = json.loads(run.out)["worths"][0]
    if label == "answer":
        # One problem's gold answer is what the run finds, the other's is not.
        assert score["n_right"] == score["n_wrong"] > 0
    else:
        assert score["n_right"] + score["n_wrong"] > 0


def test_a_strategy_without_signals_has_nothing_to_study(tmp_path):
    problems = tmp_path / "p.jsonl"
    problems.write_text(PROBLEMS)
    run = Bench()(
        *("study", "--problems", problems, "--traces", tmp_path, "--strategy", "draft_only")
    )
    assert run.code == 2
    assert one_sentence(run)

"""SpecReason: the target grades each greedy draft step from 0 to 9, and the grade decides."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.backends.scripted import ScriptedModel, ScriptedStep, ScriptedVocabulary
from specguard_core.decoder.grading import (
    DIGITS,
    choice_request,
    digit_chances,
    digit_ids,
    grade_in_words,
)
from specguard_core.decoder.step import start
from specguard_core.errors import NotMeasured, PairError, TraceFileError
from specguard_core.evaluation import run_together
from specguard_core.lm import ChoiceReading, ChoiceRequest, ReadRequest
from specguard_core.problem_files import FileProblem
from specguard_core.regate import regate
from specguard_core.text import join_pieces
from specguard_core.trace_io import from_json, load_trace, to_json
from specguard_core.types import PromptSegment
from specguard_core.verification import grade_verdict
from tests.bench import Bench, one_sentence
from tests.block_models import random_model
from tests.builders import PROBLEM, VOCABULARY, configured, pair, recited, run, scripted

STEPS = ("5 + 4 = 9.\n\n", "So \\boxed{9}.")


def graded(first, second=9, **knobs):
    """A run in which the target gives these grades to the draft's two steps."""
    target = scripted({"": (ScriptedStep("nine.\n\n"),)}, "target")
    target.grades = {STEPS[0]: first, "".join(STEPS): second}
    models = pair(scripted(recited(*STEPS), "draft"), target)
    return run(models, configured(strategy="specreason", max_steps=2, **knobs))


@pytest.mark.parametrize(
    ("grade", "source"), [(9, "draft"), (7, "draft"), (6, "target"), (0, "target")]
)
def test_a_step_is_kept_from_grade_7_on_and_else_the_target_writes_it(grade, source):
    step = graded(grade).steps[0]
    assert step.outcome.source == source
    reading = step.verdict.readings["grade"]
    assert (reading.raw, reading.normalised) == (grade, grade / 9)
    assert (step.verdict.accepted, len(step.candidates)) == (source == "draft", 1)


def test_the_threshold_is_a_knob_that_regate_turns():
    trace = graded(6)
    again = regate(trace, replace(trace.config, grade_threshold=6.0, rollout_layers=1))
    assert (again.first_flip, again.verdicts[0].accepted) == (0, True)
    assert graded(6, grade_threshold=6.0).steps[0].outcome.source == "draft"


def test_an_expected_grade_is_the_mean_of_the_digits():
    chances = np.zeros(10)
    chances[[2, 8]] = 0.3, 0.5
    reading = ChoiceReading(np.log(chances + 1e-12), 1, 1, 0.0)
    config = configured(strategy="specreason")
    assert grade_in_words(reading, config) == 8
    expected = grade_in_words(reading, replace(config, grade_method="expected"))
    assert expected == pytest.approx((2 * 0.3 + 8 * 0.5) / 0.8, abs=1e-6)


@pytest.mark.parametrize("mass", [0.0, 0.3, math.nan])
def test_an_answer_that_is_no_digit_is_refused_and_the_way_out_named(mass):
    reading = ChoiceReading(np.log(np.full(10, mass / 10) + 1e-30), 1, 1, 0.0)
    with pytest.raises(NotMeasured, match="grade_method=logprob"):
        grade_in_words(reading, configured(strategy="specreason"))


@pytest.fixture
def mumbling(monkeypatch):
    """Targets that answer no digit once they have been asked about a text with a 9."""
    ordinary = ScriptedModel.read_choices

    def read_choices(self, requests, **keywords):
        readings = ordinary(self, requests, **keywords)
        unsure = np.full(10, math.log(0.01), np.float32)
        return [
            replace(reading, logprobs=unsure)
            if "9" in join_pieces(request.prefix, PIECES)
            else reading
            for request, reading in zip(requests, readings, strict=True)
        ]

    monkeypatch.setattr(ScriptedModel, "read_choices", read_choices)


PIECES = {token_id: VOCABULARY.piece(token_id) for token_id in range(len(VOCABULARY))}


def test_a_grade_that_is_no_digit_keeps_the_trace_and_fails_one_problem_only(mumbling, tmp_path):
    first = "2 + 3 = 5.\n\n"
    bench = Bench(draft=scripted(recited(first, "5 + 4 = 9.\n\n"), "small"))
    bench.target.grades = {first: 9}
    knobs = ("--strategy", "specreason", "--set", "max_steps=3")
    told = bench("decode", "--problem", "Count.", "--out", tmp_path / "t.json", *knobs)
    assert (told.code, one_sentence(told)) == (1, True)
    assert "expected a digit as the target's grade" in told.err
    trace = load_trace(tmp_path / "t.json")
    assert (trace.status, trace.text) == ("failed", first)
    asked = [FileProblem("a", "Count to 9.", "1"), FileProblem("b", "Count.", "1")]
    config = configured(strategy="specreason", max_steps=1)
    failures = [one.failure for one in run_together(asked, pair(recited("2 + 2.\n\n")), config)]
    assert failures[0] is not None and "expected a digit" in failures[0]
    assert failures[1] is None


class Uninstructed(ScriptedVocabulary):
    """Prompts that leave the instruction out, as the bundled pair's template does."""

    __slots__ = ()

    def prompt(self, problem, system_prompt, thinking=None) -> tuple[PromptSegment, ...]:
        return ScriptedVocabulary.prompt(self, problem, "")


def test_a_target_that_takes_no_instructions_says_so_and_grades_by_log_probability():
    models = replace(pair(recited(*STEPS)), vocabulary=Uninstructed())
    with pytest.raises(NotMeasured, match=r"target takes none .* \(ours\)"):
        start(PROBLEM, models, configured(strategy="specreason"))
    config = configured(strategy="specreason", grade_method="logprob", max_steps=2)
    step = run(models, config).steps[0]
    logprobs = [token.target_logprob for token in step.chosen.tokens]
    grade = 9 * math.exp(sum(logprobs) / len(logprobs))
    assert step.verdict.readings["grade"].raw == pytest.approx(grade)


class StepsOnly:
    """A target that can be asked nothing."""

    info = scripted(name="target").info
    sample_steps = read_steps = None


def test_a_target_that_cannot_be_asked_is_refused_at_the_start():
    models = replace(pair(), target=StepsOnly())
    with pytest.raises(PairError, match="asked for a grade"):
        start(PROBLEM, models, configured(strategy="specreason"))


def test_the_question_stands_after_the_step_and_the_digits_are_tokens():
    config = configured(grade_prompt="Grade: ")
    request = choice_request((1, 2), config, VOCABULARY)
    assert (request.prefix, request.question) == ((1, 2), VOCABULARY.encode("Grade: "))
    assert [VOCABULARY.piece(i).decode() for i in digit_ids(VOCABULARY)] == list(DIGITS)


def test_a_tokenizer_without_digits_is_refused():
    class Worded(ScriptedVocabulary):
        def piece(self, token_id):
            return b"x"

    with pytest.raises(NotMeasured, match="digit 0"):
        digit_ids(Worded())


def test_the_cost_of_a_grade_is_verification():
    cost = graded(9).steps[0].cost
    assert cost.target_passes == 1
    assert cost.roles["verification"].tokens == len(VOCABULARY.encode(STEPS[0]))
    assert "target_written" not in cost.roles


def test_a_graded_trace_comes_back_from_json():
    trace = graded(3)
    assert from_json(to_json(trace)) == trace


def test_a_grade_in_words_keeps_the_chances_of_the_ten_digits_it_was_read_from():
    trace = graded(6)
    reading = trace.steps[0].verdict.readings["grade"]
    assert reading.digits == (*(0.01,) * 6, 0.91, *(0.01,) * 3)
    again = regate(trace, replace(trace.config, grade_threshold=5.0)).verdicts[0]
    assert again.accepted and again.readings["grade"] == reading
    by_logprob = graded(6, grade_method="logprob").steps[0].verdict.readings["grade"]
    assert by_logprob.digits is None


def test_an_answer_without_chances_leaves_them_not_recorded():
    sure = np.full(10, -100.0, np.float32)
    sure[8] = 0.0
    told = ChoiceReading(sure, 1, 1, 0.0, answer_only=True)
    assert grade_in_words(told, configured(strategy="specreason")) == 8
    assert digit_chances(told) is None
    assert digit_chances(replace(told, answer_only=False)) == (*(0.0,) * 8, 1.0, 0.0)


@pytest.mark.parametrize("digits", [(), (0.1,) * 9, (0.0,) * 9 + (1.5,), (-0.1,) + (0.1,) * 9])
def test_a_file_with_digits_that_are_no_ten_chances_is_refused(digits):
    data = to_json(graded(6))
    data["units"][0]["verdict"]["readings"]["grade"]["digits"] = list(digits)
    with pytest.raises(TraceFileError, match="ten probabilities"):
        from_json(data)


@given(st.floats(0, 9), st.floats(0, 9.01), st.floats(0, 9.01))
def test_a_higher_grade_threshold_never_accepts_more(grade, one, other):
    low, high = sorted((one, other))
    strict = grade_verdict(grade, configured(grade_threshold=high))
    mild = grade_verdict(grade, configured(grade_threshold=low))
    assert mild.accepted or not strict.accepted
    assert 0 <= mild.score <= 1


def test_a_model_tells_the_chances_of_choices_and_keeps_nothing_of_the_question():
    model = random_model()
    prefix, question, choices = (7, 8, 9, 10), (11, 12), (20, 21, 22)
    (reading,) = model.read_choices([ChoiceRequest(prefix, question, choices)])
    for choice, logprob in zip(choices, reading.logprobs, strict=True):
        (read,) = model.read_steps([ReadRequest(prefix, (*question, choice), 0)])
        assert logprob == pytest.approx(read.logprobs[-1], abs=1e-4)
    assert (reading.passes, reading.positions) == (2, 6)
    (again,) = model.read_choices([ChoiceRequest(prefix, question, choices)])
    assert (again.passes, again.positions) == (1, 2)


@pytest.mark.case(21)
@pytest.mark.parametrize("grade", [9, 0])
def test_a_problem_of_eight_steps_yields_eight_steps(grade):
    texts = (*(f"{n} + 1 = {n + 1}.\n\n" for n in range(7)), "The answer is \\boxed{7}.")
    target = scripted(recited(*texts), "target")
    target.grades = {"".join(texts[: n + 1]): grade for n in range(7)}
    trace = run(pair(recited(*texts), target), configured(strategy="specreason"))
    assert len(trace.steps) == 8
    assert {step.outcome.source for step in trace.steps[:7]} == {"draft" if grade else "target"}

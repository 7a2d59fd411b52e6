"""Laws of the problem generator and the labeller. No model, no torch."""

import json
import re
import subprocess
import sys
from collections import Counter
from itertools import islice
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core.training.generator import FRAME_NAMES, STEP_WEIGHTS, generate, problems
from specguard_core.training.labels import label_of, step_is_right
from specguard_core.training.problems import (
    MAX_FACTOR,
    MAX_VALUE,
    Equation,
    Problem,
    read_rows,
    write_problems,
)

EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")


@pytest.fixture(scope="module")
def sample() -> list[Problem]:
    rng = Random(7)
    return [generate(rng) for _ in range(1500)]


def test_every_value_is_whole_and_in_bounds(sample):
    for equation in (e for p in sample for e in p.equations):
        assert 1 <= equation.result <= MAX_VALUE
        if equation.operator == "*":
            assert min(equation.left, equation.right) <= MAX_FACTOR
        if equation.operator == "/":
            assert equation.right <= MAX_FACTOR
            assert equation.right * equation.result == equation.left


def test_steps_state_their_equations_and_lead_to_the_answer(sample):
    for problem in sample:
        *reasoning, last = problem.steps
        stated = [EQUATION.findall(step) for step in reasoning]
        assert all(len(found) == 1 for found in stated)
        assert [str(e) for e in problem.equations] == [
            "{} {} {} = {}".format(*found[0]) for found in stated
        ]
        assert last == f"The answer is \\boxed{{{problem.equations[-1].result}}}."


def test_a_step_is_one_sentence(sample):
    for step in (s for p in sample for s in p.steps):
        assert step.endswith(".")
        assert step.count(".") == 1
        assert "\n" not in step
        assert "{" not in step.replace("\\boxed{", "")


def test_every_operand_is_told_or_was_reached(sample):
    implied = {2, 3, 4, 5, 7, 10, 12}  # double, a third, percent, a week, a dozen
    for problem in sample:
        known = set(map(int, re.findall(r"\d+", problem.question))) | implied
        for equation in problem.equations:
            assert {equation.left, equation.right} <= known
            known.add(equation.result)


def test_numbers_of_distractors_are_told_and_never_used(sample):
    for problem in sample:
        used = {x for e in problem.equations for x in (e.left, e.right, e.result)}
        assert not used & set(problem.distractors)
        told = re.findall(r"\d+", problem.question)
        assert set(map(str, problem.distractors)) <= set(told)


def test_two_in_five_problems_distract(sample):
    assert 0.34 < sum(bool(p.distractors) for p in sample) / len(sample) < 0.46


def test_all_frames_and_all_sizes_occur(sample):
    assert len(set(FRAME_NAMES)) == len(FRAME_NAMES) >= 25
    assert {f for p in sample for f in p.frames} == set(FRAME_NAMES)
    assert {len(p.equations) for p in sample} == set(STEP_WEIGHTS) == {2, 3, 4, 5, 6}


def test_no_frame_occurs_twice_in_a_problem(sample):
    assert all(max(Counter(p.frames).values()) == 1 for p in sample)


def test_longer_problems_can_be_asked_for():
    rng = Random(1)
    assert {len(generate(rng, n).equations) for n in (7, 8)} == {7, 8}


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_equal_seeds_give_equal_problems(seed):
    assert list(islice(problems(seed, "train"), 3)) == list(islice(problems(seed, "train"), 3))


def test_the_splits_are_disjoint_whatever_the_wording():
    train = {p.structure for p in islice(problems(1, "train"), 1500)}
    test = {p.structure for p in islice(problems(1, "test"), 60)}
    assert not train & test


def test_the_split_ignores_names_and_wording(sample):
    problem = sample[0]
    reworded = Problem("?", ("x",), problem.equations, problem.frames, ())
    assert reworded.split == problem.split


def test_the_length_of_a_wording_is_no_sign_of_its_frame(sample):
    words: dict[str, list[int]] = {}
    for problem in sample:
        for step, equation in zip(problem.steps, problem.equations, strict=False):
            words.setdefault(equation.operator, []).append(len(step.split()))
    means = [sum(found) / len(found) for found in words.values()]
    assert max(means) - min(means) < 1.5
    assert all(max(found) - min(found) >= 4 for found in words.values())


@pytest.mark.parametrize(
    ("left", "operator", "right"),
    [(500, "+", 500), (13, "*", 13), (100, "*", 11), (7, "/", 2), (26, "/", 13), (3, "-", 4)],
)
def test_an_equation_out_of_bounds_cannot_be_built(left, operator, right):
    with pytest.raises(ValueError):
        Equation(left, operator, right)


def test_written_problems_are_read_back(tmp_path):
    made = list(islice(problems("x", "test"), 3))
    assert write_problems(made, tmp_path / "p.jsonl") == 3
    rows = list(read_rows(tmp_path / "p.jsonl"))
    assert [row["question"] for row in rows] == [p.question for p in made]
    assert [row["answer"] for row in rows] == [str(p.answer) for p in made]
    assert [row["steps"] for row in rows] == [list(p.steps) for p in made]
    assert len({json.dumps(row["id"]) for row in rows}) == 3


def test_the_generator_loads_no_torch():
    code = "import sys, specguard_core.training.generator as g; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


GOLD = "The bags hold 4 * 6 = 24 coins."


@pytest.mark.parametrize(
    ("step", "label"),
    [
        ("The bags hold 4 * 6 = 24 coins.", "right"),
        ("So in all the bags there are 6*4=24 coins.", "right"),
        ("That is 4 × 6 = 24.", "right"),
        ("The bags hold 4 * 6 = 26 coins.", "arithmetic"),
        ("The bags hold 4 + 6 = 10 coins.", "set-up"),
        ("The bags hold 4 * 7 = 28 coins.", "set-up"),
        ("The bags hold 24 coins.", "set-up"),
        ("4 * 6 = 24 and 24 + 1 = 25 coins.", "set-up"),
        ("4 * 6 = 24. The answer is \\boxed{24}.", "set-up"),
        ("", "set-up"),
    ],
)
def test_a_step_is_judged_by_its_numbers(step, label):
    assert label_of(GOLD, step) == label
    assert step_is_right(GOLD, step) == (label == "right")


def test_the_order_of_a_difference_counts():
    assert not step_is_right("That leaves 9 - 4 = 5.", "That leaves 4 - 9 = 5.")


def test_the_answer_sentence_is_judged_by_its_box():
    gold = "The answer is \\boxed{32}."
    assert step_is_right(gold, "So it is \\boxed{ 32 }.")
    assert label_of(gold, "The answer is \\boxed{31}.") == "set-up"
    assert not step_is_right(gold, "The answer is 32.")


@settings(max_examples=40)
@given(st.integers(0, 500))
def test_a_gold_step_is_right_and_another_result_is_wrong(seed):
    problem = generate(Random(seed))
    for step, equation in zip(problem.steps, problem.equations, strict=False):
        assert step_is_right(step, step)
        wrong = step.replace(f"= {equation.result}", f"= {equation.result + 1}")
        assert label_of(step, wrong) == "arithmetic"

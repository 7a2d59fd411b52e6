"""The bundled pair and its problems are what assets/models/README.md says they are."""

from itertools import islice

import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specguard_core.bundled import ASSETS, DRAFT, PROBLEMS, TARGET
from specguard_core.equations import equation_errors, equations
from specguard_core.training.evaluate import greedy_solutions, score
from specguard_core.training.generator import problems
from specguard_core.training.problems import read_rows

CALIBRATION_PROBLEMS = ASSETS / "problems" / "abacus-calibration.jsonl"


@pytest.fixture(scope="module")
def rows():
    return list(read_rows(PROBLEMS))


def test_there_are_500_problems_with_an_answer_each(rows):
    assert len(rows) == len({row["id"] for row in rows}) == 500
    for row in rows:
        *reasoning, last = row["steps"]
        assert 2 <= len(reasoning) <= 6
        assert last == f"The answer is \\boxed{{{row['answer']}}}."
        assert all(equations(step) and not equation_errors(step) for step in reasoning)


@pytest.mark.parametrize(
    ("path", "seed"), [(PROBLEMS, "held-out"), (CALIBRATION_PROBLEMS, "calibration")]
)
def test_the_problem_files_are_what_the_generator_writes(path, seed):
    made = [(p.id, p.question, str(p.answer)) for p in islice(problems(seed, "test"), 5)]
    held = [(row["id"], row["question"], row["answer"]) for row in islice(read_rows(path), 5)]
    assert held == made


def test_the_calibration_problems_are_others(rows):
    other = {row["id"] for row in read_rows(CALIBRATION_PROBLEMS)}
    assert not other & {row["id"] for row in rows}


def test_the_pair_is_small_and_shares_its_tokenizer():
    size = sum(f.stat().st_size for folder in (DRAFT, TARGET) for f in folder.rglob("*"))
    assert size < 16 * 2**20
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (DRAFT / name).read_bytes() == (TARGET / name).read_bytes()


@pytest.mark.parametrize(("folder", "low", "high"), [(DRAFT, 0.4, 0.95), (TARGET, 0.8, 1.0)])
def test_the_models_answer_about_as_well_as_they_should(rows, folder, low, high):
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    some = rows[:24]
    solutions = greedy_solutions(model, tokenizer, [row["question"] for row in some])
    assert low <= score([row["steps"] for row in some], solutions).accuracy <= high

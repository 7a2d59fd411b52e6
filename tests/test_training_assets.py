"""The bundled models and their problems are what assets/models/README.md says they are."""

from itertools import islice

import pytest
import torch
from transformers import LlamaForCausalLM, LlamaForTokenClassification, PreTrainedTokenizerFast

from specguard_core.bundled import ASSETS, DRAFT, PROBLEMS, REWARD, TARGET
from specguard_core.equations import equation_errors, equations
from specguard_core.training.evaluate import greedy_solutions, score
from specguard_core.training.generator import problems
from specguard_core.training.problems import read_rows
from specguard_core.training.reward_data import held_out
from specguard_core.training.reward_score import evaluate_reward

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


def test_the_models_are_small_and_share_their_tokenizer():
    size = sum(f.stat().st_size for folder in (DRAFT, TARGET, REWARD) for f in folder.rglob("*"))
    assert size < 16 * 2**20
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (DRAFT / name).read_bytes() == (TARGET / name).read_bytes()
        assert (DRAFT / name).read_bytes() == (REWARD / name).read_bytes()


@pytest.mark.parametrize(("folder", "low", "high"), [(DRAFT, 0.4, 0.95), (TARGET, 0.8, 1.0)])
def test_the_models_answer_about_as_well_as_they_should(rows, folder, low, high):
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    some = rows[:24]
    solutions = greedy_solutions(model, tokenizer, [row["question"] for row in some])
    assert low <= score([row["steps"] for row in some], solutions).accuracy <= high


@pytest.mark.bundled(DRAFT, REWARD)
def test_the_reward_model_tells_the_draft_s_right_steps_from_its_wrong_ones(rows):
    draft = LlamaForCausalLM.from_pretrained(DRAFT, dtype=torch.float32)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(DRAFT)
    reward = LlamaForTokenClassification.from_pretrained(REWARD, dtype=torch.float32).eval()
    result = evaluate_reward(reward, tokenizer, held_out(draft, tokenizer, rows[:40], n_draws=2))
    assert result.n_wrong >= 10
    assert result.auc >= 0.85

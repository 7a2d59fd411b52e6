"""What the reward model is trained on, and its trainer, on models too small to learn."""

from itertools import islice
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.backends.reward import load_reward
from specguard_core.lm import RewardRequest
from specguard_core.training.generator import problems
from specguard_core.training.models import build_model
from specguard_core.training.problems import STEP_DELIMITER
from specguard_core.training.reward import (
    RewardRecipe,
    RewardRun,
    area_under_curve,
    collate,
    export_reward,
    last_rewards,
    train_reward,
)
from specguard_core.training.reward_data import (
    drafted,
    labelled,
    load_examples,
    save_examples,
    spoilt,
    spoilt_ones,
)
from specguard_core.training.tokenizer import train_tokenizer

PROBLEMS = list(islice(problems("reward test", "train"), 40))


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(text for p in PROBLEMS for text in (p.question, p.solution))


@pytest.fixture(scope="module")
def body(tokenizer):
    return build_model("tiny", tokenizer).eval()


@given(st.sampled_from(PROBLEMS), st.integers(0, 10**6))
def test_a_spoilt_solution_is_right_up_to_its_last_step(problem, seed):
    example = spoilt(problem, Random(seed))
    n_right = len(example.steps) - 1
    assert example.right == (True,) * n_right + (False,)
    assert example.steps[:n_right] == tuple(s + STEP_DELIMITER for s in problem.steps[:n_right])


@pytest.mark.parametrize("problem", PROBLEMS[:5], ids=lambda problem: problem.id)
def test_a_solution_is_labelled_up_to_its_first_wrong_step(problem):
    assert all(labelled(problem, problem.solution).right)
    assert "".join(labelled(problem, problem.solution).steps) == problem.solution
    wrong = labelled(problem, STEP_DELIMITER.join(("1 + 1 = 3.", *problem.steps[1:])))
    assert (wrong.steps, wrong.right) == (("1 + 1 = 3.\n\n",), (False,))


def test_examples_survive_their_file_and_are_the_same_each_time(tmp_path, body, tokenizer):
    examples = [*spoilt_ones(5), *drafted(body, tokenizer, 2)]
    assert examples == [*spoilt_ones(5), *drafted(body, tokenizer, 2)]
    save_examples(examples, tmp_path / "e.jsonl")
    assert load_examples(tmp_path / "e.jsonl") == examples


def test_a_label_stands_at_the_last_token_of_its_step(tokenizer):
    example = spoilt_ones(1)[0]
    batch = collate(tokenizer, [example])
    places = (batch.labels[0] >= 0).nonzero()[:, 0].tolist()
    assert [bool(batch.labels[0, place]) for place in places] == list(example.right)
    text = tokenizer.decode(batch.ids[0, : places[-1] + 1])
    assert text.endswith("".join(example.steps))


@pytest.mark.parametrize(
    ("rewards", "good", "bad", "area"),
    [
        ([0.9, 0.1], [1, 0], [0, 1], 1.0),
        ([0.1, 0.9], [1, 0], [0, 1], 0.0),
        ([0.5, 0.5], [1, 0], [0, 1], 0.5),
        ([0.9, 0.5, 0.1], [2, 0, 1], [0, 1, 0], 2 / 3),
        ([0.5], [1], [0], 0.5),
    ],
)
def test_the_area_under_the_curve_worked_by_hand(rewards, good, bad, area):
    assert area_under_curve(rewards, good, bad) == pytest.approx(area)


def test_a_resumed_run_ends_where_an_uninterrupted_one_does(tmp_path, body, tokenizer):
    recipe = RewardRecipe(iterations=4, n_layers=1, batch_size=4)
    whole = RewardRun(recipe, body, tokenizer, spoilt_ones(12))
    train_reward(whole, log=lambda line: None)
    first = RewardRun(recipe, body, tokenizer, spoilt_ones(12))
    for _ in range(2):
        first.step(first.batch(first.iteration))
    first.save(tmp_path / "c.pt")
    second = RewardRun(recipe, body, tokenizer, spoilt_ones(12))
    second.resume(tmp_path / "c.pt")
    train_reward(second, log=lambda line: None)
    for mine, theirs in zip(whole.average, second.average, strict=True):
        assert torch.equal(mine, theirs)


def test_what_is_exported_gives_the_rewards_that_were_trained(tmp_path, body, tokenizer):
    run = RewardRun(RewardRecipe(iterations=3, n_layers=1), body, tokenizer, spoilt_ones(8))
    train_reward(run, tmp_path / "c.pt", log=lambda line: None)
    model = run.whole_model()
    export_reward(model, tokenizer, tmp_path / "prm")
    loaded = load_reward(tmp_path / "prm")
    assert loaded.format == "token"
    examples = spoilt_ones(3)
    readings = loaded.score_steps([RewardRequest(e.question, e.steps) for e in examples])
    expected = last_rewards(model, tokenizer, examples)
    assert [r.rewards[-1] for r in readings] == pytest.approx(expected, abs=5e-3)

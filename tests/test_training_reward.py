"""What the reward model is trained on, and its trainer, on models too small to learn."""

from dataclasses import replace
from itertools import islice
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaForCausalLM

from specguard_core.backends.reward import load_reward
from specguard_core.lm import RewardRequest
from specguard_core.training.__main__ import main
from specguard_core.training.generator import problems
from specguard_core.training.labels import first_difference, step_is_right
from specguard_core.training.loop import train
from specguard_core.training.models import build_model, export, export_reward
from specguard_core.training.problems import STEP_DELIMITER
from specguard_core.training.reward import RewardRecipe, RewardRun
from specguard_core.training.reward_batches import END_WEIGHT, batches, collate, plain_rows
from specguard_core.training.reward_data import (
    Drafted,
    cut,
    drafted,
    grown,
    load_drafted,
    save_drafted,
    trees,
)
from specguard_core.training.reward_score import area_under_curve, last_rewards
from specguard_core.training.tokenizer import prompt_text, train_tokenizer

PROBLEMS = list(islice(problems("reward test", "train"), 40))
GOLD = [cut(p.question, p.steps, p.solution) for p in PROBLEMS]
WRONG = [
    cut(p.question, p.steps, STEP_DELIMITER.join((p.steps[0], "1 + 1 = 3.", "2 + 2 = 4.")))
    for p in PROBLEMS
]
SOME = [*GOLD[:6], *WRONG[:6]]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(text for p in PROBLEMS for text in (p.question, p.solution))


@pytest.fixture(scope="module")
def body(tokenizer):
    """As small as the comparator allows: a channel of one head for each flagged token."""
    config = build_model("tiny", tokenizer).config
    config.update({"hidden_size": 64, "head_dim": 32})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LlamaForCausalLM(config).eval()


def test_a_solution_is_cut_after_its_first_wrong_step():
    for problem, right, wrong in zip(PROBLEMS, GOLD, WRONG, strict=True):
        assert "".join(right.steps) == problem.solution
        assert right.wrong_place is None
        assert wrong.steps == (problem.steps[0] + STEP_DELIMITER, "1 + 1 = 3.\n\n")
        assert wrong.wrong_place == 1


@given(st.sampled_from([*GOLD, *WRONG]), st.integers(0, 10**6))
def test_a_tree_has_right_steps_and_wrong_branches(solution, seed):
    tree = grown(solution, Random(seed))
    assert len(tree.steps) == len(solution.gold)
    for gold, step in zip(solution.gold, tree.steps, strict=True):
        assert step_is_right(gold, step)
    places = [branch.place for branch in tree.branches]
    assert len(set(places)) == len(places) >= len(solution.gold) - 1
    for branch in tree.branches:
        assert not step_is_right(solution.gold[branch.place], branch.step)
        assert 0 <= branch.wrong_from < len(branch.step)


@pytest.mark.parametrize(
    ("gold", "step", "agreed"),
    [
        ("That is 7 * 12 = 84 keys.", "That is 7 * 12 = 94 keys.\n\n", "That is 7 * 12 = "),
        ("That is 7 * 12 = 84 keys.", "So 12 * 7 = 83 keys.\n\n", "So 12 * 7 = 8"),
        ("That is 12 - 7 = 5 keys.", "So 7 - 12 = 5 keys.\n\n", "So "),
        ("That is 7 * 12 = 84 keys.", "The answer is \\boxed{84}.", "The answer is "),
        ("The answer is \\boxed{84}.", "The answer is \\boxed{8}.", "The answer is \\boxed{8"),
        ("That is 7 * 12 = 84 keys.", "No keys.\n\n", "No keys"),
    ],
)
def test_the_first_wrong_number_worked_by_hand(gold, step, agreed):
    assert step[: first_difference(gold, step)] == agreed


def test_solutions_survive_their_file_and_are_the_same_each_time(tmp_path, body, tokenizer):
    solutions = [*SOME, *drafted(body, tokenizer, 2)]
    assert solutions == [*SOME, *drafted(body, tokenizer, 2)]
    save_drafted(solutions, tmp_path / "d.jsonl")
    assert load_drafted(tmp_path / "d.jsonl") == solutions


def test_an_epoch_has_every_wrong_solution_and_is_the_same_each_time():
    epoch = trees(SOME, 0)
    assert epoch == trees(SOME, 0) != trees(SOME, 1)
    texts = [branch.step for tree in epoch for branch in tree.branches]
    assert texts.count("1 + 1 = 3.\n\n") == 6


def test_the_stream_of_batches_can_be_entered_anywhere(tokenizer):
    straight = list(islice(batches(tokenizer, SOME, 4), 12))
    for first in (1, 5, 11):
        entered = next(batches(tokenizer, SOME, 4, first))
        assert torch.equal(entered.ids, straight[first].ids)
        assert torch.equal(entered.weight, straight[first].weight)


def test_labels_turn_wrong_at_the_first_wrong_number_and_stay_so(tokenizer):
    tree = grown(WRONG[0], Random(0))
    batch = collate(tokenizer, [tree])
    n = len(tokenizer(prompt_text(tree.question) + "".join(tree.steps))["input_ids"])
    weighed = batch.weight[0] > 0
    assert not weighed[: len(tokenizer(prompt_text(tree.question))["input_ids"])].any()
    assert batch.right[0, :n][weighed[:n]].all()
    assert int((batch.weight[0] == END_WEIGHT).sum()) == len(tree.steps)
    assert "".join(tokenizer.decode(batch.ids[0, n:])) == "".join(b.step for b in tree.branches)
    start = n
    for branch in tree.branches:
        stop = start + len(tokenizer(branch.step)["input_ids"])
        labels = batch.right[0, start:stop].tolist()
        assert labels == sorted(labels, reverse=True)
        right = tokenizer.decode(batch.ids[0, start:stop][batch.right[0, start:stop] == 1])
        assert branch.step[: branch.wrong_from].startswith(right)
        assert labels[-1] == 0
        start = stop


def test_a_step_in_a_tree_is_judged_as_if_it_were_read_alone(body, tokenizer):
    run = RewardRun(RewardRecipe(iterations=2), body, tokenizer, SOME)
    for batch in islice(run.batches(), 2):
        run.step(batch)
    trees_of_two = [grown(WRONG[0], Random(0)), grown(GOLD[1], Random(1))]
    batch = collate(tokenizer, trees_of_two)
    with torch.no_grad():
        logits, _ = run.model(batch)
        for row, tree in enumerate(trees_of_two):
            place = len(tokenizer(prompt_text(tree.question) + "".join(tree.steps))["input_ids"])
            for branch in tree.branches:
                place += len(tokenizer(branch.step)["input_ids"])
                steps = (*tree.steps[: branch.place], branch.step)
                ids, last = plain_rows(tokenizer, [(tree.question, steps)])
                alone = run.model.classifier(input_ids=ids).logits[0, int(last[0])]
                assert torch.allclose(logits[row, place - 1], alone, atol=1e-4)


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
    recipe = RewardRecipe(iterations=4, batch_size=4)
    whole = RewardRun(recipe, body, tokenizer, SOME)
    train(whole, log=lambda line: None)
    first = RewardRun(replace(recipe, iterations=4), body, tokenizer, SOME)
    for batch in islice(first.batches(), 2):
        first.step(batch)
    first.save(tmp_path / "c.pt")
    second = RewardRun(recipe, body, tokenizer, SOME)
    second.resume(tmp_path / "c.pt")
    train(second, log=lambda line: None)
    for mine, theirs in zip(whole.average, second.average, strict=True):
        assert torch.equal(mine, theirs)


def test_what_is_exported_gives_the_rewards_that_were_trained(tmp_path, body, tokenizer):
    run = RewardRun(RewardRecipe(iterations=3, batch_size=4), body, tokenizer, SOME)
    train(run, log=lambda line: None)
    model = run.averaged_model()
    export_reward(model, tokenizer, tmp_path / "prm")
    loaded = load_reward(tmp_path / "prm")
    assert loaded.format == "token"
    texts = [(solution.question, solution.steps) for solution in SOME]
    readings = loaded.score_steps([RewardRequest(*text) for text in texts])
    expected = last_rewards(model, tokenizer, texts)
    assert [r.rewards[-1] for r in readings] == pytest.approx(expected, abs=5e-3)


def test_the_command_line_trains_goes_on_and_evaluates(tmp_path, body, tokenizer, capsys):
    export(body, tokenizer, tmp_path / "pair")
    pair = ["--draft", str(tmp_path / "pair"), "--body", str(tmp_path / "pair")]
    common = [*pair, "--run", str(tmp_path / "run"), "--out", str(tmp_path / "prm")]
    for iterations in ("1", "2"):
        more = ["--drafted", "3", "--batch", "2", "--iterations", iterations]
        main(["reward", *common, *more])
    main(["problems", "--count", "2", "--out", str(tmp_path / "p.jsonl")])
    judged = ["--model", str(tmp_path / "prm"), "--problems", str(tmp_path / "p.jsonl")]
    main(["reward-evaluate", "--draft", str(tmp_path / "pair"), *judged])
    assert "AUC 0." in capsys.readouterr().out


def test_a_solution_without_steps_grows_gold_ones():
    tree = grown(Drafted(GOLD[0].question, GOLD[0].gold, ()), Random(0))
    assert "".join(tree.steps) == PROBLEMS[0].solution

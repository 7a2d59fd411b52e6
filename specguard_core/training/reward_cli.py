"""The reward model's part of the training command line: `reward` and `reward-evaluate`."""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import (
    LlamaForCausalLM,
    LlamaForTokenClassification,
    PreTrainedTokenizerFast,
)

from specguard_core.training.loop import resumed_and_trained
from specguard_core.training.models import export_reward
from specguard_core.training.problems import read_rows
from specguard_core.training.reward import RewardRecipe, RewardRun
from specguard_core.training.reward_data import drafted, held_out, load_drafted, save_drafted
from specguard_core.training.reward_score import THRESHOLD, evaluate_reward


def add_commands(commands: Any) -> None:
    """Adds both to the subparsers of the training command line."""
    run = commands.add_parser(
        "reward", help="train the reward model on a target's body, and write its folder"
    )
    run.add_argument("--draft", type=Path, required=True, help="whose steps it learns to judge")
    run.add_argument("--body", type=Path, required=True, help="the target it stands on")
    run.add_argument("--run", type=Path, required=True, help="checkpoint folder, taken up again")
    run.add_argument("--out", type=Path, required=True)
    run.add_argument("--iterations", type=int, required=True)
    run.add_argument("--drafted", type=int, default=18000, help="solutions of the draft")
    run.add_argument("--batch", type=int, default=16)
    run.add_argument("--rate", type=float, default=4e-4)
    run.add_argument("--save-every", type=int, default=100)
    run.set_defaults(handler=train)

    test = commands.add_parser("reward-evaluate", help="ROC AUC on held-out steps of a draft")
    test.add_argument("--draft", type=Path, required=True)
    test.add_argument("--model", type=Path, required=True)
    test.add_argument("--problems", type=Path, required=True)
    test.add_argument("--limit", type=int)
    test.set_defaults(handler=evaluate)


def train(options: argparse.Namespace) -> None:
    path = options.run / "drafted.jsonl"
    if not path.exists():
        draft, tokenizer = _model(options.draft)
        save_drafted(drafted(draft, tokenizer, options.drafted), path)
    body, tokenizer = _model(options.body)
    recipe = RewardRecipe(
        iterations=options.iterations, learning_rate=options.rate, batch_size=options.batch
    )
    run = RewardRun(recipe, body, tokenizer, load_drafted(path))
    resumed_and_trained(run, options.run / "checkpoint.pt", save_every=options.save_every)
    export_reward(run.averaged_model(), tokenizer, options.out)


def evaluate(options: argparse.Namespace) -> None:
    draft, tokenizer = _model(options.draft)
    model = LlamaForTokenClassification.from_pretrained(options.model, dtype=torch.float32)
    rows = islice(read_rows(options.problems), options.limit)
    result = evaluate_reward(model.eval(), tokenizer, held_out(draft, tokenizer, rows))
    print(
        f"AUC {result.auc:.3f} on {result.n_draws} draws, {result.n_wrong} of them wrong; reward"
        f" >= {THRESHOLD}: {result.accepted[0]:.1%} of the right ones, {result.accepted[1]:.1%} of"
        " the wrong ones"
    )


def _model(folder: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model, PreTrainedTokenizerFast.from_pretrained(folder)

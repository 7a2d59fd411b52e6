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

from specguard_core.training.problems import read_rows
from specguard_core.training.reward import (
    RewardRecipe,
    RewardRun,
    evaluate_reward,
    export_reward,
    train_reward,
)


def add_commands(commands: Any) -> None:
    """Adds both to the subparsers of the training command line."""
    run = commands.add_parser(
        "reward", help="train the reward model on steps of a draft, and write its folder"
    )
    run.add_argument("--draft", type=Path, required=True)
    run.add_argument("--checkpoint", type=Path, required=True, help="taken up where it exists")
    run.add_argument("--out", type=Path, required=True)
    run.add_argument("--iterations", type=int, required=True)
    run.add_argument("--batch", type=int, default=32)
    run.add_argument("--rate", type=float, default=2e-3)
    run.add_argument("--drafted", type=float, default=0.5, help="share of rows by the draft")
    run.set_defaults(handler=train)

    test = commands.add_parser("reward-evaluate", help="ROC AUC on held-out steps of a draft")
    test.add_argument("--draft", type=Path, required=True)
    test.add_argument("--model", type=Path, required=True)
    test.add_argument("--problems", type=Path, required=True)
    test.add_argument("--limit", type=int)
    test.set_defaults(handler=evaluate)


def train(options: argparse.Namespace) -> None:
    draft, tokenizer = _draft(options.draft)
    recipe = RewardRecipe(
        iterations=options.iterations,
        batch_size=options.batch,
        learning_rate=options.rate,
        drafted=options.drafted,
    )
    run = RewardRun(recipe, draft, tokenizer)
    if options.checkpoint.exists():
        run.resume(options.checkpoint)
    train_reward(run, options.checkpoint, log=lambda line: print(line, flush=True))
    export_reward(run.averaged_model(), tokenizer, options.out)


def evaluate(options: argparse.Namespace) -> None:
    draft, tokenizer = _draft(options.draft)
    model = LlamaForTokenClassification.from_pretrained(options.model, dtype=torch.float32)
    rows = islice(read_rows(options.problems), options.limit)
    result = evaluate_reward(model.eval(), draft, tokenizer, rows)
    print(
        f"AUC {result.auc:.3f} on {result.n_draws} draws, {result.n_wrong} of them wrong; reward"
        f" >= 0.7: {result.accepted[0]:.1%} of the right ones, {result.accepted[1]:.1%} of the"
        " wrong ones"
    )


def _draft(folder: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model, PreTrainedTokenizerFast.from_pretrained(folder)

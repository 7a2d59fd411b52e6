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
from specguard_core.training.reward_data import (
    drafted,
    load_examples,
    save_examples,
    spoilt_ones,
)


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
    run.add_argument("--drafted", type=int, default=2000, help="solutions of the draft")
    run.add_argument("--spoilt", type=int, default=2000, help="gold solutions with a spoilt step")
    run.add_argument("--rate", type=float, default=2e-3)
    run.set_defaults(handler=train)

    test = commands.add_parser("reward-evaluate", help="ROC AUC on held-out steps of a draft")
    test.add_argument("--draft", type=Path, required=True)
    test.add_argument("--model", type=Path, required=True)
    test.add_argument("--problems", type=Path, required=True)
    test.add_argument("--limit", type=int)
    test.set_defaults(handler=evaluate)


def train(options: argparse.Namespace) -> None:
    examples_path = options.run / "drafted.jsonl"
    if not examples_path.exists():
        draft, tokenizer = _model(options.draft)
        save_examples(drafted(draft, tokenizer, options.drafted), examples_path)
    examples = [*load_examples(examples_path), *spoilt_ones(options.spoilt)]
    body, tokenizer = _model(options.body)
    recipe = RewardRecipe(iterations=options.iterations, learning_rate=options.rate)
    run = RewardRun(recipe, body, tokenizer, examples)
    checkpoint = options.run / "checkpoint.pt"
    if checkpoint.exists():
        run.resume(checkpoint)
    train_reward(run, checkpoint, log=lambda line: print(line, flush=True))
    export_reward(run.whole_model(), tokenizer, options.out)


def evaluate(options: argparse.Namespace) -> None:
    draft, tokenizer = _model(options.draft)
    model = LlamaForTokenClassification.from_pretrained(options.model, dtype=torch.float32)
    rows = islice(read_rows(options.problems), options.limit)
    result = evaluate_reward(model.eval(), draft, tokenizer, rows)
    print(
        f"AUC {result.auc:.3f} on {result.n_draws} draws, {result.n_wrong} of them wrong; reward"
        f" >= 0.7: {result.accepted[0]:.1%} of the right ones, {result.accepted[1]:.1%} of the"
        " wrong ones"
    )


def _model(folder: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model, PreTrainedTokenizerFast.from_pretrained(folder)

"""Command line of the pair's making: tokenizer, problems, train, export, evaluate.

assets/models/README.md says which commands made the bundled pair.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specguard_core.training.evaluate import greedy_solutions, score
from specguard_core.training.generator import problems
from specguard_core.training.loop import resumed_and_trained
from specguard_core.training.models import SHAPES, export
from specguard_core.training.problems import Split, read_rows, write_problems
from specguard_core.training.reward_cli import add_commands as add_reward_commands
from specguard_core.training.tokenizer import train_tokenizer
from specguard_core.training.train import LanguageRun, Recipe


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    handlers: dict[str, Callable[[argparse.Namespace], None]] = {
        "tokenizer": _tokenizer,
        "problems": _problems,
        "train": _train,
        "export": _export,
        "evaluate": _evaluate,
    }
    handler = getattr(options, "handler", None) or handlers[options.command]
    handler(options)
    return 0


def _tokenizer(options: argparse.Namespace) -> None:
    stream = islice(problems("tokenizer", "train"), options.count)
    texts = (text for p in stream for text in (p.question, p.solution))
    train_tokenizer(texts).save_pretrained(options.out)


def _problems(options: argparse.Namespace) -> None:
    split: Split = options.split
    stream = problems(options.seed, split, options.steps)
    write_problems(islice(stream, options.count), options.out)


def _export(options: argparse.Namespace) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(options.tokenizer)
    run = LanguageRun(Recipe(options.model, iterations=1), tokenizer)
    run.resume(options.checkpoint)
    export(run.averaged_model(), tokenizer, options.out)


def _train(options: argparse.Namespace) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(options.tokenizer)
    recipe = Recipe(
        options.model,
        iterations=options.iterations,
        batch_size=options.batch,
        learning_rate=options.rate,
        decay_share=options.decay_share,
        practice=options.practice,
        seed=options.seed,
    )
    run = LanguageRun(recipe, tokenizer)
    resumed_and_trained(run, options.out / "checkpoint.pt", save_every=options.save_every)


def _evaluate(options: argparse.Namespace) -> None:
    model = LlamaForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(options.model)
    rows = list(islice(read_rows(options.problems), options.limit))
    gold = [[str(step) for step in row["steps"]] for row in rows]  # type: ignore[attr-defined]
    solutions = greedy_solutions(model, tokenizer, [str(row["question"]) for row in rows])
    result = score(gold, solutions)
    print(
        f"{result.right}/{result.total} = {result.accuracy:.3f}; first errors {result.first_errors}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m specguard_core.training", description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="processor threads (default 1)")
    commands = parser.add_subparsers(dest="command", required=True)

    make = commands.add_parser("tokenizer", help="learn the tokenizer from generated problems")
    make.add_argument("--count", type=int, default=20000)
    make.add_argument("--out", type=Path, required=True)

    write = commands.add_parser("problems", help="write a problem file")
    write.add_argument("--split", choices=["train", "test"], default="test")
    write.add_argument("--seed", default="0")
    write.add_argument("--count", type=int, default=500)
    write.add_argument("--steps", type=int, help="equations in each problem (default: 2 to 6)")
    write.add_argument("--out", type=Path, required=True)

    run = commands.add_parser("train", help="train, or go on where the checkpoint in --out stands")
    run.add_argument("--model", choices=list(SHAPES), required=True)
    run.add_argument("--tokenizer", type=Path, required=True)
    run.add_argument("--out", type=Path, required=True)
    run.add_argument("--iterations", type=int, required=True)
    run.add_argument("--batch", type=int, default=48)
    run.add_argument("--rate", type=float, default=3e-3)
    run.add_argument("--decay-share", type=float, default=0.25)
    run.add_argument("--practice", type=float, default=0.0, help="share of bare equations")
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--save-every", type=int, default=200)

    ship = commands.add_parser(
        "export", help="write a checkpoint's averaged weights as a model folder"
    )
    ship.add_argument("--model", choices=list(SHAPES), required=True)
    ship.add_argument("--tokenizer", type=Path, required=True)
    ship.add_argument("--checkpoint", type=Path, required=True)
    ship.add_argument("--out", type=Path, required=True)

    add_reward_commands(commands)

    test = commands.add_parser("evaluate", help="greedy accuracy of a model folder")
    test.add_argument("--model", type=Path, required=True)
    test.add_argument("--problems", type=Path, required=True)
    test.add_argument("--limit", type=int)
    return parser


if __name__ == "__main__":
    sys.exit(main())

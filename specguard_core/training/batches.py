"""Training batches: problems made on the fly, cut by length so that little is padding.

A batch is a pure function of its number. A *block* is `BATCHES_PER_BLOCK` batches: its problems are
generated from its own seed, sorted by length, cut into batches, and the batches shuffled. So a
resumed run sees what an uninterrupted one would have seen.

row       one training example: token ids, and for each whether the loss counts it
practice  a row of bare equations with no question, of which only the results count: three times
          the arithmetic for the same work, where that and not the set-up is what is lacking
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

import torch
from transformers import PreTrainedTokenizerFast

from specguard_core.training.generator import problems
from specguard_core.training.problems import STEP_DELIMITER, Problem
from specguard_core.training.tokenizer import EOS, prompt_text

BATCHES_PER_BLOCK = 50
EQUATIONS_PER_PRACTICE = 10
IGNORED = -100

Batch = tuple[torch.Tensor, torch.Tensor]
"""Ids [rows, length] and labels of that shape: the next token where it counts, else `IGNORED`."""

Row = tuple[list[int], list[bool]]


def training_batches(
    tokenizer: PreTrainedTokenizerFast,
    batch_size: int,
    seed: int,
    first: int = 0,
    practice: float = 0.0,
) -> Iterator[Batch]:
    """The endless stream of batches from number `first` on, with that share of practice rows."""
    block, skip = divmod(first, BATCHES_PER_BLOCK)
    while True:
        yield from _block(tokenizer, batch_size, f"{seed}:{block}", practice)[skip:]
        block, skip = block + 1, 0


def _block(
    tokenizer: PreTrainedTokenizerFast, batch_size: int, seed: str, practice: float
) -> list[Batch]:
    n_rows = batch_size * BATCHES_PER_BLOCK
    n_practice = round(n_rows * practice)
    stream = problems(seed, "train")
    rows = [
        *problem_rows(tokenizer, list(islice(stream, n_rows - n_practice))),
        *_practice_rows(tokenizer, stream, n_practice),
    ]
    rows.sort(key=lambda row: len(row[0]))
    batches = [
        collate(rows[i : i + batch_size], int(tokenizer.pad_token_id))
        for i in range(0, len(rows), batch_size)
    ]
    Random(seed).shuffle(batches)
    return batches


def problem_rows(tokenizer: PreTrainedTokenizerFast, made: list[Problem]) -> list[Row]:
    """Prompt and solution; the solution's tokens count, the end token included."""
    if not made:
        return []
    prompts = tokenizer([prompt_text(p.question) for p in made])["input_ids"]
    solutions = tokenizer([p.solution + EOS for p in made])["input_ids"]
    return [
        ([*prompt, *solution], [False] * len(prompt) + [True] * len(solution))
        for prompt, solution in zip(prompts, solutions, strict=True)
    ]


def _practice_rows(
    tokenizer: PreTrainedTokenizerFast, stream: Iterator[Problem], count: int
) -> list[Row]:
    equations = (equation for problem in stream for equation in problem.equations)
    start = tokenizer(prompt_text(""))["input_ids"]
    rows: list[Row] = []
    for _ in range(count):
        ids, counts = list(start), [False] * len(start)
        for equation in islice(equations, EQUATIONS_PER_PRACTICE):
            set_up = f"So {equation.left} {equation.operator} {equation.right} ="
            for text, counted in ((set_up, False), (f" {equation.result}.{STEP_DELIMITER}", True)):
                tokens = tokenizer(text)["input_ids"]
                ids += tokens
                counts += [counted] * len(tokens)
        rows.append((ids, counts))
    return rows


def collate(rows: list[Row], pad: int) -> Batch:
    """Right-padded ids, and labels set only where the next token counts."""
    length = max(len(ids) for ids, _ in rows) - 1
    inputs = torch.full((len(rows), length), pad)
    labels = torch.full((len(rows), length), IGNORED)
    for row, (ids, counts) in enumerate(rows):
        inputs[row, : len(ids) - 1] = torch.tensor(ids[:-1])
        following = torch.tensor(ids[1:]).masked_fill(~torch.tensor(counts[1:]), IGNORED)
        labels[row, : len(ids) - 1] = following
    return inputs, labels

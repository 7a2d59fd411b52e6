"""Trees as batches: a right solution and all its branches in one row, each seeing its own past.

A branch's tokens stand behind the solution's, at the positions of the step they replace, and see
the tokens before that step and one another. One pass so judges every step of a tree, right and
wrong, as if each had been read alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from specguard_core.training.reward_data import Drafted, Tree, trees
from specguard_core.training.tokenizer import prompt_text

END_WEIGHT, NUMBER_WEIGHT, WORD_WEIGHT = 1.0, 0.5, 0.1
"""Of a step's last token, of its digits and operators, of its other tokens."""
WRONG_WEIGHT = 0.8
"""Of a branch's tokens, times the above."""
_NUMBER = re.compile(r"[\d+*/=-]")


@dataclass(frozen=True, slots=True)
class RewardBatch:
    """All are [rows, length] but `mask`.

    positions   in the text that a token ends
    mask        [rows, 1, length, length]: which token (last axis) a token sees
    right       1 while a step's text may still become a right step, 0 from its first wrong number
    weight      of that label; 0 on prompt and padding
    followed    the next token is the right solution's next
    """

    ids: Tensor
    positions: Tensor
    mask: Tensor
    right: Tensor
    weight: Tensor
    followed: Tensor


@dataclass(slots=True)
class _Row:
    """branch: 0 of the solution, k of the k-th branch; past: tokens of the solution it sees."""

    ids: list[int]
    positions: list[int] = field(default_factory=list)
    branch: list[int] = field(default_factory=list)
    past: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    followed: list[bool] = field(default_factory=list)


def batches(
    tokenizer: PreTrainedTokenizerFast,
    solutions: Sequence[Drafted],
    batch_size: int,
    first: int = 0,
) -> Iterator[RewardBatch]:
    """The endless stream from number `first` on; trees of like length share a batch."""
    epoch = 0
    while True:
        grown = sorted(trees(solutions, epoch), key=_length)
        groups = [grown[i : i + batch_size] for i in range(0, len(grown), batch_size)]
        Random(epoch).shuffle(groups)
        for group in groups[first:]:
            yield collate(tokenizer, group)
        first = max(0, first - len(groups))
        epoch += 1


def _length(tree: Tree) -> int:
    steps = (*tree.steps, *(branch.step for branch in tree.branches))
    return len(tree.question) + sum(map(len, steps))


def collate(tokenizer: PreTrainedTokenizerFast, group: Sequence[Tree]) -> RewardBatch:
    """Right-padded rows."""
    rows = [_row(tokenizer, tree) for tree in group]
    length = max(len(row.ids) for row in rows)

    def padded(name: str, pad: float) -> Tensor:
        lists = [getattr(row, name) for row in rows]
        return torch.tensor([[*own, *[pad] * (length - len(own))] for own in lists])

    branch, past = padded("branch", -1), padded("past", 0)
    places = torch.arange(length)
    of_one = branch[:, :, None] == branch[:, None, :]
    of_its_past = (branch[:, None, :] == 0) & (places < past[:, :, None])
    mask = (of_one | of_its_past) & (places <= places[:, None])
    return RewardBatch(
        ids=padded("ids", int(tokenizer.pad_token_id)),
        positions=padded("positions", 0),
        mask=mask[:, None],
        right=padded("right", 0),
        weight=padded("weight", 0.0),
        followed=padded("followed", False),
    )


def _row(tokenizer: PreTrainedTokenizerFast, tree: Tree) -> _Row:
    row = _Row(list(tokenizer(prompt_text(tree.question))["input_ids"]))
    n_prompt = len(row.ids)
    row.right, row.weight = [0] * n_prompt, [0.0] * n_prompt
    starts: list[int] = []
    for step in tree.steps:
        starts.append(len(row.ids))
        _add_step(row, tokenizer, step, None)
    n_solution = len(row.ids)
    row.positions, row.past = list(range(n_solution)), [0] * n_solution
    row.branch = [0] * n_solution
    row.followed = [n_prompt - 1 <= place < n_solution - 1 for place in range(n_solution)]
    for number, branch in enumerate(tree.branches, 1):
        start = starts[branch.place]
        n = _add_step(row, tokenizer, branch.step, branch.wrong_from)
        row.positions += range(start, start + n)
        row.past += [start] * n
        row.branch += [number] * n
        row.followed += [False] * n
    return row


def _add_step(
    row: _Row, tokenizer: PreTrainedTokenizerFast, step: str, wrong_from: int | None
) -> int:
    """Ids, labels and weights of one step; returns how many tokens it has."""
    encoded = tokenizer(step, return_offsets_mapping=True)
    spans = encoded["offset_mapping"]
    row.ids += encoded["input_ids"]
    worth = 1.0 if wrong_from is None else WRONG_WEIGHT
    for start, stop in spans[:-1]:
        row.right.append(int(wrong_from is None or stop <= wrong_from))
        number = _NUMBER.search(step[start:stop])
        row.weight.append(worth * (NUMBER_WEIGHT if number else WORD_WEIGHT))
    row.right.append(int(wrong_from is None))
    row.weight.append(worth * END_WEIGHT)
    return len(spans)


def plain_rows(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[tuple[str, Sequence[str]]]
) -> tuple[Tensor, Tensor]:
    """Questions with steps -> ids [rows, length], and [rows] the index of each row's last token."""
    rows = [
        [
            *tokenizer(prompt_text(question))["input_ids"],
            *(token_id for step in steps for token_id in tokenizer(step)["input_ids"]),
        ]
        for question, steps in texts
    ]
    length = max(map(len, rows))
    pad = int(tokenizer.pad_token_id)
    ids = torch.tensor([[*row, *[pad] * (length - len(row))] for row in rows])
    return ids, torch.tensor([len(row) - 1 for row in rows])

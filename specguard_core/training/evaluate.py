"""Greedy accuracy of a model folder on problems, in batches on a KV cache.

Independent of the engine. Also says where wrong solutions first go wrong: in the set-up of a step,
or in its arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specguard_core.training.labels import boxed_of, label_of
from specguard_core.training.problems import STEP_DELIMITER
from specguard_core.training.tokenizer import prompt_text


@dataclass(frozen=True, slots=True)
class Score:
    """`right` of `total` answers; `first_errors`: wrong solutions by first wrong step."""

    right: int
    total: int
    first_errors: dict[str, int]

    @property
    def accuracy(self) -> float:
        return self.right / self.total if self.total else 0.0


@torch.no_grad()
def greedy_solutions(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    questions: Sequence[str],
    *,
    batch_size: int = 100,
    max_new_tokens: int = 160,
) -> list[str]:
    """The model's greedy solution of each question, without the end token."""
    prompts = [tokenizer(prompt_text(question))["input_ids"] for question in questions]
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    pad = int(tokenizer.pad_token_id)
    solutions = [""] * len(prompts)
    model.eval()
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        width = max(len(prompts[i]) for i in rows)
        ids = torch.full((len(rows), width), pad)
        for row, i in enumerate(rows):
            ids[row, width - len(prompts[i]) :] = torch.tensor(prompts[i])
        out = model.generate(
            ids,
            attention_mask=(ids != pad).long(),
            do_sample=False,
            max_new_tokens=max_new_tokens,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=pad,
        )
        for row, i in enumerate(rows):
            solutions[i] = str(tokenizer.decode(out[row, width:], skip_special_tokens=True))
    return solutions


def score(gold: Sequence[Sequence[str]], solutions: Sequence[str]) -> Score:
    """Compares solutions with gold steps (the last of them boxes the answer)."""
    right, kinds = 0, Counter[str]()
    for steps, solution in zip(gold, solutions, strict=True):
        if boxed_of(solution)[-1:] == boxed_of(steps[-1]):
            right += 1
        else:
            kinds[first_error(steps, solution.split(STEP_DELIMITER))] += 1
    return Score(right, len(gold), dict(kinds))


def first_error(gold: Sequence[str], given: Sequence[str]) -> str:
    for gold_step, step in zip(gold, given, strict=False):
        kind = label_of(gold_step, step)
        if kind != "right":
            return kind
    return "length"

"""Greedy accuracy of a model folder on problems.

Also says where wrong solutions first go wrong: in the set-up of a step,
or in its arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specguard_core.training.labels import boxed_of, label_of
from specguard_core.training.problems import STEP_DELIMITER
from specguard_core.training.tokenizer import prompt_text
from specguard_core.training.writing import MAX_SOLUTION_TOKENS, written


@dataclass(frozen=True, slots=True)
class Score:
    """`right` of `total` answers; `first_errors`: wrong solutions by first wrong step."""

    right: int
    total: int
    first_errors: dict[str, int]

    @property
    def accuracy(self) -> float:
        return self.right / self.total if self.total else 0.0


def greedy_solutions(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, questions: Sequence[str]
) -> list[str]:
    """The model's greedy solution of each question, without the end token."""
    prompts = [prompt_text(question) for question in questions]
    return written(model, tokenizer, prompts, max_new_tokens=MAX_SOLUTION_TOKENS)


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

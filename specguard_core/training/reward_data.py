"""What a step's reward is learned from: solutions of the draft and spoilt ones, each step labelled.

labelled    a question with steps that are right, and after them at most one that is wrong: what
            comes after a wrong step is neither
drafted     sampled by the draft; the steps before a wrong one say what the gold ones say
spoilt      gold steps, then one with a wrong number, another operand, or the step after next

Examples are a pure function of their number, so a resumed run sees what an uninterrupted one would
have seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specguard_core.training.generator import problems
from specguard_core.training.labels import step_is_right
from specguard_core.training.problems import STEP_DELIMITER, Problem
from specguard_core.training.tokenizer import prompt_text

MAX_SOLUTION_TOKENS = 160
MAX_STEP_TOKENS = 40
TEMPERATURE = 1.0
_EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Labelled:
    """`right` has a word on each of the steps."""

    question: str
    steps: tuple[str, ...]
    right: tuple[bool, ...]


def drafted(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, n_problems: int
) -> list[Labelled]:
    """A solution of each problem as the draft writes it, cut after the first wrong step."""
    stream = list(islice(problems("reward", "train"), n_problems))
    solutions = sampled_texts(
        model,
        tokenizer,
        [prompt_text(problem.question) for problem in stream],
        temperature=TEMPERATURE,
        seed=0,
    )
    return [labelled(problem, text) for problem, text in zip(stream, solutions, strict=True)]


def save_examples(examples: Iterable[Labelled], path: Path) -> None:
    """JSON lines with question, steps, right."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        json.dumps({"question": e.question, "steps": e.steps, "right": e.right}) for e in examples
    )
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def load_examples(path: Path) -> list[Labelled]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Labelled(row["question"], tuple(row["steps"]), tuple(row["right"])) for row in rows]


@torch.no_grad()
def sampled_texts(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    prefixes: Sequence[str],
    *,
    temperature: float,
    seed: int,
    top_p: float = 1.0,
    max_new_tokens: int = MAX_SOLUTION_TOKENS,
    batch_size: int = 128,
) -> list[str]:
    """What the model writes after each text, without the end token."""
    encoded = [tokenizer(prefix)["input_ids"] for prefix in prefixes]
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
    pad = int(tokenizer.pad_token_id)
    texts = [""] * len(encoded)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            width = max(len(encoded[i]) for i in rows)
            ids = torch.full((len(rows), width), pad)
            for row, i in enumerate(rows):
                ids[row, width - len(encoded[i]) :] = torch.tensor(encoded[i])
            out = model.generate(
                ids,
                attention_mask=(ids != pad).long(),
                do_sample=True,
                temperature=temperature,
                top_p=top_p,
                top_k=0,
                max_new_tokens=max_new_tokens,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=pad,
            )
            for row, i in enumerate(rows):
                texts[i] = str(tokenizer.decode(out[row, width:], skip_special_tokens=True))
    return texts


def labelled(problem: Problem, solution: str) -> Labelled:
    """A solution's steps up to the first that says other than the gold one in its place."""
    steps: list[str] = []
    right: list[bool] = []
    parts = solution.split(STEP_DELIMITER)
    for index, (gold, step) in enumerate(zip(problem.steps, parts, strict=False)):
        steps.append(step + STEP_DELIMITER if index + 1 < len(parts) else step)
        right.append(step_is_right(gold, step))
        if not right[-1]:
            break
    return Labelled(problem.question, tuple(steps), tuple(right))


def spoilt_ones(n_problems: int) -> list[Labelled]:
    """One spoilt solution of each problem."""
    rng = Random("spoilt")
    stream = problems("spoilt", "train")
    return [spoilt(problem, rng) for problem in islice(stream, n_problems)]


def spoilt(problem: Problem, rng: Random) -> Labelled:
    """Gold steps up to a random place, and a wrong one there."""
    index = rng.randrange(len(problem.steps))
    gold = problem.steps[index]
    step = gold
    while step_is_right(gold, step):
        step = _spoilt_step(problem, index, rng)
    last = index + 1 == len(problem.steps)
    given = [*(text + STEP_DELIMITER for text in problem.steps[:index])]
    given.append(step if last and "boxed" in step else step + STEP_DELIMITER)
    return Labelled(problem.question, tuple(given), (True,) * index + (False,))


def _spoilt_step(problem: Problem, index: int, rng: Random) -> str:
    gold = problem.steps[index]
    match = _EQUATION.search(gold)
    others = [step for step in problem.steps if step != gold]
    if match is None:
        # The answer's sentence: another number of the problem, or one nearby.
        said = _NUMBER.findall(" ".join((problem.question, *problem.steps)))
        number = rng.choice(said) if rng.random() < 0.5 else _near(_first_number(gold), rng)
        return _NUMBER.sub(number, gold)
    left, operator, right, result = match.groups()
    kind = rng.random()
    if kind < 0.4:
        result = _near(int(result), rng)
    elif kind < 0.8:
        said = _NUMBER.findall(" ".join((problem.question, *problem.steps[:index])))
        if rng.random() < 0.3:
            operator = rng.choice("+-*/")
        if rng.random() < 0.5:
            left = rng.choice(said)
        else:
            right = rng.choice(said)
        result = _value(int(left), operator, int(right))
    else:
        return rng.choice(others)
    return gold[: match.start()] + f"{left} {operator} {right} = {result}" + gold[match.end() :]


def _first_number(text: str) -> int:
    """The first number of a text."""
    found = _NUMBER.search(text)
    return 0 if found is None else int(found.group())


def _near(value: int, rng: Random) -> str:
    """Another value as slips make them: one digit wrong, mostly by little."""
    if rng.random() < 0.5:
        return str(abs(value + rng.choice((-10, -2, -1, 1, 2, 10, 100, -100))))
    digits = list(str(value))
    place = rng.randrange(len(digits))
    digits[place] = str(rng.randrange(10))
    return "".join(digits)


def _value(left: int, operator: str, right: int) -> str:
    match operator:
        case "+":
            return str(left + right)
        case "-":
            return str(abs(left - right))
        case "*":
            return str(left * right)
        case _:
            return str(left // max(right, 1))


def held_out(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    rows: Iterable[dict[str, object]],
    n_draws: int = 4,
) -> list[tuple[Labelled, int]]:
    """Steps the draft samples after gold ones, as `specguard` would (temperature 0.7, top-p 0.8).

    Each with the number of draws that were this step.
    """
    places: list[tuple[str, tuple[str, ...], str]] = []
    for row in rows:
        gold = [str(step) for step in row["steps"]]  # type: ignore[attr-defined]
        earlier = [step + STEP_DELIMITER for step in gold]
        question = str(row["question"])
        places += [(question, tuple(earlier[:i]), step) for i, step in enumerate(gold)]
    prefixes = [prompt_text(question) + "".join(earlier) for question, earlier, _ in places]
    texts = sampled_texts(
        model,
        tokenizer,
        [prefix for prefix in prefixes for _ in range(n_draws)],
        temperature=0.7,
        top_p=0.8,
        seed=0,
        max_new_tokens=MAX_STEP_TOKENS,
    )
    found: list[tuple[Labelled, int]] = []
    for place, (question, earlier_steps, gold_step) in enumerate(places):
        draws = [_first_step(text) for text in texts[place * n_draws : (place + 1) * n_draws]]
        for step in dict.fromkeys(draws):
            right = step_is_right(gold_step, step.removesuffix(STEP_DELIMITER))
            words = (True,) * len(earlier_steps) + (right,)
            found.append((Labelled(question, (*earlier_steps, step), words), draws.count(step)))
    return found


def _first_step(text: str) -> str:
    step, delimiter, _ = text.partition(STEP_DELIMITER)
    return step + delimiter

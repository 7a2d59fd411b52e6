"""Whether a sampled step says the right numbers, whatever its wording. Pure text; knows no model.

right    the step's equations equal the gold step's (operands of a sum or a product in any order);
         for the answer's sentence, the boxed number equals the gold one
"""

from __future__ import annotations

import re
from typing import Literal

from specguard_core.equations import equations

_BOXED = re.compile(r"\\boxed\{\s*([^{}]*?)\s*\}")

_SAID = re.compile(r"\\boxed|\d")
_PLAIN_EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")

StepLabel = Literal["right", "arithmetic", "set-up"]


def boxed_of(text: str) -> tuple[str, ...]:
    r"""What each `\boxed{...}` of a text holds, in order."""
    return tuple(_BOXED.findall(text))


def step_is_right(gold_step: str, step: str) -> bool:
    """True when `step` states exactly the equations and the boxed numbers of `gold_step`."""
    return equations(gold_step) == equations(step) and boxed_of(gold_step) == boxed_of(step)


def label_of(gold_step: str, step: str) -> StepLabel:
    """`right`; `arithmetic`: the gold operands with a wrong result; `set-up`: anything else."""
    if step_is_right(gold_step, step):
        return "right"
    gold, given = _left_sides(gold_step), _left_sides(step)
    same_set_up = gold and gold == given and boxed_of(gold_step) == boxed_of(step)
    return "arithmetic" if same_set_up else "set-up"


def _left_sides(step: str) -> list[str]:
    return sorted(equation.partition("=")[0] for equation in equations(step).elements())


def first_difference(gold_step: str, step: str) -> int:
    """Where in the text of a wrong step its numbers first leave the gold ones: a character's index.

    Its last character before the delimiter where no number does, or where it says none.
    """
    stated = _SAID.search(step)
    last = len(step.rstrip()) - 1
    if stated is None:
        return last
    given = step[stated.start() :]
    agreed = max(_agreed(way, given) for way in _ways_to_say(gold_step))
    return min(stated.start() + agreed, last)


def _ways_to_say(gold_step: str) -> list[str]:
    """What follows a step's words: its equation, operands either way round, or the boxed answer."""
    match = _PLAIN_EQUATION.search(gold_step)
    if match is None:
        start = _SAID.search(gold_step)
        return [gold_step[start.start() :].rstrip(".")] if start else [""]
    left, operator, right, result = match.groups()
    ways = [f"{left} {operator} {right} = {result}"]
    return [*ways, f"{right} {operator} {left} = {result}"] if operator in "+*" else ways


def _agreed(way: str, given: str) -> int:
    pairs = enumerate(zip(way, given, strict=False))
    return next((i for i, (one, other) in pairs if one != other), min(len(way), len(given)))

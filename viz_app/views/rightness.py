"""Whether a step is right, how that is known, and which steps of a run are not. Pure.

label        whether a step is right, and by what; None where it is not known
known        what there is to hold a step against: the known solution's steps, the gold answer
left behind  after a wrong step was kept, later ones are no longer held against the gold answer,
             and after one that is not the known solution's, none against that solution
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from specguard_core.equations import equation_errors, find_equations
from specguard_core.training.labels import boxed_of, step_is_right
from specguard_core.types import Trace
from viz_app.gold import Gold
from viz_app.views.tokens import plain_text

Basis = Literal["gold steps", "answer", "equations"]
_OPERATOR = re.compile(r"(?<=[\d)%])([-+*/=])")
_MOST_TEXT = 60


@dataclass(frozen=True, slots=True)
class Known:
    """steps: of the known solution; answer: the gold one. None: not given, or left behind."""

    steps: tuple[str, ...] | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why a step is wrong, in words that go on from "though": "3 / 2 = 1 does not hold".

    certain: whatever the way to the answer; a step may leave the known solution and be right.
    """

    reason: str
    certain: bool


def known_steps(trace: Trace, gold: Gold) -> list[Known]:
    """What each step of a run could be held against, and at last the step to come."""
    now = Known(gold.get(trace.problem.strip()), trace.gold)
    found = [now]
    for step in trace.steps:
        text = plain_text(step.output, trace.pieces)
        right, basis = label(text, now.steps, step.index, now.answer)
        if right is False:
            now = replace(now, answer=None)
        if basis != "gold steps" or not right:
            now = replace(now, steps=None)
        found.append(now)
    return found


@lru_cache(maxsize=4096)
def label(
    text: str, known: Sequence[str] | None, index: int, answer: str | None
) -> tuple[bool | None, Basis | None]:
    """Whether a step is right, and by what: gold steps, else the gold answer, else equations.

    known and answer are None where they say nothing: not given, or left behind by the text so far.
    """
    if known is not None and index < len(known):
        return step_is_right(known[index], text), "gold steps"
    boxed = boxed_of(text)
    if answer is not None and boxed:
        return _number(boxed[-1]) == _number(answer), "answer"
    if find_equations(text):
        return not equation_errors(text), "equations"
    return None, None


def wrong(text: str, known: Known, index: int) -> Wrong | None:
    """What is wrong with a step's text; None where nothing is known to be."""
    if label(text, known.steps, index, known.answer)[0] is not False:
        return None
    errors = equation_errors(text)
    if errors:
        return Wrong(f"{_spaced(errors[0].text)} does not hold", certain=True)
    if known.steps is None or index >= len(known.steps):
        return Wrong(f"the gold answer is {known.answer}", certain=True)
    solution = _short(known.steps[index])
    return Wrong(f"the known solution has \u201c{solution}\u201d", certain=False)


def wrong_steps(trace: Trace, gold: Gold, right: bool | None) -> dict[int, Wrong]:
    """The kept steps that are wrong, by index; `right`: whether the run's answer is.

    Another way than the known one is a fault only where it led to a wrong answer.
    """
    found = {}
    for step, known in zip(trace.steps, known_steps(trace, gold)[:-1], strict=True):
        one = wrong(plain_text(step.output, trace.pieces), known, step.index)
        if one is not None and (one.certain or right is False):
            found[step.index] = one
    return found


def _spaced(equation: str) -> str:
    return _OPERATOR.sub(r" \1 ", equation)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_TEXT else line[: _MOST_TEXT - 1] + "…"


def _number(text: str) -> Fraction | str:
    cleaned = text.replace(",", "").replace("$", "").strip()
    try:
        return Fraction(cleaned)
    except (ValueError, ZeroDivisionError):
        return cleaned

"""What an Abacus problem is: values, the split, the text of a solution. Knows no frame, no torch.

frame       one kind of event that a problem tells ("buys 8 more"), worth one or two steps
step        one sentence with one equation; a solution is 2 to 6 of them and the answer's sentence
distractor  a sentence whose number no equation of the gold solution holds
split       train or test, decided by a hash of frames and equations, so no wording can leak it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Operator = Literal["+", "-", "*", "/"]
Split = Literal["train", "test"]

STEP_DELIMITER = "\n\n"
MAX_VALUE = 999
MAX_FACTOR = 12
TEST_SHARE = 20
"""One structure in this many belongs to the test split."""


@dataclass(frozen=True, slots=True)
class Equation:
    """`left operator right = result` in whole numbers <= 999; a multiplier or divisor is <= 12."""

    left: int
    operator: Operator
    right: int

    def __post_init__(self) -> None:
        if not all(0 <= value <= MAX_VALUE for value in (self.left, self.right)):
            raise ValueError(
                f"operands must lie in [0, {MAX_VALUE}], got {self.left}, {self.right}"
            )
        if self.operator == "/" and (self.right == 0 or self.left % self.right):
            raise ValueError(f"{self.left} / {self.right} is not a whole number")
        small = self.right if self.operator == "/" else min(self.left, self.right)
        if self.operator in "*/" and small > MAX_FACTOR:
            raise ValueError(f"a multiplier or divisor is at most {MAX_FACTOR}, got {self}")
        if not 0 <= self.result <= MAX_VALUE:
            raise ValueError(f"the result must lie in [0, {MAX_VALUE}], got {self.result}")

    @property
    def result(self) -> int:
        match self.operator:
            case "+":
                return self.left + self.right
            case "-":
                return self.left - self.right
            case "*":
                return self.left * self.right
            case "/":
                return self.left // self.right

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right} = {self.result}"


@dataclass(frozen=True, slots=True)
class Problem:
    """A question, its gold steps (the answer's sentence included) and the equations they hold."""

    question: str
    steps: tuple[str, ...]
    equations: tuple[Equation, ...]
    frames: tuple[str, ...]
    distractors: tuple[int, ...]

    @property
    def answer(self) -> int:
        return self.equations[-1].result

    @property
    def solution(self) -> str:
        return STEP_DELIMITER.join(self.steps)

    @property
    def structure(self) -> str:
        """Frames and equations without names, objects or wording: what the split is decided by."""
        return "|".join((*self.frames, *map(str, self.equations)))

    @property
    def split(self) -> Split:
        digest = hashlib.sha256(self.structure.encode()).digest()
        return "test" if int.from_bytes(digest[:4], "big") % TEST_SHARE == 0 else "train"

    @property
    def id(self) -> str:
        return "abacus-" + hashlib.sha256(self.question.encode()).hexdigest()[:10]


def answer_sentence(answer: int) -> str:
    return f"The answer is \\boxed{{{answer}}}."


def write_problems(problems: Iterable[Problem], path: Path) -> int:
    """JSON lines with id, question, answer, steps. Returns how many were written."""
    rows = [
        {"id": p.id, "question": p.question, "answer": str(p.answer), "steps": list(p.steps)}
        for p in problems
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return len(rows)


def read_rows(path: Path) -> Iterator[dict[str, object]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)

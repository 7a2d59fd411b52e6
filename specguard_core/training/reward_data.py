"""What a step's reward is learned from: right solutions, and wrong steps beside theirs.

tree      a question, the steps of a right solution, and branches from it
branch    a wrong step in the place of one of them; what comes after a wrong step is neither right
          nor wrong, so a branch is one step long
drafted   sampled by the draft; the steps before a wrong one say what the gold ones say
spoilt    a gold step with a wrong number, another operand, or another step altogether

Trees are a pure function of their epoch, so a resumed run sees what an uninterrupted one would
have seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from random import Random

from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specguard_core.training.generator import problems
from specguard_core.training.labels import first_difference, step_is_right
from specguard_core.training.problems import STEP_DELIMITER
from specguard_core.training.tokenizer import prompt_text
from specguard_core.training.writing import MAX_SOLUTION_TOKENS, Sampling, written

MAX_STEP_TOKENS = 40
SPOILT_SHARE = 0.4
"""Of an epoch's trees, those the draft has no part in."""
_EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Drafted:
    """What the draft wrote to a question, and the gold steps; `steps` end at the first wrong one.

    gold    without delimiters
    steps   with them, as they were written
    """

    question: str
    gold: tuple[str, ...]
    steps: tuple[str, ...]

    @property
    def wrong_place(self) -> int | None:
        """The index of the wrong step, if there is one: always the last."""
        last = len(self.steps) - 1
        is_right = step_is_right(self.gold[last], self.steps[last].removesuffix(STEP_DELIMITER))
        return None if is_right else last


@dataclass(frozen=True, slots=True)
class Branch:
    """A wrong step in place `place`; the character at `wrong_from` is the first wrong one."""

    place: int
    step: str
    wrong_from: int


@dataclass(frozen=True, slots=True)
class Tree:
    """Steps and branches hold their delimiters."""

    question: str
    steps: tuple[str, ...]
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Draw:
    """A step the draft sampled `count` times after gold steps, and whether it is right."""

    question: str
    earlier: tuple[str, ...]
    step: str
    right: bool
    count: int


def drafted(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, n_problems: int
) -> list[Drafted]:
    """A solution of each problem as the draft writes it, cut after the first wrong step."""
    stream = list(islice(problems("reward", "train"), n_problems))
    solutions = written(
        model,
        tokenizer,
        [prompt_text(problem.question) for problem in stream],
        max_new_tokens=MAX_SOLUTION_TOKENS,
        sampling=Sampling(temperature=1.0),
        batch_size=512,
    )
    return [
        cut(problem.question, problem.steps, solution)
        for problem, solution in zip(stream, solutions, strict=True)
    ]


def cut(question: str, gold: Sequence[str], solution: str) -> Drafted:
    """A solution's steps up to the first that says other than the gold one in its place."""
    steps: list[str] = []
    parts = solution.split(STEP_DELIMITER)
    for index, (right, step) in enumerate(zip(gold, parts, strict=False)):
        steps.append(step + STEP_DELIMITER if index + 1 < len(parts) else step)
        if not step_is_right(right, step):
            break
    return Drafted(question, tuple(gold), tuple(steps))


def save_drafted(solutions: Iterable[Drafted], path: Path) -> None:
    """JSON lines with question, gold, steps."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(asdict(solution)) for solution in solutions)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def load_drafted(path: Path) -> list[Drafted]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Drafted(row["question"], tuple(row["gold"]), tuple(row["steps"])) for row in rows]


def trees(solutions: Sequence[Drafted], epoch: int) -> list[Tree]:
    """One epoch: all wrong solutions of the draft, half as many right ones, and spoilt ones."""
    rng = Random(f"tree{epoch}")
    wrong = [s for s in solutions if s.wrong_place is not None]
    right = [s for s in solutions if s.wrong_place is None]
    taken = [*wrong, *rng.sample(right, min(len(right), len(wrong) // 2))]
    n_spoilt = max(1, round(len(taken) * SPOILT_SHARE / (1 - SPOILT_SHARE)))
    fresh = islice(problems(f"spoilt{epoch}", "train"), n_spoilt)
    found = [
        *(grown(solution, rng) for solution in taken),
        *(grown(Drafted(p.question, p.steps, ()), rng) for p in fresh),
    ]
    rng.shuffle(found)
    return found


def grown(solution: Drafted, rng: Random) -> Tree:
    """Right steps in the draft's words or the gold ones, and a wrong one beside most of them."""
    gold, last = solution.gold, len(solution.gold) - 1
    steps = [_ended(step) for step in gold]
    branches: list[Branch] = []
    wrong = solution.wrong_place if solution.steps else None
    for place, step in enumerate(solution.steps[:last]):
        if place != wrong and rng.random() < 0.7:
            steps[place] = step
    if wrong is not None:
        step = solution.steps[wrong]
        branches.append(Branch(wrong, step, first_difference(gold[wrong], step)))
    for place in range(len(gold)):
        # The answer's sentence is copied, and hardly ever wrong.
        if place == wrong or (place == last and rng.random() < 0.6):
            continue
        step = spoilt(solution.question, gold, place, rng)
        branches.append(Branch(place, _ended(step), first_difference(gold[place], step)))
    return Tree(solution.question, tuple(steps), tuple(branches))


def _ended(step: str) -> str:
    return step if "boxed" in step else step + STEP_DELIMITER


def spoilt(question: str, gold: Sequence[str], place: int, rng: Random) -> str:
    """A wrong step instead of the gold one at `place`."""
    step = gold[place]
    while step_is_right(gold[place], step):
        step = _spoilt_once(question, gold, place, rng)
    return step


def _spoilt_once(question: str, gold: Sequence[str], place: int, rng: Random) -> str:
    """One try, in one of the ways a draft goes wrong; it may come out right by chance."""
    step = gold[place]
    match = _EQUATION.search(step)
    if match is None:
        # The answer's sentence: another number of the problem, or one nearby.
        said = _NUMBER.findall(" ".join((question, *gold)))
        number = rng.choice(said) if rng.random() < 0.5 else _near(_first_number(step), rng)
        return _NUMBER.sub(number, step)
    left, operator, right, result = match.groups()
    kind = rng.random()
    if kind < 0.2:
        return _NUMBER.sub(left, gold[-1])  # it answers with what it has so far
    if kind < 0.4 and _EQUATION.search(gold[place + 1]):
        return _next_step_on(left, gold[place + 1])
    if kind < 0.5:
        return rng.choice([other for other in gold if other != step])
    if kind < 0.75:
        result = _near(int(result), rng)
    else:
        said = _NUMBER.findall(" ".join((question, *gold[:place])))
        if rng.random() < 0.3:
            operator = rng.choice("+-*/")
        if rng.random() < 0.5:
            left = rng.choice(said)
        else:
            right = rng.choice(said)
        result = _value(int(left), operator, int(right))
    return step[: match.start()] + f"{left} {operator} {right} = {result}" + step[match.end() :]


def _next_step_on(left: str, following: str) -> str:
    """The step after, as if this one were no step: on the value that this one starts from."""
    return _EQUATION.sub(
        lambda found: (
            f"{left} {found[2]} {found[3]} = {_value(int(left), found[2], int(found[3]))}"
        ),
        following,
    )


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
) -> list[Draw]:
    """Steps the draft samples after gold ones, as in a run (temperature 0.7, top-p 0.8)."""
    places: list[tuple[str, tuple[str, ...], str]] = []
    for row in rows:
        gold = [str(step) for step in row["steps"]]  # type: ignore[attr-defined]
        earlier = [step + STEP_DELIMITER for step in gold]
        question = str(row["question"])
        places += [(question, tuple(earlier[:i]), step) for i, step in enumerate(gold)]
    prefixes = [prompt_text(question) + "".join(earlier) for question, earlier, _ in places]
    texts = written(
        model,
        tokenizer,
        [prefix for prefix in prefixes for _ in range(n_draws)],
        max_new_tokens=MAX_STEP_TOKENS,
        sampling=Sampling(temperature=0.7, top_p=0.8),
    )
    found: list[Draw] = []
    for place, (question, before, gold_step) in enumerate(places):
        draws = [_first_step(text) for text in texts[place * n_draws : (place + 1) * n_draws]]
        for step in dict.fromkeys(draws):
            right = step_is_right(gold_step, step.removesuffix(STEP_DELIMITER))
            found.append(Draw(question, before, step, right, draws.count(step)))
    return found


def _first_step(text: str) -> str:
    step, delimiter, _ = text.partition(STEP_DELIMITER)
    return step + delimiter

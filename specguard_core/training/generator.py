"""Composes frames into problems of 2 to 6 steps. Seeded and pure; knows no torch and no tokenizer.

A problem starts with an opener, goes on with events of the running value's domain, and ends with a
question. Two in five problems also tell a distractor. No frame occurs twice in a problem. The
numbers are mostly below 200, so that the arithmetic stays learnable by models of a million weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from specguard_core.training.events import EVENT_DISTRACTORS, EVENTS, QUESTIONS, STILL_DISTRACTORS
from specguard_core.training.openers import OPENERS
from specguard_core.training.problems import (
    MAX_FACTOR,
    MAX_VALUE,
    Equation,
    Operator,
    Problem,
    Split,
    answer_sentence,
)
from specguard_core.training.wording import CONTAINERS, NAMES, THINGS, Domain, Frame, Range

STEP_WEIGHTS: dict[int, float] = {2: 0.26, 3: 0.28, 4: 0.22, 5: 0.14, 6: 0.10}
"""Share of problems by number of equations: the default size range, 2 to 6."""
DISTRACTED_SHARE = 0.4
PERCENT_DIVISORS = {50: 2, 25: 4, 20: 5, 10: 10}
MAX_TRIES = 60

FRAME_NAMES: tuple[str, ...] = tuple(frame.name for frame in (*OPENERS, *EVENTS))

_LEANS_ON_THE_LAST = re.compile(r"\b([Hh]e|[Ss]he|It|them|does|these|this|more\.|as many\.)")
"""A sentence that would be misread if an idle one came right before it."""


class _DoesNotFitError(Exception):
    """This frame's numbers cannot be drawn for this running value; another frame is tried."""


@dataclass(slots=True)
class _Draft:
    """A problem being told: the running value, whose it is, and what has been said so far."""

    rng: Random
    name: str
    pronoun: str
    things: str
    container: str
    value: int = 0
    domain: Domain = "start"
    pronoun_is_clear: bool = False
    asks: Sequence[str] = ()
    told: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    equations: list[Equation] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)
    spoken_for: set[str] = field(default_factory=set)

    def other_person(self) -> tuple[str, str]:
        name, pronoun = self.rng.choice([p for p in NAMES if p[0] not in self.spoken_for])
        self.spoken_for.add(name)
        return name, pronoun

    def other(self, words: Sequence[str]) -> str:
        word = self.rng.choice([word for word in words if word not in self.spoken_for])
        self.spoken_for.add(word)
        return word


def generate(rng: Random, n_steps: int | None = None) -> Problem:
    """One problem of `n_steps` equations (default: drawn from `STEP_WEIGHTS`), of either split."""
    sizes = list(STEP_WEIGHTS)
    while True:
        wanted = n_steps or rng.choices(sizes, list(STEP_WEIGHTS.values()))[0]
        problem = _attempt(rng, wanted)
        if problem is not None:
            return problem


def problems(seed: int | str, split: Split, n_steps: int | None = None) -> Iterator[Problem]:
    """An endless stream of one split's problems; equal seeds give equal streams."""
    rng = Random(f"abacus:{split}:{seed}")
    while True:
        problem = generate(rng, n_steps)
        if problem.split == split:
            yield problem


def _attempt(rng: Random, n_steps: int) -> Problem | None:
    name, pronoun = rng.choice(NAMES)
    things, container = rng.choice(THINGS), rng.choice(CONTAINERS)
    draft = _Draft(rng, name, pronoun, things, container, spoken_for={name, things, container})
    _tell_next(draft, OPENERS, n_steps)
    while draft.domain != "start" and len(draft.equations) < n_steps:
        choices = [f for f in EVENTS if f.domain == draft.domain and f.name not in draft.frames]
        if not _tell_next(draft, choices, n_steps - len(draft.equations)):
            return None
    numbers = _insert_distractors(draft)
    asks = draft.asks or QUESTIONS[draft.domain]
    draft.told.append(rng.choice(asks).format(N=draft.name, o=draft.things))
    draft.steps.append(answer_sentence(draft.value))
    return Problem(
        " ".join(draft.told),
        tuple(draft.steps),
        tuple(draft.equations),
        tuple(draft.frames),
        tuple(numbers),
    )


def _tell_next(draft: _Draft, choices: Sequence[Frame], n_left: int) -> bool:
    """Adds one fitting frame to the draft; False when none was found in `MAX_TRIES`."""
    fitting = [f for f in choices if len(f.ops) <= n_left and (not f.asks or len(f.ops) == n_left)]
    if not fitting:
        return False
    weights = [frame.weight for frame in fitting]
    for _ in range(MAX_TRIES):
        frame = draft.rng.choices(fitting, weights)[0]
        try:
            _tell(draft, frame)
        except _DoesNotFitError:
            continue
        return True
    return False


def _tell(draft: _Draft, frame: Frame) -> None:
    rng = draft.rng
    numbers = [_number(rng, wanted, draft.value) for wanted in frame.ranges]
    n, m = (*numbers, 0, 0)[:2]
    equations = _equations(frame, draft.value, n, m)
    friend, friend_pronoun = draft.other_person() if _mentions(frame, "{F}") else ("", "")
    container = draft.other(CONTAINERS) if frame.things == "container" else draft.container
    bought = draft.other(THINGS) if draft.domain == "dollars" and _mentions(frame, "{o}") else ""
    use_pronoun = draft.pronoun_is_clear and rng.random() < 0.45
    tell = rng.choice(frame.tells)
    pronoun = draft.pronoun if tell.startswith("{S}") else draft.pronoun.lower()
    words = {
        "N": draft.name, "S": pronoun if use_pronoun else draft.name, "F": friend, "n": n, "m": m,
        "o": bought or draft.things, "c": container,
    }  # fmt: skip
    draft.told.append(tell.format(**words))
    for wordings, equation in zip(frame.steps, equations, strict=True):
        draft.steps.append(rng.choice(wordings).format(**words, e=equation))
    draft.frames.append(frame.name)
    draft.equations += equations
    draft.value = equations[-1].result if equations else n
    draft.domain = frame.to or draft.domain
    draft.pronoun_is_clear = frame.owner == "same"
    draft.asks = frame.asks
    if frame.owner == "other":
        draft.name, draft.pronoun = friend, friend_pronoun
    if frame.things == "container":
        draft.things = container


def _mentions(frame: Frame, placeholder: str) -> bool:
    return any(placeholder in text for text in frame.tells)


def _equations(frame: Frame, value: int, n: int, m: int) -> list[Equation]:
    known = {"v": value, "n": n, "m": m, "d": PERCENT_DIVISORS.get(n, 0)}
    made: list[Equation] = []
    for left, operator, right in frame.ops:
        if made:
            known["r"] = made[-1].result
        operands = [known[x] if x in known else int(x) for x in (left, right)]
        made.append(_checked(operands[0], operator, operands[1]))
    return made


def _checked(left: int, operator: str, right: int) -> Equation:
    operators: dict[str, Operator] = {"+": "+", "-": "-", "*": "*", "/": "/"}
    try:
        equation = Equation(left, operators[operator], right)
    except ValueError as error:
        raise _DoesNotFitError from error
    if equation.result < 1:
        raise _DoesNotFitError
    return equation


def _number(rng: Random, wanted: Range, value: int) -> int:
    match wanted:
        case "tiny":
            return rng.randint(2, 9)
        case "small":
            return rng.randint(2, 9) if rng.random() < 0.85 else rng.randint(2, MAX_FACTOR)
        case "add":
            return _spread(rng, MAX_VALUE)
        case "take":
            return _spread(rng, value - 1)
        case "over":
            return value + _spread(rng, MAX_VALUE - value)
        case "times":
            if value > 100:
                raise _DoesNotFitError
            return rng.randint(2, 9 if value <= 12 else 4 if value <= 40 else 2)
        case "divide":
            divisors = [d for d in range(2, MAX_FACTOR + 1) if value % d == 0 and value // d >= 2]
            if not divisors or value > 400:
                raise _DoesNotFitError
            return rng.choice(divisors)
        case "percent":
            fitting = [p for p, divisor in PERCENT_DIVISORS.items() if value % divisor == 0]
            if not fitting:
                raise _DoesNotFitError
            return rng.choice(fitting)


def _spread(rng: Random, highest: int) -> int:
    """Mostly below 30, sometimes below 100, seldom up to 300; never above `highest`."""
    top = rng.choices((30, 99, 300), (0.76, 0.20, 0.04))[0]
    if highest < 2:
        raise _DoesNotFitError
    return rng.randint(2, min(top, highest))


def _insert_distractors(draft: _Draft) -> list[int]:
    """Adds one or two idle sentences; their numbers occur in no equation of the solution."""
    rng = draft.rng
    if rng.random() >= DISTRACTED_SHARE:
        return []
    used = {x for e in draft.equations for x in (e.left, e.right, e.result)} | {draft.value}
    wordings = [rng.choice(EVENT_DISTRACTORS)]
    if rng.random() < 0.4:
        wordings.append(rng.choice(STILL_DISTRACTORS))
    numbers = rng.sample([x for x in range(2, 60) if x not in used], len(wordings))
    for number, wording in zip(numbers, wordings, strict=True):
        places = [
            i for i, text in enumerate(draft.told) if i and not _LEANS_ON_THE_LAST.search(text)
        ]
        place = rng.choice([*places, len(draft.told)])
        draft.told.insert(place, _idle_sentence(draft, wording, number))
    return numbers


def _idle_sentence(draft: _Draft, wording: str, number: int) -> str:
    other_things = draft.other(THINGS)
    same = draft.domain == "things" and draft.rng.random() < 0.4
    return wording.format(
        N=draft.name,
        F=draft.other_person()[0],
        G=draft.other_person()[0],
        n=number,
        x=other_things,
        y=draft.things if same else other_things,
    )

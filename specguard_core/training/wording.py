"""How a frame is described, and the step wordings that many share. Knows no numbers, no randomness.

Placeholders: {N} the person, {S} the person or a pronoun, {F} another person, {n} and {m} the
frame's numbers, {o} the things counted, {c} a container, {e} the step's equation.
Each set of wordings runs from short to long, so that length betrays neither a frame nor an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Domain = Literal["start", "things", "dollars", "minutes", "kilometers"]
Range = Literal["tiny", "small", "add", "take", "times", "divide", "percent", "over"]
Wordings = tuple[str, ...]
Operation = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Frame:
    """One kind of event.

    `ops` are its equations in order: v is the running value, n and m the frame's numbers (d the
    divisor that n percent stands for), r the previous result, or a number. `steps` holds the
    wordings of each.
    """

    name: str
    domain: Domain
    ops: tuple[Operation, ...]
    ranges: tuple[Range, ...]
    tells: Wordings
    steps: tuple[Wordings, ...]
    to: Domain | None = None
    owner: Literal["same", "other"] = "same"
    things: Literal["same", "container"] = "same"
    asks: Wordings = ()
    weight: float = 1.0


HAS: Wordings = (
    "Now {N} has {e} {o}.",
    "That makes {e} {o}.",
    "So {N} now has a total of {e} {o}.",
    "With these, the number of {o} becomes {e}.",
)
LEFT: Wordings = (
    "Then {N} has {e} {o}.",
    "That leaves {e} {o}.",
    "So {N} is left with {e} {o} after that.",
    "Without these, the number of {o} becomes {e}.",
)
OTHER: Wordings = (
    "{F} has {e} {o}.",
    "That gives {F} {e} {o}.",
    "So {F} has a total of {e} {o}.",
    "For {F}, the number of {o} is {e}.",
)
PART: Wordings = (
    "That part is {e} {o}.",
    "This is {e} {o}.",
    "The part that goes away is {e} {o}.",
    "So the number of {o} in that part is {e}.",
)
BATCH: Wordings = (
    "That is {e} {o}.",
    "In total this is {e} {o}.",
    "So the number of {o} for this is {e}.",
    "All of them together come to {e} {o}.",
)
GROUPS: Wordings = (
    "The {c} hold {e} {o}.",
    "That is {e} {o}.",
    "So in all the {c} there are {e} {o}.",
    "Together, the number of {o} is {e}.",
)
COST: Wordings = (
    "That costs {e} dollars.",
    "The cost is {e} dollars.",
    "So all of these cost {e} dollars.",
    "In total, the price for them is {e} dollars.",
)
PAY: Wordings = (
    "The pay is {e} dollars.",
    "That is {e} dollars.",
    "So {N} gets {e} dollars for this.",
    "In total, the money for it is {e} dollars.",
)
MONEY: Wordings = (
    "Now {N} has {e} dollars.",
    "That makes {e} dollars.",
    "So {N} now has a total of {e} dollars.",
    "With that, the money becomes {e} dollars.",
)
MONEY_LEFT: Wordings = (
    "Then {N} has {e} dollars.",
    "That leaves {e} dollars.",
    "So {N} is left with {e} dollars after that.",
    "Without that, the money becomes {e} dollars.",
)
TIME: Wordings = (
    "That takes {e} minutes.",
    "This is {e} minutes.",
    "So far the time is {e} minutes.",
    "All in all, this comes to {e} minutes.",
)
WAY: Wordings = (
    "That is {e} kilometers.",
    "The way is {e} kilometers.",
    "So the whole way is {e} kilometers.",
    "All in all, this comes to {e} kilometers.",
)

V_PLUS_N: tuple[Operation, ...] = (("v", "+", "n"),)
V_MINUS_N: tuple[Operation, ...] = (("v", "-", "n"),)
V_TIMES_N: tuple[Operation, ...] = (("v", "*", "n"),)
V_DIVIDED: tuple[Operation, ...] = (("v", "/", "n"),)
N_TIMES_M: tuple[Operation, ...] = (("n", "*", "m"),)
N_PLUS_M: tuple[Operation, ...] = (("n", "+", "m"),)
ADD_GROUP: tuple[Operation, ...] = (("n", "*", "m"), ("v", "+", "r"))
TAKE_GROUP: tuple[Operation, ...] = (("n", "*", "m"), ("v", "-", "r"))

NAMES: tuple[tuple[str, str], ...] = (
    *((name, "She") for name in "Mia Ana Zoe Lena Ruth Nora Ida Eva Lucy Rosa Amy Jane".split()),
    *((name, "He") for name in "Tom Leo Ben Max Omar Paul Finn Hugo Ali Sam Carl Jack".split()),
)
THINGS: Wordings = tuple(
    "coins pens cards books apples shells stamps beads plums cups hats nuts stones balls keys "
    "cakes lamps pears toys roses".split()
)
CONTAINERS: Wordings = tuple("boxes bags jars tins crates".split())

"""Equations of plain arithmetic in a step's text: which there are, and which are wrong.

Knows no model and no problem: `12 + 8 = 21` is wrong whatever the question was. Values are exact
(arithmetic.py), and the work is linear in the text.

phrase    tokens with no prose between them; units are passed over ("12 apples + 8 apples = 20")
side      one of the expressions around "=": numbers, + - * /, brackets, percent
equation  two neighbouring sides, at least one of them with an operator; a = b = c holds two
opaque    a sign whose meaning is not plain arithmetic (a variable, a power, <=): no side holds it
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from specguard_core.arithmetic import Expression, Token, expression

MAX_DIGITS = 30
"""A longer number is no step's arithmetic; it is passed over."""
MAX_UNIT_WORDS = 2

_SIGNS = str.maketrans(
    {"×": "*", "·": "*", "⋅": "*", "∗": "*", "÷": "/", "∕": "/", "−": "-", "–": "-"}
)
_REWRITES = (
    (re.compile(r"\\[dt]?frac\s?\{([^{}\\]*)\}\s?\{([^{}\\]*)\}"), r"((\1)/(\2))"),
    (re.compile(r"\\(?:text|mathrm|mbox)\s?\{([^{}\\]*)\}"), r" \1 "),
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])"), "*"),
    (re.compile(r"\\div(?![A-Za-z])"), "/"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\[$()\[\],;:! ]|\$"), ""),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"(?<=\d)\*\*(?=\d)"), "^"),
    (re.compile(r"\*\*|~"), " "),
    (re.compile(r"(?<=%) ?of(?= \d)"), " *"),
    (re.compile(r"(?<=[\d)%]) ?[xX](?= ?\d)"), "*"),
)
_TOKEN = re.compile(
    r"""(?P<number>\d++(?:,\d++)*+(?:\.\d++)?+%?+[^\W_]*+|\.\d++%?+[^\W_]*+)
      |(?P<opaque>[\^_<>!≠≤≥≈]|\\[A-Za-z]+)
      |(?P<word>[^\W\d_]+(?:['’-][^\W\d_]+)*)
      |(?P<operator>[-+*/])
      |(?P<equals>==?)
      |(?P<open>\()
      |(?P<close>\))
      |(?P<space>[ \t]+)
      |(?P<line>[\r\n]+)
      |(?P<stop>.)""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?%?")
_ARTICLES = frozenset({"a", "A", "I"})


@dataclass(frozen=True, slots=True)
class Equation:
    """Two sides that a text calls equal.

    text         normalised: no spaces, units, thousands commas or currency; "12+8=20"
    left, right  exact values; None where a side divides by zero
    tolerance    half a unit of the last place of a decimal on the right, else 0
    """

    text: str
    left: Fraction | None
    right: Fraction | None
    tolerance: Fraction

    @property
    def holds(self) -> bool:
        """Whether both sides have one value; 10 / 3 = 3.33 counts as rounded, 7 / 2 = 4 not."""
        if self.left is None or self.right is None:
            return False
        return abs(self.left - self.right) <= self.tolerance


def equations(text: str) -> Counter[str]:
    """The multiset of equations in a text, each in its normalised form."""
    return Counter(equation.text for equation in find_equations(text))


def equation_errors(text: str) -> tuple[Equation, ...]:
    """The equations of a text that do not hold, in order."""
    return tuple(equation for equation in find_equations(text) if not equation.holds)


def find_equations(text: str) -> tuple[Equation, ...]:
    """Every equation of plain arithmetic in a text, in order."""
    found: list[Equation] = []
    for phrase in _phrases(_without_units(_tokens(text))):
        for left, right in pairwise(_sides(phrase)):
            if left and right and (left.has_operator or right.has_operator):
                found.append(_equation(left, right))
    return tuple(found)


def _equation(left: Expression, right: Expression) -> Equation:
    if right.has_operator and not left.has_operator:
        left, right = right, left
    rounded = 0 if right.has_operator else right.decimals
    tolerance = Fraction(1, 2 * 10**rounded) if rounded else Fraction(0)
    return Equation(f"{left.text}={right.text}", left.value, right.value, tolerance)


def _tokens(text: str) -> list[Token]:
    text = text.translate(_SIGNS)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    tokens: list[Token] = []
    spaced = True
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup or "stop", match.group()
        if kind == "word" and len(token) == 1 and token not in _ARTICLES:
            kind = "opaque"  # one letter is a variable
        if kind == "number" and not (len(token) <= MAX_DIGITS and _NUMBER.fullmatch(token)):
            kind = "opaque"  # "3x", "1,2"
        if kind != "space":
            tokens.append(Token(kind, token, spaced))
        spaced = kind in ("space", "line")
    return tokens


def _without_units(tokens: Sequence[Token]) -> Iterator[Token]:
    """Words are dropped between a value and the operator or "=" that goes on from it."""
    index = 0
    before = ""
    while index < len(tokens):
        if tokens[index].kind == "word" and before in ("number", "close"):
            after = index
            while after < len(tokens) and tokens[after].kind == "word":
                after += 1
            short = after - index <= MAX_UNIT_WORDS and after < len(tokens)
            if short and tokens[after].kind in ("operator", "equals"):
                index = after
        yield tokens[index]
        before = tokens[index].kind
        index += 1


def _phrases(tokens: Iterator[Token]) -> Iterator[list[Token]]:
    """Runs with nothing but arithmetic and opaque signs in them."""
    phrase: list[Token] = []
    line_start, bullet = True, False
    for token in tokens:
        after_value = bool(phrase) and phrase[-1].kind in ("number", "close")
        if bullet and token.spaced:
            phrase = []  # "- 12 + 8 = 20" in a list
        bullet = False
        if token.kind in ("word", "stop", "line"):
            yield phrase
            phrase = []
        elif token.kind in ("number", "open") and after_value:
            if token.kind == "open" and not token.spaced:
                phrase += [Token("operator", "*", spaced=False), token]
            else:
                yield phrase
                phrase = [token]
        else:
            bullet = token.kind == "operator" and line_start
            phrase.append(token)
        line_start = token.kind == "line"
    yield phrase


def _sides(phrase: Sequence[Token]) -> list[Expression | None]:
    runs: list[list[Token]] = [[]]
    for token in phrase:
        if token.kind == "equals":
            runs.append([])
        else:
            runs[-1].append(token)
    if len(runs) == 1:
        return []
    first, last = runs[0], runs[-1]
    runs[0] = first[_bracket_end(first) :]
    if runs[0] and runs[0][0].kind == "operator" and not _is_sign(runs[0]):
        runs[0] = []  # "total - 5 = 3": what it is taken from is unknown
    while last and last[-1].kind == "operator":
        last.pop()  # a dash after the result
    runs[-1] = last[: _bracket_start(last)]
    return [expression(run) for run in runs]


def _is_sign(run: Sequence[Token]) -> bool:
    return len(run) > 1 and run[0].text == "-" and run[0].spaced and not run[1].spaced


def _bracket_end(run: Sequence[Token]) -> int:
    """Index after the last bracket that has no partner: "1) 5 + 3", "(5 + 3"."""
    open_at: list[int] = []
    start = 0
    for index, token in enumerate(run):
        if token.kind == "open":
            open_at.append(index)
        elif token.kind == "close":
            if open_at:
                open_at.pop()
            else:
                start = index + 1
    return open_at[-1] + 1 if open_at else start


def _bracket_start(run: Sequence[Token]) -> int:
    """Index of the first closing bracket that has no partner: "8)"."""
    depth = 0
    for index, token in enumerate(run):
        depth += (token.kind == "open") - (token.kind == "close")
        if depth < 0:
            return index
    return len(run)

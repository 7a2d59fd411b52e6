"""The exact value of one plain arithmetic expression, given as tokens. Knows no text around it.

Numbers, + - * /, signs, brackets, percent. Nothing is evaluated by Python's own parser; values are
exact rationals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

MAX_TOKENS = 64
"""A longer expression is no step's arithmetic; it is passed over."""

_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "negate": 3}


class Token(NamedTuple):
    """One sign of a text.

    kind     number, operator, open or close in an expression; anything else makes it none
    spaced   whether white space, or nothing at all, stands before it
    """

    kind: str
    text: str
    spaced: bool


@dataclass(frozen=True, slots=True)
class Expression:
    """What a run of tokens says.

    text          normalised: no spaces or thousands commas; one order for pure sums and products
    value         exact; None where something is divided by zero
    has_operator  whether it joins two numbers
    decimals      decimal places of the last number, a percentage read as a share
    """

    text: str
    value: Fraction | None
    has_operator: bool
    decimals: int


def expression(run: Sequence[Token]) -> Expression | None:
    """The run's exact value by operator precedence; None where it is no plain expression."""
    if not run or len(run) > MAX_TOKENS:
        return None
    values: list[Fraction | None] = []
    waiting: list[str] = []
    text: list[str] = []
    decimals = 0
    wants_value = True
    for kind, sign, _ in run:
        if kind == "number" and wants_value:
            number = _canonical(sign)
            decimals = len(number.rstrip("%").partition(".")[2]) + 2 * number.endswith("%")
            values.append(_number(number))
            text.append(number)
            wants_value = False
        elif kind == "operator" and (not wants_value or sign == "-"):
            operator = "negate" if wants_value else sign
            while not wants_value and waiting and _binds(waiting[-1], operator):
                _apply(waiting.pop(), values)
            waiting.append(operator)
            text.append(sign)
            wants_value = True
        elif kind == "open" and wants_value:
            waiting.append("(")
            text.append("(")
        elif kind == "close" and not wants_value and "(" in waiting:
            while (operator := waiting.pop()) != "(":
                _apply(operator, values)
            text.append(")")
        else:
            return None
    if wants_value or "(" in waiting:
        return None
    while waiting:
        _apply(waiting.pop(), values)
    binary = sum(kind == "number" for kind, _, _ in run) > 1
    return Expression(_in_order(text), values[0], binary, decimals)


def _binds(waiting: str, operator: str) -> bool:
    return waiting != "(" and _PRECEDENCE[waiting] >= _PRECEDENCE[operator]


def _apply(operator: str, values: list[Fraction | None]) -> None:
    right = values.pop()
    if operator == "negate":
        values.append(None if right is None else -right)
        return
    left = values.pop()
    if left is None or right is None or (operator == "/" and right == 0):
        values.append(None)
    elif operator == "/":
        values.append(left / right)
    elif operator == "*":
        values.append(left * right)
    else:
        values.append(left + right if operator == "+" else left - right)


def _canonical(token: str) -> str:
    """1,000.50 as 1000.5; a percent sign is kept."""
    percent = "%" if token.endswith("%") else ""
    whole, point, decimals = token.rstrip("%").replace(",", "").partition(".")
    decimals = decimals.rstrip("0") if point else ""
    return (whole.lstrip("0") or "0") + (f".{decimals}" if decimals else "") + percent


def _number(canonical: str) -> Fraction:
    value = Fraction(canonical.rstrip("%"))
    return value / 100 if canonical.endswith("%") else value


def _in_order(tokens: list[str]) -> str:
    """One text for sums and products that differ in the order of their terms only."""
    for operator in "+*":
        if set(tokens[1::2]) == {operator} and "-" not in tokens[::2]:
            return operator.join(sorted(tokens[::2], key=lambda term: (len(term), term)))
    return "".join(tokens)

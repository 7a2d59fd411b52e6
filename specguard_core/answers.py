r"""The answer in a text, and whether two answers are the same. Knows no model and no UI.

box         the content of a closed `\boxed{...}`; an empty one is no answer
plain       an answer that is one number, with or without its unit; two of them compare exactly
canonical   an answer without what LaTeX adds to its looks, and without any space

Our own normalisation settles nearly every pair. What it does not, goes to math-verify, in a process
of its own with a time limit (math_equality.py). All of it takes linear time in the texts.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from specguard_core.math_equality import mathematically_equal

_BRACES = re.compile(r"\\boxed\s*\{|\\(?:[^\\]|\\(?!boxed))|[{}]", re.DOTALL)
_NUMBER = r"(?:\d++(?:(?:,|\{,\})\d{3})*+(?:\.\d++)?+|\.\d++)"
_LAST_NUMBER = re.compile(rf"(?:(?<![\w.)\]}}])[-−]\\?\$?)?{_NUMBER}(?:/\d++)?+")

_SIGNS = str.maketrans({"−": "-", "–": "-", "×": "*", "·": "*", "π": "\\pi ", "∞": "\\infty "})
_OUTER = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_TEXT = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname)\s?"
_LOOKS = (
    (re.compile(r"(?<!\\)\\[!,;:> ]|\\q?quad(?![A-Za-z])|~"), " "),
    (re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])"), ""),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\\$|[$£€]"), ""),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\^\s?\{?\\circ\}?|\\degree(?![A-Za-z])|°"), ""),
    (re.compile(r"\\%"), "%"),
)
_UNIT = re.compile(rf"(?<=[\d}}%)])\s?{_TEXT}\{{([^{{}}]*)\}}(?:\^\{{?\d\}}?)?$")
_TEXT_GROUP = re.compile(rf"{_TEXT}\{{([^{{}}]*)\}}")
_FRACTION = re.compile(
    # Not after a whole number (a mixed one) and not in an exponent, where 1/2 means another thing.
    r"(?<![\w^_)}\]])(?<![\w^_)}\]] )"
    r"\\frac\s?(?:\{\s?(-?\d+)\s?\}|(\d))\s?(?:\{\s?(\d+)\s?\}|(\d))"
)
_IN_A_BASE = re.compile(r"-?[0-9A-Z]++_\d++")
_FREE_SPACE = re.compile(r"(?<!\d) | (?!\d)")
_SCRIPT = re.compile(r"([_^])\{(\w|-\d)\}")
_PLAIN = re.compile(
    rf"(?P<sign>[-+]?)\s?(?:(?P<number>{_NUMBER})(?:\s?/\s?(?P<divisor>\d+))?)\s?(?P<percent>%?)"
    r"(?P<unit>(?:\s[^\W\d_]{2,}){0,3}(?:\^\{?\d\}?)?)"
)
_MAX_DIGITS = 60
_WORD_LETTERS = 4
"""Fewer letters may be a product of variables."""
_ROUNDED_PLACES = 6


@dataclass(frozen=True, slots=True)
class _Plain:
    value: Fraction
    percent: bool
    unit: str
    decimals: int


def extract_answer(text: str) -> str | None:
    """The last closed box, else the last number, else None; of boxes in a box, the inner one."""
    box = _last_box(text)
    if box is not None:
        return box
    number = None
    for match in _LAST_NUMBER.finditer(text):
        number = match.group()
    return number


def has_closed_box(text: str) -> bool:
    r"""Whether a `\boxed{...}` with something in it is closed: the answer has been given."""
    return _last_box(text) is not None


def same_answer(gold: str | None, given: str | None) -> bool:
    """Whether an answer says what the gold one says. None, or nothing but space, is never the same.

    Money signs, units, degrees, percent signs, thousands commas and LaTeX spacing do not count; a
    percentage equals its number and its share. A decimal of six places or more may be rounded.
    """
    if gold is None or given is None:
        return False
    cleaned = _cleaned(_last_box(gold) or gold), _cleaned(_last_box(given) or given)
    if not all(cleaned):
        return False
    plain = _plain(cleaned[0]), _plain(cleaned[1])
    if plain[0] is not None and plain[1] is not None:
        return _same_number(plain[0], plain[1])
    canonical = _canonical(cleaned[0]), _canonical(cleaned[1])
    if canonical[0] == canonical[1]:
        return True
    if all(_IN_A_BASE.fullmatch(text) for text in canonical):
        return False  # 52_8 and 52_9: math-verify does not read the base
    if any(text.isalpha() and len(text) >= _WORD_LETTERS for text in canonical):
        return canonical[0].lower() == canonical[1].lower()
    return mathematically_equal(*cleaned)


def _last_box(text: str) -> str | None:
    """Content of the non-empty closed box that opens last, by one pass over the braces."""
    best: tuple[int, str] | None = None
    open_at: list[int | None] = []  # where a box's content starts; None for any other brace
    for match in _BRACES.finditer(text):
        sign = match.group()
        if sign == "{":
            open_at.append(None)
        elif sign.endswith("{") and sign.startswith("\\boxed"):
            open_at.append(match.end())
        elif sign == "}" and open_at:
            start = open_at.pop()
            if start is not None and (best is None or start > best[0]):
                content = text[start : match.start()].strip()
                best = (start, content) if content else best
    return None if best is None else best[1]


def _cleaned(answer: str) -> str:
    """The answer without money, degrees, LaTeX looks, outer delimiters and its full stop."""
    text = answer.translate(_SIGNS).strip()
    for left, right in _OUTER:
        if len(text) > len(left + right) and text.startswith(left) and text.endswith(right):
            text = text[len(left) : -len(right)].strip()
    for pattern, replacement in _LOOKS:
        text = pattern.sub(replacement, text)
    text = " ".join(text.split()).rstrip(".,;: ")
    return _UNIT.sub(r" \1", text).strip()


def _plain(cleaned: str) -> _Plain | None:
    """The number an answer is; None where it is more than one, or has too many digits to be one."""
    text = _FRACTION.sub(lambda m: f"{m[1] or m[2]}/{m[3] or m[4]}", cleaned)
    text = _TEXT_GROUP.sub(r"\1", text)
    match = _PLAIN.fullmatch(text)
    if match is None or len(text) > _MAX_DIGITS:
        return None
    number = match["number"].replace(",", "")
    divisor = int(match["divisor"] or 1)
    if divisor == 0:
        return None
    value = Fraction(number) / divisor
    return _Plain(
        value=-value if match["sign"] == "-" else value,
        percent=bool(match["percent"]),
        unit=match["unit"].split("^")[0].strip().lower(),
        decimals=len(number.partition(".")[2]),
    )


def _same_number(gold: _Plain, given: _Plain) -> bool:
    if gold.unit and given.unit and gold.unit.rstrip("s") != given.unit.rstrip("s"):
        return False
    rounded = max(gold.decimals, given.decimals) >= _ROUNDED_PLACES
    tolerance = Fraction(1, 2 * 10**_ROUNDED_PLACES) if rounded else Fraction(0)
    differences = [gold.value - given.value]
    if gold.percent and not given.percent:
        differences.append(gold.value / 100 - given.value)
    if given.percent and not gold.percent:
        differences.append(gold.value - given.value / 100)
    return any(abs(difference) <= tolerance for difference in differences)


def _canonical(cleaned: str) -> str:
    text = _TEXT_GROUP.sub(r"\1", cleaned)
    text = _FRACTION.sub(lambda m: f"{m[1] or m[2]}/{m[3] or m[4]}", text)
    text = _SCRIPT.sub(r"\1\2", text)
    return _FREE_SPACE.sub("", text)

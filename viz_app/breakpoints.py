"""Where a run should pause: conditions on one committed step. Pure; knows no gradio.

hit        a breakpoint whose condition holds for a step
margin     |score - threshold|
pattern    a regular expression, of a kind that cannot run away (see `safe_pattern`)
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from re import _parser as parser  # type: ignore[attr-defined]  # the only parse tree there is
from typing import Any

from specguard_core.config import ReadingName
from specguard_core.equations import equation_errors
from specguard_core.errors import UsageError
from specguard_core.sessions import Breakpoint
from specguard_core.text import join_pieces
from specguard_core.types import Step, Trace

MOST_BREAKPOINTS = 50
_MOST_TEXT = 400
_MOST_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its words, the value it needs (None: none), and when it holds for a step."""

    words: str
    value: float | str | None
    holds: Callable[[Step, Trace, Any], bool]


def _score(step: Step, value: float) -> bool:
    return step.verdict is not None and step.verdict.score < value


def _margin(step: Step, value: float) -> bool:
    verdict = step.verdict
    return verdict is not None and abs(verdict.score - verdict.threshold) < value


def _reading(name: ReadingName) -> Callable[[Step, Trace, Any], bool]:
    def holds(step: Step, trace: Trace, value: Any) -> bool:
        reading = None if step.verdict is None else step.verdict.readings.get(name)
        return reading is not None and reading.normalised < value

    return holds


def _text(step: Step, trace: Trace) -> str:
    return join_pieces(step.output.token_ids, trace.pieces)[:_MOST_TEXT]


KINDS: dict[str, Kind] = {
    "fallback": Kind("the target wrote it", None, lambda s, t, v: s.outcome.source == "target"),
    "margin": Kind("score within … of the threshold", 0.05, lambda s, t, v: _margin(s, v)),
    "score": Kind("score below", 0.5, lambda s, t, v: _score(s, v)),
    "confidence": Kind("confidence below", 0.5, _reading("confidence")),
    "grounding": Kind("grounding below", 0.5, _reading("grounding")),
    "clusters": Kind(
        "two clusters or more",
        None,
        lambda s, t, v: s.selection is not None and len(set(s.selection.clusters)) > 1,
    ),
    "equation": Kind("a wrong equation", None, lambda s, t, v: bool(equation_errors(_text(s, t)))),
    "pattern": Kind(
        "text matches", "", lambda s, t, v: re.search(v, _text(s, t)) is not None if v else False
    ),
    "step": Kind("step number", 1.0, lambda s, t, v: s.index + 1 == v),
    "answer": Kind("an answer in it", None, lambda s, t, v: "\\boxed{" in _text(s, t)),
}


def hits(breakpoints: Sequence[Breakpoint], step: Step, trace: Trace) -> list[str]:
    """The words of each breakpoint that is on and holds for the step."""
    return [
        words_of(point)
        for point in breakpoints
        if point.enabled and KINDS[point.kind].holds(step, trace, point.value)
    ]


def words_of(point: Breakpoint) -> str:
    """A breakpoint in words: "score below 0.5"."""
    kind = KINDS[point.kind]
    if kind.value is None:
        return kind.words
    value = f"{point.value:g}" if isinstance(point.value, int | float) else repr(point.value)
    return kind.words.replace("…", value) if "…" in kind.words else f"{kind.words} {value}"


def checked(kind: str, value: Any, *, enabled: bool = True) -> Breakpoint:
    """A breakpoint that can be used.

    Raises:
        UsageError: no such kind, or a value it cannot take.
    """
    if kind not in KINDS:
        raise UsageError(f"expected a breakpoint out of {', '.join(KINDS)}, got {kind!r}")
    default = KINDS[kind].value
    if default is None:
        return Breakpoint(kind, None, enabled)
    if isinstance(default, str):
        return Breakpoint(kind, safe_pattern(value), enabled)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value):
        raise UsageError(f"expected a number for '{KINDS[kind].words}', got {value!r}: correct it")
    return Breakpoint(kind, float(value), enabled)


def safe_pattern(pattern: Any) -> str:
    """The pattern itself, if it is one and searching a step with it takes bounded time.

    A repeated group, or many repeats, may backtrack for ever; both are refused.
    """
    if not isinstance(pattern, str) or not pattern or len(pattern) > 200:
        raise UsageError("expected a pattern of 1 to 200 characters, got none: write one")
    try:
        tree = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"expected a regular expression, got {pattern!r} ({error})") from None
    if _repeats(tree, inside=False) > _MOST_REPEATS:
        raise UsageError(
            f"expected at most {_MOST_REPEATS} repeats and none of a group, got {pattern!r}: "
            "simplify it"
        )
    return pattern


def _repeats(tree: Any, *, inside: bool) -> int:
    """How many repeats a parse tree has; a repeat inside another counts as too many."""
    count = 0
    for operator, argument in tree:
        name = str(operator)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            item = argument[2]
            single = len(item) == 1 and str(item[0][0]) in ("LITERAL", "NOT_LITERAL", "IN", "ANY")
            count += 1 if single and not inside else _MOST_REPEATS + 1
        elif name in ("GROUPREF", "GROUPREF_EXISTS"):
            count += _MOST_REPEATS + 1
        elif name == "SUBPATTERN":
            count += _repeats(argument[-1], inside=inside)
        elif name == "BRANCH":
            count += sum(_repeats(branch, inside=inside) for branch in argument[1])
        elif name in ("ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"):
            count += _repeats(
                argument[-1] if isinstance(argument, tuple) else argument, inside=True
            )
    return count

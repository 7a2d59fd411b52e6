"""Where a run should pause: conditions on one committed unit. Pure; knows no gradio.

unit       a step, or a block of drafted tokens
hit        a breakpoint whose condition holds for a unit
margin     |score - threshold|
pattern    a regular expression, of a kind that cannot run away (see `safe_pattern`)
fresh      of a block: in the text with it, and not yet in the text before it
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
from specguard_core.types import Block, Step, Trace
from viz_app.pace import Unit

MOST_BREAKPOINTS = 50
_MOST_TEXT = 400
_MOST_REPEATS = 3
_UNSETTLED = re.compile(r"[\d.,% \t+*/×÷-]+$")
"""An end of a text that the next token may make into another number."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its words, the value it needs (None: none), and when it holds.

    of_step, of_block: whether it holds for such a unit; None where it never can.
    """

    words: str
    value: float | str | None
    of_step: Callable[[Step, Trace, Any], bool] | None
    of_block: Callable[[Block, Trace, Any], bool] | None = None

    def why_not(self, unit: Unit) -> str:
        """Why a run of such units never pauses there; empty where it may."""
        if (self.of_step if unit == "step" else self.of_block) is not None:
            return ""
        return (
            "only in runs of blocks, as no token of a step is rejected"
            if unit == "step"
            else "not in runs of blocks, which have no score, signals or candidates"
        )


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


def _ids(unit: Step | Block) -> tuple[int, ...]:
    """The tokens kept, without an end mark, whose text would stand behind the last number."""
    return unit.token_ids[:-1] if unit.ended_by_eos else unit.token_ids


def _text(step: Step, trace: Trace) -> str:
    return join_pieces(_ids(step), trace.pieces)[:_MOST_TEXT]


def _texts(block: Block, trace: Trace) -> tuple[str, str]:
    """The text before a block and with it, from where the step it begins in began."""
    earlier = [i for b in trace.blocks[: block.index] for i in b.token_ids][-_MOST_TEXT:]
    before = join_pieces(earlier, trace.pieces)
    whole = join_pieces([*earlier, *_ids(block)], trace.pieces)
    start = before.rfind("\n\n") + 1
    return before[start:], whole[start:]


def _fresh_match(block: Block, trace: Trace, pattern: str) -> bool:
    before, whole = _texts(block, trace)
    return any(found.end() > len(before) for found in re.finditer(pattern, whole))


def _fresh_answer(block: Block, trace: Trace) -> bool:
    before, whole = _texts(block, trace)
    return whole.count("\\boxed{") > before.count("\\boxed{")


def _fresh_error(block: Block, trace: Trace) -> bool:
    """Whether a wrong equation came to its end in the block; a number that may go on has none."""
    before, whole = _texts(block, trace)
    ended = trace.finish is not None and block.index == len(trace.blocks) - 1
    settled = whole if ended else _UNSETTLED.sub("", whole)
    return len(equation_errors(settled)) > len(equation_errors(_UNSETTLED.sub("", before)))


def _rejected(block: Block) -> bool:
    return any(one.outcome in ("rejected", "overridden") for one in block.decisions)


KINDS: dict[str, Kind] = {
    "rejected": Kind("a drafted token rejected", None, None, lambda b, t, v: _rejected(b)),
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
    "equation": Kind(
        "a wrong equation",
        None,
        lambda s, t, v: bool(equation_errors(_text(s, t))),
        lambda b, t, v: _fresh_error(b, t),
    ),
    "pattern": Kind(
        "text matches",
        "",
        lambda s, t, v: re.search(v, _text(s, t)) is not None if v else False,
        lambda b, t, v: _fresh_match(b, t, v) if v else False,
    ),
    "step": Kind(
        "step number",
        1.0,
        lambda s, t, v: s.index + 1 == v,
        lambda b, t, v: b.index + 1 == v,
    ),
    "answer": Kind(
        "an answer in it",
        None,
        lambda s, t, v: "\\boxed{" in _text(s, t),
        lambda b, t, v: _fresh_answer(b, t),
    ),
}


def hits(breakpoints: Sequence[Breakpoint], unit: Step | Block, trace: Trace) -> list[str]:
    """The words of each breakpoint that is on and holds for the unit."""
    name: Unit = "step" if isinstance(unit, Step) else "block"
    return [
        words_of(point, name)
        for point in breakpoints
        if point.enabled and _holds(KINDS[point.kind], unit, trace, point.value)
    ]


def _holds(kind: Kind, unit: Step | Block, trace: Trace, value: Any) -> bool:
    if isinstance(unit, Step):
        return kind.of_step is not None and kind.of_step(unit, trace, value)
    return kind.of_block is not None and kind.of_block(unit, trace, value)


def words_of(point: Breakpoint, unit: Unit = "step") -> str:
    """A breakpoint in words, for a run of such units: "score below 0.5", "block number 2"."""
    kind = KINDS[point.kind]
    words = kind_words(point.kind, unit)
    if kind.value is None:
        return words
    given = point.value
    value = f"{given:g}" if isinstance(given, int | float) else f"\u201c{given}\u201d"
    return words.replace("…", value) if "…" in words else f"{words} {value}"


def kind_words(kind: str, unit: Unit) -> str:
    """What a kind is called in a run of such units."""
    return KINDS[kind].words.replace("step", unit)


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

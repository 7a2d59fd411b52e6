"""Every threshold at once: what it would accept, let through and refuse in vain. Pure.

judged       a draft's step with a score; a step that several branches share counts once
label        whether a judged step is right, and how that is known; None where it is not
left behind  after a wrong step was kept, later ones are no longer held against the known answer
let through  a wrong step that scores at least the threshold
in vain      a right step that scores below it
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from specguard_core.config import KNOBS, DecodeConfig
from specguard_core.equations import equation_errors, find_equations
from specguard_core.errors import ConfigError, NotMeasured
from specguard_core.evidence import context_before, evidence_key
from specguard_core.regate import regate
from specguard_core.text import join_pieces
from specguard_core.training.labels import boxed_of, step_is_right
from specguard_core.types import Candidate, Trace
from viz_app.gold import Gold
from viz_app.session import Look, Session
from viz_app.views.flips import above
from viz_app.views.numbers import fixed

Basis = Literal["gold steps", "answer", "equations"]
HIGHEST = 1.01
"""The end of the threshold's range; it accepts nothing."""
_BASIS_WORDS: dict[Basis, str] = {
    "gold steps": "the known solution",
    "answer": "the gold answer",
    "equations": "equations alone, blind to a wrong set-up",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """One judged step: its score in [0, 1], and whether it is right (None: not known)."""

    key: str
    score: float
    right: bool | None
    basis: Basis | None


def thresholds_view(session: Session, look: Look, gold: Gold) -> dict[str, Any]:
    """Steps of all branches and of the runs beside them, against the threshold."""
    traces = [line.history[-1].trace for line in session.lines if line.history]
    if not any(trace.all_steps for trace in traces):
        return {
            "empty": "How much each threshold would accept will stand here, and what it would let "
            "through: step a run, or load the example."
        }
    changes = _changes(session, look)
    steps = judged_steps([*traces, *session.beside], changes, gold)
    if not steps:
        return {"empty": "No step here has a score to hold against the threshold."}
    run = session.run_config.threshold
    now = run if look.knobs is None else look.knobs.threshold
    return {
        "curve": curve(steps),
        "run": run,
        "now": now,
        "high": HIGHEST,
        "n": len(steps),
        "n_runs": len(traces) + len(session.beside),
        "beside": len(session.beside),
        "told": told(steps, now),
        "labels": labels_told(steps),
        "catch": _catch(steps),
    }


def judged_steps(
    traces: Iterable[Trace], changes: dict[str, Any] | None = None, gold: Gold | None = None
) -> list[Judged]:
    """The scored steps of some runs, each once, at the runs' own knobs but for `changes`."""
    found: dict[str, Judged] = {}
    for trace in traces:
        try:
            judged = regate(trace, replace(trace.config, **(changes or {})))
        except (NotMeasured, ConfigError):
            continue
        known = (gold or {}).get(trace.problem.strip())
        answer = trace.gold
        columns = zip(trace.steps, judged.verdicts, judged.selections, strict=True)
        for step, verdict, selection in columns:
            graded = verdict is not None and "grade" in verdict.readings
            if verdict is not None and not graded and step.candidates:
                one = step.candidates[0 if selection is None else selection.chosen]
                text = _text(one, trace)
                right, basis = label(text, known, step.index, answer)
                key = evidence_key(context_before(trace, step.index), one.token_ids)
                found[f"{key} {verdict.score!r}"] = Judged(key, verdict.score, right, basis)
            kept = _text(step.output, trace)
            if label(kept, known, step.index, answer)[0] is False:
                answer = None
            if not _is_step(known, step.index, kept):
                known = None
    return list(found.values())


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


def curve(steps: Sequence[Judged]) -> list[list[float | None]]:
    """[threshold, accepted, let through, in vain] at every score, each a share or None.

    A row holds up to its threshold, down to the row before it, as a step is accepted at its score.
    """
    wrong = [step for step in steps if step.right is False]
    right = [step for step in steps if step.right is True]
    stops = sorted({step.score for step in steps if step.score < HIGHEST} | {HIGHEST})
    rows: list[list[float | None]] = []
    for stop in stops:
        accepted = _at_least(steps, stop)
        vain = None if not right else 1 - _at_least(right, stop) / len(right)
        through = None if not wrong else _at_least(wrong, stop) / len(wrong)
        rows.append([round(stop, 6), accepted / len(steps), through, vain])
    return rows


def told(steps: Sequence[Judged], threshold: float) -> list[dict[str, str]]:
    """The three counts at a threshold, in words."""
    wrong = [step for step in steps if step.right is False]
    right = [step for step in steps if step.right is True]
    return [
        {"key": "accepted", "text": _of(_at_least(steps, threshold), len(steps), "steps accepted")},
        {
            "key": "through",
            "text": _of(_at_least(wrong, threshold), len(wrong), "wrong ones let through"),
        },
        {
            "key": "vain",
            "text": _of(
                len(right) - _at_least(right, threshold), len(right), "right ones refused in vain"
            ),
        },
    ]


def labels_told(steps: Sequence[Judged]) -> str:
    """By what right and wrong are told, on how many steps each; unknown ones are counted too."""
    counts = Counter(step.basis for step in steps)
    parts = [f"{counts[basis]} by {_BASIS_WORDS[basis]}" for basis in _BASIS_WORDS if counts[basis]]
    if counts[None]:
        parts.append(f"{counts[None]} not known")
    return "Right or wrong: " + "; ".join(parts) + "."


def _catch(steps: Sequence[Judged]) -> dict[str, Any] | None:
    """The least threshold that refuses every wrong step, and how many right ones it costs."""
    wrong = [step.score for step in steps if step.right is False]
    if not wrong:
        return None
    value = min(above(max(wrong)), HIGHEST)
    right = [step for step in steps if step.right is True]
    vain = len(right) - _at_least(right, value)
    return {"set": value, "text": fixed(value), "costs": f"{vain} of {len(right)} right ones"}


def _at_least(steps: Sequence[Judged], threshold: float) -> int:
    return sum(step.score >= threshold for step in steps)


def _of(count: int, total: int, words: str) -> str:
    return f"{count} of {total} {words}" if total else f"none known: {words}"


def _changes(session: Session, look: Look) -> dict[str, Any]:
    """Judge and select knobs that are turned, but for the threshold."""
    run: DecodeConfig = session.run_config
    if look.knobs is None:
        return {}
    return {
        name: getattr(look.knobs, name)
        for name, knob in KNOBS.items()
        if knob.effect in ("judge", "select")
        and name != "threshold"
        and getattr(look.knobs, name) != getattr(run, name)
    }


def _is_step(known: Sequence[str] | None, index: int, text: str) -> bool:
    return known is not None and index < len(known) and step_is_right(known[index], text)


def _text(candidate: Candidate, trace: Trace) -> str:
    return join_pieces(candidate.token_ids, trace.pieces).strip()


def _number(text: str) -> Fraction | str:
    cleaned = text.replace(",", "").replace("$", "").strip()
    try:
        return Fraction(cleaned)
    except (ValueError, ZeroDivisionError):
        return cleaned

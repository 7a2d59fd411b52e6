"""Every threshold at once: what it would accept, let through and refuse in vain. Pure.

judged       a draft's step with a score; a step that several branches share counts once
label        whether a judged step is right, and how that is known (see `rightness`)
let through  a wrong step that scores at least the threshold
in vain      a right step that scores below it
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specguard_core.config import KNOBS, DecodeConfig
from specguard_core.errors import ConfigError, NotMeasured
from specguard_core.evidence import context_before, evidence_key
from specguard_core.regate import regate
from specguard_core.types import Trace
from viz_app.gold import NO_GOLD, Gold
from viz_app.session import Look, Session
from viz_app.views.flips import above
from viz_app.views.gates import gate_of
from viz_app.views.numbers import fixed
from viz_app.views.rightness import Basis, known_steps, label
from viz_app.views.tokens import plain_text

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
    knob = _knob(session.run_config)
    runs = [trace for trace in (*traces, *session.beside) if _knob(trace.config) == knob]
    steps = judged_steps(runs, _changes(session, look, knob), gold)
    if not steps:
        return {"empty": "No step here has a score to hold against the threshold."}
    run = getattr(session.run_config, knob)
    now = run if look.knobs is None else getattr(look.knobs, knob)
    return {
        "knob": knob,
        "curve": curve(steps),
        "run": run,
        "now": now,
        "high": HIGHEST,
        "n": len(steps),
        "n_runs": len(runs),
        "beside": len(session.beside),
        "told": told(steps, now),
        "labels": labels_told(steps),
        "catch": _catch(steps),
    }


def judged_steps(
    traces: Iterable[Trace], changes: dict[str, Any] | None = None, gold: Gold = NO_GOLD
) -> list[Judged]:
    """The scored steps of some runs, each once, at the runs' own knobs but for `changes`."""
    found: dict[str, Judged] = {}
    for trace in traces:
        try:
            judged = regate(trace, replace(trace.config, **(changes or {})))
        except (NotMeasured, ConfigError):
            continue
        columns = zip(
            trace.steps,
            judged.verdicts,
            judged.selections,
            known_steps(trace, gold)[:-1],
            strict=True,
        )
        for step, verdict, selection, known in columns:
            graded = verdict is not None and "grade" in verdict.readings
            if verdict is not None and not graded and step.candidates:
                one = step.candidates[0 if selection is None else selection.chosen]
                text = plain_text(one, trace.pieces)
                right, basis = label(text, known.steps, step.index, known.answer)
                key = evidence_key(context_before(trace, step.index), one.token_ids)
                found[f"{key} {verdict.score!r}"] = Judged(key, verdict.score, right, basis)
    return list(found.values())


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


def _knob(config: DecodeConfig) -> str:
    """The threshold that a run's scores are held against; runs of another are of another scale."""
    gate = gate_of(config)
    return "threshold" if gate is None else gate.knob


def _changes(session: Session, look: Look, knob: str) -> dict[str, Any]:
    """Judge and select knobs that are turned, but for the threshold."""
    run: DecodeConfig = session.run_config
    if look.knobs is None:
        return {}
    return {
        name: getattr(look.knobs, name)
        for name, row in KNOBS.items()
        if row.effect in ("judge", "select")
        and name != knob
        and getattr(look.knobs, name) != getattr(run, name)
    }

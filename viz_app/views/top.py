"""The bar over everything and the line under it: transport, place, settings, problem, status."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specguard_core.evidence import Evidence
from specguard_core.presets import PRESETS, difference
from specguard_core.types import ModelInfo
from viz_app.breakpoints import KINDS, words_of
from viz_app.session import PHASES, Look, Problem, Session, place, stop_at
from viz_app.views.numbers import megabytes
from viz_app.whatif import WhatIf


@dataclass(frozen=True, slots=True)
class Desk:
    """What stands around a session: the models' names and state, and whether work is going on.

    pair       (draft, target) as they are called on the page
    models     one sentence on the models: "models not loaded yet", "models idle", ...
    progress   what a run is doing now; None where nothing runs
    example    whether a recorded session ships that opens without a model
    """

    pair: tuple[str, str]
    models: str
    progress: str | None = None
    example: bool = False


def top_view(session: Session, look: Look, desk: Desk) -> dict[str, Any]:
    """Transport, phases reached, place, pair, preset and seed."""
    cursor, last = place(session, look), max(len(session.history) - 1, 0)
    running = desk.progress is not None
    step, phase = stop_at(cursor) if cursor else (None, None)
    reached = -1 if phase is None else PHASES.index(phase)
    can_go_on = bool(session.problem.question.strip()) and not (session.finished and cursor == last)
    name, changes = preset_of(session)
    return {
        "phases": [
            {"name": p, "state": "on" if i == reached else ("done" if i < reached else "")}
            for i, p in enumerate(PHASES)
        ],
        "position": desk.progress or _position(session, step),
        "running": running,
        "ahead": cursor < last,
        "finished": session.finished,
        "can": {
            "back": cursor > 0 and not running,
            "on": can_go_on and not running,
            "stop": running,
            "reset": bool(session.history) and not running,
        },
        "draft": desk.pair[0],
        "target": desk.pair[1],
        "preset": name,
        "changes": changes,
        "presets": [{"name": p, "text": _preset_text(p), "chosen": p == name} for p in PRESETS],
        "seed": session.run_config.seed,
        "breakpoints": [
            {"kind": p.kind, "value": p.value, "words": words_of(p)} for p in session.breakpoints
        ],
        "kinds": [
            {"kind": name, "words": kind.words, "value": kind.value} for name, kind in KINDS.items()
        ],
        "kept": f"{session.current} {sum(len(line.history) for line in session.lines)}"
        if session.lines
        else "",
        "example": desk.example,
        "notice": session.notice,
    }


def problem_view(
    session: Session,
    examples: Sequence[Problem],
    right: bool | None,
    whatif: WhatIf | None = None,
) -> dict[str, Any]:
    """The question, its gold answer, and the run's answer with a word on it."""
    trace = session.trace
    finish = None if trace is None else trace.finish
    answer = None if finish is None else finish.answer
    return {
        "question": session.problem.question,
        "gold": session.problem.gold,
        "answered": finish is not None,
        "answer": "none found" if answer is None else answer,
        "stale": whatif is not None and whatif.first_flip is not None,
        "right": right,
        "reason": "" if finish is None else FINISH_WORDS[finish.reason],
        "examples": [
            {"id": p.problem_id, "question": p.question, "gold": p.gold} for p in examples
        ],
    }


def status_view(
    session: Session, look: Look, desk: Desk, evidence: Evidence | None = None
) -> dict[str, Any]:
    """The line at the foot: where one looks, the models, how the run ended."""
    cursor, last = place(session, look), max(len(session.history) - 1, 0)
    trace = session.trace
    facts = []
    if last:
        facts.append(f"viewing event {cursor} of {last}")
    if trace is not None and trace.finish is not None:
        facts.append(f"ended: {FINISH_WORDS[trace.finish.reason]}")
    if evidence is not None and evidence.size_bytes:
        facts.append(f"evidence kept, {megabytes(evidence.size_bytes)}")
    return {"facts": facts, "models": desk.models}


FINISH_WORDS = {
    "eos": "end of text",
    "answer": "answer found",
    "context_limit": "context full",
    "max_steps": "step limit",
    "max_new_tokens": "token limit",
    "repeated_steps": "steps repeat",
}


def preset_of(session: Session) -> tuple[str, list[str]]:
    """The preset nearest to the config, and the knobs that differ from it; a seed is no change."""
    apart = {
        name: [k for k in difference(session.run_config, config) if k != "seed"]
        for name, config in PRESETS.items()
    }
    order = sorted(apart, key=lambda name: (len(apart[name]), name != "cpu"))
    return order[0], apart[order[0]]


def describe(info: ModelInfo) -> str:
    """One line on a loaded model."""
    size = info.n_parameters / 1e6
    return f"{info.architecture}, {size:,.2g} M parameters, {info.dtype} on {info.device}"


def _position(session: Session, step: int | None) -> str:
    trace = session.trace
    if trace is None or step is None:
        return "before step 1" if session.history else "ready"
    known = max(len(trace.steps), (len(session.history) + 2) // len(PHASES))
    text = f"step {step + 1} of {known}" if session.finished else f"step {step + 1}"
    if session.finished:
        return text + ", finished"
    if step + 1 < known:
        return f"step {step + 1} of {known} so far"
    return f"{text}, paused: {session.pause}" if session.pause else text


def _preset_text(name: str) -> str:
    config = next(c for p, c in PRESETS.items() if p == name)
    weights = ", ".join(f"{n.replace('_', ' ')} {w:g}" for n, w in config.weights)
    return f"k {config.n_candidates}, threshold {config.threshold:g}; {weights}"

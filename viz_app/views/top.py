"""The bar over everything and the line under it: transport, place, settings, problem, status."""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specguard_core.config import StrategyName
from specguard_core.evidence import Evidence
from specguard_core.presets import PRESETS, difference
from specguard_core.remarks import remark_on
from specguard_core.strategies import knobs_of
from specguard_core.types import Trace
from viz_app.abilities import Ability
from viz_app.breakpoints import KINDS, hits, kind_words, words_of
from viz_app.names import short_name
from viz_app.pairs import Offer
from viz_app.recordings import Recording
from viz_app.session import Look, Problem, Session, place
from viz_app.views.numbers import megabytes, milliseconds
from viz_app.views.pairs import pairs_view
from viz_app.views.rightness import Wrong
from viz_app.views.strategies import strategies_view
from viz_app.whatif import WhatIf


@dataclass(frozen=True, slots=True)
class Desk:
    """What stands around a session: the models' names and state, and whether work is going on.

    pair       (draft, target) as they are called on the page
    sources    the two in full, for whoever hovers; None where the page is not to say
    models     one sentence on the models: "models not loaded yet", "models idle", ...
    progress   what a run is doing now; None where nothing runs
    recordings     runs that open without a model
    abilities  by strategy, whether the models can run it; empty before they are loaded
    locked     why no model may work here, in one sentence; empty where one may
    lost       whether the page shows a run that the server no longer has
    offers     pairs that may be chosen; free: any other may be, by its name
    """

    pair: tuple[str, str]
    models: str
    progress: str | None = None
    recordings: Sequence[Recording] = ()
    locked: str = ""
    abilities: Mapping[StrategyName, Ability] = field(default_factory=dict)
    lost: bool = False
    sources: tuple[str, str] | None = None
    offers: Sequence[Offer] = ()
    free: bool = False


def top_view(session: Session, look: Look, desk: Desk) -> dict[str, Any]:
    """Transport, phases reached, place, pair, preset and seed."""
    cursor, last = place(session, look), max(len(session.history) - 1, 0)
    running = desk.progress is not None
    phases, unit = session.pace.phases, session.pace.unit
    step, phase = session.pace.stop_at(cursor) if cursor else (None, None)
    reached = -1 if phase is None else phases.index(phase)
    at_end = cursor == last and (session.finished or bool(desk.locked))
    can_go_on = bool(session.problem.question.strip()) and not at_end
    name, changes = preset_of(session)
    return {
        "unit": unit,
        "phases": [
            {"name": p, "state": "on" if i == reached else ("done" if i < reached else "")}
            for i, p in enumerate(phases)
        ],
        "position": desk.progress or _position(session, step),
        "running": running,
        "ahead": cursor < last,
        "locked": desk.locked,
        "lost": desk.lost,
        "finished": session.finished,
        "can": {
            "back": cursor > 0 and not running,
            "on": can_go_on and not running,
            "stop": running,
            "reset": bool(session.history) and not running,
        },
        **_written_by(session.trace, desk),
        **pairs_view(session.pair, desk.pair, desk.offers, free=desk.free and not desk.locked),
        "strategy": session.run_config.strategy,
        "strategies": strategies_view(session.run_config, desk.abilities),
        "preset": name,
        "changes": changes,
        "presets": [{"name": p, "text": _preset_text(p), "chosen": p == name} for p in PRESETS],
        "seed": session.run_config.seed,
        "breakpoints": [
            {
                "kind": p.kind,
                "value": p.value,
                "words": words_of(p, unit),
                "armed": p.enabled,
                "off": KINDS[p.kind].why_not(unit),
            }
            for p in session.breakpoints
        ],
        "next_hit": _next_hit(session, cursor),
        "kept_units": last // session.pace.n,
        "kinds": [
            {
                "kind": name,
                "words": kind_words(name, unit),
                "value": kind.value,
                "off": kind.why_not(unit),
            }
            for name, kind in KINDS.items()
        ],
        "kept": _kept(session),
        "recordings": [
            {"name": one.name, "title": one.title, "text": one.sentence} for one in desk.recordings
        ],
        "notice": session.notice,
    }


def problem_view(
    session: Session,
    examples: Sequence[Problem],
    right: bool | None,
    whatif: WhatIf | None = None,
    faults: Mapping[int, Wrong] | None = None,
) -> dict[str, Any]:
    """The question, its gold answer, the run's answer with a word on it, and where it went wrong.

    faults: the steps that are wrong, by index.
    """
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
        "fault": _first_fault(faults or {}),
        "hand": _by_hand(session),
        "begun": bool(session.history) and finish is None,
        "reason": "" if finish is None else FINISH_WORDS[finish.reason],
        "examples": [
            {"id": p.problem_id, "question": p.question, "gold": p.gold} for p in examples
        ],
    }


def _first_fault(faults: Mapping[int, Wrong]) -> dict[str, Any] | None:
    """The first step that is wrong, and why; None where none is known to be."""
    if not faults:
        return None
    index = min(faults)
    return {"step": index, "reason": faults[index].reason}


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
        facts += [remark] if (remark := remark_on(trace)) else []
    if evidence is not None and evidence.size_bytes:
        facts.append(f"evidence kept, {megabytes(evidence.size_bytes)}")
    if views := session.target_views:
        spent = milliseconds(math.fsum(view.milliseconds for view in views))
        passes = f"{len(views)} target pass" + ("es" if len(views) > 1 else "")
        facts.append(f"{passes} to look, {spent} ms, no part of the run")
    return {"facts": facts, "models": desk.models}


FINISH_WORDS = {
    "eos": "end of text",
    "answer": "answer found",
    "context_limit": "context full",
    "max_steps": "step limit",
    "max_new_tokens": "token limit",
    "repeated_steps": "steps repeat",
}


def _written_by(trace: Trace | None, desk: Desk) -> dict[str, Any]:
    """The models of the run that is shown, which need not be the page's own; those before a run."""
    names, sources = list(desk.pair), list(desk.sources or desk.pair)
    for role, info in enumerate(() if trace is None else (trace.draft, trace.target)):
        if info is not None and short_name(info.source) != names[role]:
            names[role], sources[role] = short_name(info.source), info.source
    return {"draft": names[0], "target": names[1], "sources": sources}


def preset_of(session: Session) -> tuple[str, list[str]]:
    """The preset nearest to the config, and the knobs of its strategy that differ from it; neither
    the strategy nor a seed is a change."""
    run = session.run_config
    shown = knobs_of(run.strategy) - {"strategy", "seed"}
    apart = {
        name: [knob for knob in difference(run, config) if knob in shown]
        for name, config in PRESETS.items()
    }
    order = sorted(apart, key=lambda name: (len(apart[name]), name != "cpu"))
    return order[0], apart[order[0]]


def _position(session: Session, step: int | None) -> str:
    trace, unit = session.trace, session.pace.unit
    if trace is None or step is None:
        return f"before {unit} 1" if session.history else "ready"
    known = -(-(len(session.history) - 1) // session.pace.n)
    text = f"{unit} {step + 1} of {known}" if session.finished else f"{unit} {step + 1}"
    if session.finished:
        return text + ", finished"
    if step + 1 < known:
        return f"{unit} {step + 1} of {known} so far"
    return f"{text}, paused: {session.pause}" if session.pause else text


def _by_hand(session: Session) -> str:
    """How many steps of the run a person decided, in words; "" where none."""
    trace = session.trace
    steps = () if trace is None else trace.steps
    edited = sum(step.outcome.source == "edited" for step in steps)
    forced = sum(step.outcome.forced for step in steps) - edited
    counts = [
        f"{n} step{'s' if n > 1 else ''} {word}"
        for n, word in ((forced, "forced"), (edited, "edited"))
        if n
    ]
    return " and ".join(counts)


def _next_hit(session: Session, cursor: int) -> int | None:
    """The next recorded stop at which a breakpoint holds; None where none does."""
    trace = session.trace
    if trace is None or not any(point.enabled for point in session.breakpoints):
        return None
    stops = ((session.pace.cursor_at(unit.index), unit) for unit in trace.units)
    ahead = ((stop, unit) for stop, unit in stops if stop > cursor)
    return next((stop for stop, unit in ahead if hits(session.breakpoints, unit, trace)), None)


def _kept(session: Session) -> str:
    """Names what would be saved: another name, another content; "" where there is nothing."""
    if not session.lines:
        return ""
    states = [(line.name, len(line.history)) for line in session.lines]
    beside = (session.breakpoints, session.notes, [view.key for view in session.target_views])
    return f"{session.current} {zlib.crc32(repr((states, beside)).encode('utf-8', 'replace'))}"


def _preset_text(name: str) -> str:
    config = next(c for p, c in PRESETS.items() if p == name)
    weights = ", ".join(f"{n.replace('_', ' ')} {w:g}" for n, w in config.weights)
    return f"k {config.n_candidates}, threshold {config.threshold:g}; {weights}"

"""The timeline: one block per step. Width is tokens, height and fill are the score."""

from collections.abc import Mapping
from typing import Any

from viz_app.breakpoints import hits
from viz_app.session import Look, Session, place
from viz_app.sight import Sight, steps_in_sight
from viz_app.views.blocks import block_bars
from viz_app.views.gates import Gate, gate_of
from viz_app.views.numbers import decimals_apart, fixed, level
from viz_app.views.rightness import Wrong
from viz_app.views.tokens import step_text
from viz_app.whatif import WhatIf

STEADY_TOKENS = 60
"""While a run goes on, blocks are drawn as if it had this many tokens, so that none jumps."""


_MOST_TEXT = 100


def timeline_view(
    session: Session,
    look: Look,
    whatif: WhatIf | None = None,
    faults: Mapping[int, Wrong] | None = None,
) -> dict[str, Any]:
    """Every step so far, the threshold as run and as set now, and where the cursor stands.

    faults: the steps that are wrong, by index.
    """
    sights = steps_in_sight(session)
    of_steps = session.pace.unit == "step"
    blocks = [_block(sight) for sight in sights] if of_steps else block_bars(session)
    trace = session.trace
    if trace is not None and session.breakpoints:
        for block, unit in zip(blocks, trace.units, strict=False):
            block["hits"] = hits(session.breakpoints, unit, trace)
    _mark(blocks, session)
    for index, fault in (faults or {}).items():
        blocks[index]["wrong"] = fault.reason
    if whatif is not None and of_steps:
        for block, sight in zip(blocks, sights, strict=True):
            block["stale"] = whatif.is_stale(sight.step_index)
            block["flips"] = sight.step_index == whatif.first_flip
    total = sum(block["tokens"] for block in blocks)
    config = session.run_config
    gate = gate_of(config)
    now = gate if whatif is None else gate_of(whatif.config)
    return {
        "blocks": blocks,
        "scale": total if session.finished else max(total, STEADY_TOKENS),
        "unit": session.pace.unit,
        "gate": None if gate is None or now is None else _gate_view(gate, now),
        "cursor": place(session, look),
        "last": max(len(session.history) - 1, 0),
        "branch": session.current if len(session.lines) > 1 else "",
        "phases": list(session.pace.phases),
        "n_phases": session.pace.n,
    }


def _gate_view(run: Gate, now: Gate) -> dict[str, Any]:
    return {
        "knob": run.knob,
        "whole": run.whole,
        "threshold": run.value / run.whole,
        "threshold_text": fixed(run.value, 2),
        "now": now.value / now.whole,
        "now_text": fixed(now.value, 2),
        "turned": now != run,
    }


def _mark(blocks: list[dict[str, Any]], session: Session) -> None:
    """Notes, and where branches leave or joined, on the blocks of the branch on the page."""
    own = session.line
    for line in session.lines:
        at = line.forked_at
        if at is None or at >= len(blocks):
            continue
        if line.parent == session.current:
            blocks[at].setdefault("forks", []).append(line.name)
        elif line is own and line.parent is not None:
            blocks[at].setdefault("forks", []).append(f"from {line.parent}")
    for note in session.notes:
        if note.branch == session.current and note.step_index < len(blocks):
            blocks[note.step_index]["note"] = note.text[:_MOST_TEXT]


def _block(sight: Sight) -> dict[str, Any]:
    pieces = sight.trace.pieces
    shown = sight.written if sight.written is not None else sight.candidate(None)
    verdict = sight.verdict
    kind, word = outcome_word(sight)
    tokens = 1 if shown is None else len(shown.tokens)
    outcome = sight.outcome
    by_target = outcome is not None and outcome.source == "target" and sight.written is not None
    n_kept = 0 if outcome is None else outcome.n_kept
    share = f", {tokens - n_kept} by target" if n_kept else " by target"
    block: dict[str, Any] = {
        "number": sight.step_index + 1,
        "kind": kind,
        "word": word,
        "tokens": tokens,
        "tokens_text": f"{tokens} tok" + (share if by_target else ""),
        "text": "" if shown is None else step_text(shown, pieces, _MOST_TEXT),
        "by": "target" if by_target else "",
        "attempt": f"draw {sight.attempt + 1}" if sight.attempt else "",
        "score": None,
        "readings": [],
        "stale": False,
        "flips": False,
        "hits": [],
    }
    if verdict is not None:
        decimals = decimals_apart(verdict.score, verdict.threshold)
        block["score"] = verdict.score
        block["score_text"] = fixed(verdict.score, decimals)
        block["level"] = level(1 - verdict.score)
        block["readings"] = [
            {
                "name": name.replace("_", " "),
                "value": reading.normalised,
                "text": fixed(reading.normalised),
            }
            for name, reading in verdict.readings.items()
            if reading.weight > 0
        ]
    return block


def outcome_word(sight: Sight) -> tuple[str, str]:
    """How a step is drawn, and the word for it; a step under way is named by its last phase."""
    outcome = sight.outcome
    if outcome is None or sight.phase != "commit":
        return "open", {"sample": "sampled", "select": "selected", "verify": "verified"}.get(
            sight.phase, ""
        )
    if outcome.source == "edited":
        return "edited", "edited"
    by_target = outcome.source == "target"
    if sight.verdict is None and not outcome.forced:
        # The strategy's rule, and nobody's refusal.
        return ("target", "by target") if by_target else ("accepted", "kept unchecked")
    kind = "fallback" if by_target else "accepted"
    kind = f"forced {kind}" if outcome.forced else kind
    return kind, kind

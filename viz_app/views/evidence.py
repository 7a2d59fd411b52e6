"""The evidence of one step: its tokens, what was measured at each, and where its mass comes from.

column     one token: chip, curves and heatmap share it, so that the eye falls straight down
row        a stretch of context: the template, a sentence of the question, or an earlier step
share      of a token's rollout mass, in [0, 1]; a column of shares adds up to its grounding
"""

import base64
import math
from collections.abc import Sequence
from typing import Any

from specguard_core.text import display_groups
from specguard_core.types import Candidate, TokenSignal, Trace
from specguard_core.verification import boundary_index, counted_tokens
from viz_app.session import Look, Sight
from viz_app.views.alternatives import alternatives_view
from viz_app.views.candidates import shown_name
from viz_app.views.curves import curves
from viz_app.views.numbers import fixed, level, nats, significant
from viz_app.views.scales import bounds_of, entropy_ceiling
from viz_app.views.tokens import NEWLINE, TAB, chips, hex_bytes, token_text

MAX_PAINTED_CELLS = 120_000
"""Token x context cells sent to the page; beyond it whole rows of context are painted instead."""
TARGET_SPAN = 3.0
"""Nats of draft-target difference at the far end of its ramp."""


def evidence_view(sight: Sight | None, look: Look) -> dict[str, Any]:
    """Tokens, curves, context and heatmap of the candidate that is looked at."""
    if sight is None:
        return {"empty": "A step\u2019s tokens will stand here, with what was measured at each."}
    candidate = sight.candidate(look.candidate)
    if candidate is None:
        return {"empty": "Nothing is written yet: the target writes this step at its commit."}
    trace = sight.trace
    counted = counted_tokens(candidate, trace.config, trace.pieces)
    rows = _rows(trace, sight.step_index)
    shares = [_row_shares(token, rows) for token in candidate.tokens]
    most = _axis_top(max((value for column in shares if column for value in column), default=0.0))
    weakest = _weakest(sight, candidate, counted)
    return {
        "step": sight.step_index + 1,
        "name": shown_name(sight, look),
        "chips": chips(candidate.token_ids, trace.pieces),
        "tokens": [
            _token(sight, candidate, index, index in counted, shares[index])
            for index in range(len(candidate.tokens))
        ],
        "selected": weakest,
        "modes": _modes(sight, candidate),
        "curves": curves(sight, candidate, counted),
        "rows": rows,
        "shares": [
            None if column is None else [round(value, 4) for value in column] for column in shares
        ],
        "most": most,
        "paint": _paint(candidate),
    }


def _token(
    sight: Sight,
    candidate: Candidate,
    index: int,
    counts: bool,
    shares: Sequence[float] | None,
) -> dict[str, Any]:
    token = candidate.tokens[index]
    pieces = sight.trace.pieces
    grounding = token.grounding
    view: dict[str, Any] = {
        "id": token.token_id,
        "text": token_text(token.token_id, pieces),
        "bytes": hex_bytes(token.token_id, pieces),
        "boundary": index == boundary_index(candidate),
        "counted": counts,
        "modes": _token_modes(sight, token),
        "logprob": "not measured" if token.logprob is None else f"{nats(token.logprob)} nat",
        "entropy": "not measured" if token.entropy is None else nats(token.entropy),
        "alternatives": alternatives_view(token, sight.trace.config, pieces),
        "grounding": None if grounding is None else fixed(grounding),
        "own": None if grounding is None else fixed(1 - grounding),
        "template": None if not shares else fixed(shares[0]),
    }
    return view


def _token_modes(sight: Sight, token: TokenSignal) -> dict[str, Any]:
    """Per way of colouring, the colour and the number under the chip; None: not measured."""
    low, _ = bounds_of("confidence", sight)
    modes: dict[str, Any] = dict.fromkeys(("confidence", "grounding", "entropy", "target"))
    if token.logprob is not None:
        modes["confidence"] = [level(token.logprob / low), fixed(token.logprob, 2)]
    if token.grounding is not None:
        weak, strong = bounds_of("grounding", sight)
        share = (strong - token.grounding) / (strong - weak) if strong > weak else 0.0
        modes["grounding"] = [level(share), fixed(token.grounding, 2)]
    if token.entropy is not None:
        modes["entropy"] = [level(token.entropy / entropy_ceiling()), fixed(token.entropy, 2)]
    if token.target_logprob is not None and token.logprob is not None:
        apart = token.logprob - token.target_logprob
        modes["target"] = [level(abs(apart) / TARGET_SPAN), fixed(apart, 2)]
    return modes


def _modes(sight: Sight, candidate: Candidate) -> list[dict[str, Any]]:
    low, _ = bounds_of("confidence", sight)
    weak, strong = bounds_of("grounding", sight)
    tokens = candidate.tokens
    grounded = any(token.grounding is not None for token in tokens)
    info = sight.trace.draft
    missing = "not recorded" if info is None or info.grounding == "captured" else info.grounding
    return [
        {
            "key": "confidence",
            "name": "Confidence",
            "ends": ["strong", "weak"],
            "range": f"log-probability from 0 to {significant(low)} nat",
            "off": "" if any(t.logprob is not None for t in tokens) else "not measured",
        },
        {
            "key": "grounding",
            "name": "Grounding",
            "ends": ["strong", "weak"],
            "range": f"share of mass on the context from {fixed(strong)} to {fixed(weak)}",
            "off": "" if grounded else f"grounding: {missing}",
        },
        {
            "key": "entropy",
            "name": "Entropy",
            "ends": ["sure", "unsure"],
            "range": f"from 0 to {significant(entropy_ceiling())} nat",
            "off": "" if any(t.entropy is not None for t in tokens) else "not measured",
        },
        {
            "key": "target",
            "name": "Target \u0394",
            "ends": ["agree", "differ"],
            "range": f"draft minus target, up to {significant(TARGET_SPAN)} nat apart",
            "off": ""
            if any(t.target_logprob is not None for t in tokens)
            else "the target\u2019s view was not measured for this step",
        },
    ]


def _weakest(sight: Sight, candidate: Candidate, counted: Sequence[int]) -> int:
    """The token to open at: what decided the verdict's first reading, else the least likely."""
    judged = sight.candidate(None)
    if sight.verdict is not None and judged is candidate:
        for name in ("confidence", "target_confidence", "grounding"):
            reading = sight.verdict.readings.get(name)
            if reading is not None and reading.weakest_token is not None and reading.weight > 0:
                return int(reading.weakest_token)
    values = [(candidate.tokens[i].logprob, i) for i in counted]
    measured = [(value, i) for value, i in values if value is not None]
    return min(measured)[1] if measured else counted[0]


def _rows(trace: Trace, step_index: int) -> list[dict[str, Any]]:
    """The context as rows: all that is no question in one, then sentences, then earlier steps."""
    rows: list[dict[str, Any]] = []
    template: dict[str, Any] = {"label": "template", "where": "", "segments": [], "spans": []}
    start = 0
    first = True
    for index, segment in enumerate(trace.prompt_segments):
        stop = start + len(segment.token_ids)
        if segment.kind == "question":
            spans = _spans(segment.token_ids, start, trace)
            label = "".join(span[2] for span in spans).strip()
            where = "prompt" if first else ""
            rows.append({"label": label, "where": where, "segments": [index], "spans": spans})
            first = False
        else:
            template["segments"].append(index)
        start = stop
    for step in trace.steps[:step_index]:
        ids = step.output.token_ids
        name = f"step {step.index + 1}"
        segment_index = len(trace.prompt_segments) + step.index
        spans = _spans(ids, start, trace)
        rows.append({"label": name, "where": name, "segments": [segment_index], "spans": spans})
        start += len(ids)
    return [template, *rows]


def _spans(token_ids: Sequence[int], offset: int, trace: Trace) -> list[list[Any]]:
    """[first, stop, text] per chip, positions in the whole context; only breaks are made seen."""
    return [
        [offset + start, offset + stop, text.replace("\n", NEWLINE).replace("\t", TAB)]
        for start, stop, text in display_groups(token_ids, trace.pieces)
    ]


def _row_shares(token: TokenSignal, rows: Sequence[dict[str, Any]]) -> list[float] | None:
    shares = token.attribution
    if shares is None:
        return None
    return [math.fsum(shares[s] for s in row["segments"] if s < len(shares)) for row in rows]


def _paint(candidate: Candidate) -> dict[str, Any] | None:
    heatmap = candidate.heatmap
    if heatmap is None or len(heatmap.cells) > MAX_PAINTED_CELLS:
        return None
    return {
        "n_context": heatmap.n_context,
        "scales": [round(scale, 5) for scale in heatmap.scales],
        "cells": base64.b64encode(heatmap.cells).decode("ascii"),
    }


def _axis_top(value: float) -> float:
    """The smallest value of two digits at or above this one; at least 0.01."""
    return max(math.ceil(value * 100) / 100, 0.01)

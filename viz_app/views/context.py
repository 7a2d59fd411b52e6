"""The context of one step: its text by rows, and how much of each token's mass enters where.

row        a stretch of context: the template, a sentence of the question, or an earlier step
share      of a token's rollout mass, in [0, 1]; a column of shares adds up to its grounding
cell       mass of one step token on one context token, in 255ths of that step token's largest
"""

import base64
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from specguard_core.text import display_groups
from specguard_core.types import Candidate, Heatmap, TokenSignal, Trace
from viz_app.views.tokens import NEWLINE, TAB

SHARES = 10_000
"""A whole token's mass as it is sent: shares travel as whole numbers."""
MOST_CELLS = 30_000
"""Token x context cells sent whole to the page; beyond it only each token's largest are."""
LARGEST = 24
"""Cells per token sent of a larger heatmap."""


def context_rows(trace: Trace, step_index: int) -> list[dict[str, Any]]:
    """The context as rows: all that is no question in one, then sentences, then earlier steps."""
    rows: list[dict[str, Any]] = []
    template: dict[str, Any] = {"label": "template", "where": "", "segments": [], "texts": []}
    start = 0
    first = True
    for index, segment in enumerate(trace.prompt_segments):
        stop = start + len(segment.token_ids)
        if segment.kind == "question":
            row = _row(segment.token_ids, start, trace, index)
            row["label"] = "".join(row["texts"]).strip()
            row["where"] = "prompt" if first else ""
            rows.append(row)
            first = False
        else:
            template["segments"].append(index)
        start = stop
    for step in trace.steps[:step_index]:
        ids = step.output.token_ids
        row = _row(ids, start, trace, len(trace.prompt_segments) + step.index)
        row["label"] = row["where"] = f"step {step.index + 1}"
        rows.append(row)
        start += len(ids)
    return [template, *rows]


def _row(token_ids: Sequence[int], start: int, trace: Trace, segment: int) -> dict[str, Any]:
    """texts: one per chip, only breaks made seen; start: position in the whole context; sizes:
    tokens per chip, None where each is one token."""
    texts, sizes = _grouped(tuple(trace.pieces[token_id] for token_id in token_ids))
    return {
        "label": "",
        "where": "",
        "segments": [segment],
        "start": start,
        "texts": texts,
        "sizes": None if all(size == 1 for size in sizes) else sizes,
    }


@lru_cache(maxsize=1024)
def _grouped(pieces: tuple[bytes, ...]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Texts and sizes of the chips; every later step asks for those of the earlier ones again."""
    groups = display_groups(range(len(pieces)), dict(enumerate(pieces)))
    texts = tuple(text.replace("\n", NEWLINE).replace("\t", TAB) for _, _, text in groups)
    return texts, tuple(stop - first for first, stop, _ in groups)


def row_shares(token: TokenSignal, rows: Sequence[dict[str, Any]]) -> list[float] | None:
    """The token's share per row; None where it was not measured."""
    shares = token.attribution
    if shares is None:
        return None
    return [math.fsum(shares[s] for s in row["segments"] if s < len(shares)) for row in rows]


def paint(candidate: Candidate) -> dict[str, Any] | None:
    """Cells of the candidate's heatmap: all as base64, or per token the places of the largest.

    None where no heatmap was recorded.
    """
    heatmap = candidate.heatmap
    if heatmap is None:
        return None
    whole = len(heatmap.cells) <= MOST_CELLS
    return {
        "n_context": heatmap.n_context,
        "scales": [round(scale, 5) for scale in heatmap.scales],
        "cells": base64.b64encode(heatmap.cells).decode("ascii") if whole else None,
        "largest": None if whole else _largest(heatmap),
    }


def _largest(heatmap: Heatmap) -> list[list[int]]:
    """Per token: position, cell, position, cell, ... of its largest cells, in order of place."""
    rows = np.frombuffer(heatmap.cells, np.uint8).reshape(-1, heatmap.n_context)
    found = []
    for row in rows:
        best = np.sort(np.argpartition(-row.astype(np.int16), LARGEST)[:LARGEST])
        found.append([int(number) for i in best if row[i] for number in (i, row[i])])
    return found


def axis_top(value: float) -> float:
    """The smallest value of two digits at or above this one; at least 0.01."""
    return max(math.ceil(value * 100) / 100, 0.01)

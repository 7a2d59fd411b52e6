"""Long recorded runs made from the short one that ships. Knows no model and no page.

example    the recorded run in assets/: real tokens, real signals, a few short steps
lengthened a step whose tokens, but the last, are gone through again until it is long enough;
           its weakest tokens and its readings, so its verdict, stay what they were
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from specguard_core.bundled import EXAMPLE
from specguard_core.trace_io import load_trace
from specguard_core.types import Candidate, Heatmap, Reading, Step, TokenSignal, Trace


def long_trace(steps: int, tokens: int) -> Trace:
    """The example's steps in turn, `steps` of them, each of `tokens` tokens; its last ends it."""
    example = load_trace(EXAMPLE)
    *middle, last = example.steps
    models = {
        role: None if info is None else replace(info, context_length=8192)
        for role, info in (("draft", example.draft), ("target", example.target))
    }
    chosen = [middle[index % len(middle)] for index in range(steps - 1)] + [last]
    n_prompt = len(example.prompt_segments)
    units = tuple(
        _lengthened(step, index, tokens, n_prompt, len(example.prompt_ids) + index * tokens)
        for index, step in enumerate(chosen)
    )
    return replace(example, units=units, problem_id=f"{steps} steps", **models)


def _lengthened(step: Step, index: int, tokens: int, n_prompt: int, n_context: int) -> Step:
    def longer(candidate: Candidate) -> Candidate:
        *body, last = candidate.tokens
        repeated = [body[at % len(body)] for at in range(tokens - 1)] + [last]
        return replace(
            candidate,
            tokens=tuple(_placed(token, n_prompt, index) for token in repeated),
            heatmap=_stretched(candidate.heatmap, tokens, n_context),
        )

    verdict = step.verdict
    if verdict is not None and step.chosen is not None:
        readings = _moved(verdict.readings, len(step.chosen.tokens) - 1, tokens - 1)
        verdict = replace(verdict, readings=readings)
    return replace(
        step,
        index=index,
        candidates=tuple(longer(candidate) for candidate in step.candidates),
        written=None if step.written is None else longer(step.written),
        verdict=verdict,
    )


def _placed(token: TokenSignal, n_prompt: int, index: int) -> TokenSignal:
    """The prompt's shares as they were, the earlier steps' sum spread over those before it now."""
    if token.attribution is None:
        return token
    prompt, earlier = token.attribution[:n_prompt], token.attribution[n_prompt:]
    spread = (sum(earlier) / index,) * index if index else ()
    return replace(token, attribution=prompt + spread)


def _stretched(heatmap: Heatmap | None, rows: int, n_context: int) -> Heatmap | None:
    """The same picture on more tokens: rows [m, n] in turn, columns drawn out to n_context."""
    if heatmap is None:
        return None
    cells = np.frombuffer(heatmap.cells, np.uint8).reshape(-1, heatmap.n_context)
    columns = np.arange(n_context) * heatmap.n_context // n_context
    turns = np.arange(rows) % len(cells)
    thinner = heatmap.n_context / n_context
    scales = tuple(heatmap.scales[turn] * thinner for turn in turns)
    return Heatmap(n_context, scales, cells[turns][:, columns].tobytes())


def _moved(readings: Mapping[str, Reading], old: int, new: int) -> dict[str, Reading]:
    """A weakest token that was the step's last still is."""
    return {
        name: replace(reading, weakest_token=new) if reading.weakest_token == old else reading
        for name, reading in readings.items()
    }

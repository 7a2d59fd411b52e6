"""From what a model answered to candidates with their signals. Calls no model.

measured row   the attention of a position that was a query; a boundary token that was not fed
               has none, and its attribution is None
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specguard_core.config import DecodeConfig, SelectionMethod
from specguard_core.grounding import (
    FloatArray,
    entry_attribution,
    quantise_rows,
    segment_attribution,
    token_grounding,
)
from specguard_core.lm import Draw, Floats, StepReading
from specguard_core.similarity import Matrix, hidden_similarity
from specguard_core.types import (
    Alternative,
    Candidate,
    CandidateStop,
    Heatmap,
    Origin,
    TokenSignal,
)


def distinct_draws(draws: Sequence[Draw]) -> list[tuple[Draw, tuple[int, ...]]]:
    """Each different draw once, with the slots that drew it, in order of first appearance."""
    slots: dict[tuple[int, ...], list[int]] = {}
    for slot, draw in enumerate(draws):
        slots.setdefault(draw.token_ids, []).append(slot)
    return [(draws[numbers[0]], tuple(numbers)) for numbers in slots.values()]


def candidate_of(
    draw: Draw,
    slots: tuple[int, ...],
    *,
    limit_stop: CandidateStop,
    segment_lengths: Sequence[int],
    config: DecodeConfig,
) -> Candidate:
    """One draw as a candidate; `limit_stop` names the limit that a draw may have run into."""
    origin: Origin = "sampled" if draw.logprobs is not None else "retokenised"
    attribution, heatmap = attribution_of(
        draw.attention, _n_measured(draw, config), segment_lengths, config
    )
    tokens = tuple(
        TokenSignal(
            token_id=token_id,
            logprob=_at(draw.logprobs, index),
            sampling_logprob=_at(draw.sampling_logprobs, index),
            entropy=_at(draw.entropies, index),
            alternatives=tuple(
                Alternative(other, float(logprob)) for other, logprob in draw.alternatives[index]
            ),
            attribution=attribution[index] if index < len(attribution) else None,
        )
        for index, token_id in enumerate(draw.token_ids)
    )
    stop: CandidateStop = limit_stop if draw.stop == "limit" else draw.stop
    return Candidate(tokens, stop, origin, slots, heatmap)


def attribution_of(
    rows: Floats | None, n_measured: int, segment_lengths: Sequence[int], config: DecodeConfig
) -> tuple[list[tuple[float, ...]], Heatmap | None]:
    """Per measured token its attribution by segment, and the heatmap; empty where no rows are.

    rows is [layers, m, n + m]; the last `config.rollout_layers` of its layers are used.
    """
    if rows is None or n_measured == 0:
        return [], None
    n_context = sum(segment_lengths)
    kept = rows[-config.rollout_layers :, :n_measured, : n_context + n_measured]
    entered = _rolled_out(kept, n_context, config)
    shares = segment_attribution(entered, segment_lengths)
    return [tuple(map(float, row)) for row in shares], quantise_rows(entered)


def with_target_reading(
    candidate: Candidate, reading: StepReading, n_context: int, config: DecodeConfig
) -> Candidate:
    """The candidate with what the target makes of each of its tokens."""
    grounding: list[float] | None = None
    if reading.attention is not None:
        entered = _rolled_out(reading.attention, n_context, config)
        grounding = [float(share) for share in token_grounding(entered)]
    tokens = tuple(
        replace(
            token,
            target_logprob=float(reading.logprobs[index]),
            target_grounding=None if grounding is None else grounding[index],
        )
        for index, token in enumerate(candidate.tokens)
    )
    return replace(candidate, tokens=tokens)


def _rolled_out(rows: Floats, n_context: int, config: DecodeConfig) -> FloatArray:
    """[layers, m, n + m] to the [m, n] mass that enters the context, by the config's knobs."""
    return entry_attribution(
        rows,
        n_context,
        sparsify=config.sparsify,
        renormalise=config.renormalise,
        residual=config.residual,
        sink_tokens=config.sink_tokens,
    )


def similarity_of(
    distinct: Sequence[tuple[Draw, tuple[int, ...]]],
) -> dict[SelectionMethod, Matrix]:
    """The similarity matrices that only the model could give; none where it gave no vectors."""
    vectors = [draw.hidden for draw, _ in distinct if draw.hidden is not None]
    if not vectors or len(vectors) < len(distinct):
        return {}
    return {"hidden": hidden_similarity(np.stack(vectors), [len(slots) for _, slots in distinct])}


def _at(values: Floats | None, index: int) -> float | None:
    return None if values is None else float(values[index])


def _n_measured(draw: Draw, config: DecodeConfig) -> int:
    if draw.attention is None:
        return 0
    fed = draw.stop == "limit" or len(draw.token_ids) == 1 or config.include_boundary_token
    return len(draw.token_ids) if fed else len(draw.token_ids) - 1

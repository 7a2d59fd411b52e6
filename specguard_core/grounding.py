"""From attention rows to grounding: how much of a token flows back to what stands before the step.

Knows no model, no threshold and no UI. Rows come from the backend, which averages the heads.

context     C, the n positions before the current step: the prompt and the accepted steps
step        S, the m positions of the current step
row         what one position attends to, over n + m keys at absolute positions; sums to at most 1
sink        one of the first keys of the context, which soaks up attention whatever the token says
entry       the context position at which rollout mass enters the context; it never leaves again
ceiling     G_max, the most grounding a token can have when the residual path is mixed in
segment     a run of context positions that belong together: the prompt, step 1, step 2, ...
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specguard_core.errors import UsageError
from specguard_core.types import Heatmap

FloatArray = NDArray[np.float64]

RESIDUAL_SHARE = 0.5
"""Share of a row that stays on its own position (Abnar & Zuidema 2020, section 3)."""
_LEVELS = 255


def entry_attribution(
    attention: ArrayLike,
    n_context: int,
    *,
    sparsify: float,
    renormalise: bool,
    residual: bool,
    sink_tokens: int,
) -> FloatArray:
    """Rollout mass of each step token that enters the context at each of its positions.

    E_1 = A1_SC and E_l = Al_SC + Al_SS E_(l-1), after each layer's rows went through, in this
    order: sinks dropped, small entries dropped, residual path mixed in. A row that dropping would
    empty is left as it was. Extra memory is O(m (n + m)): no n x n matrix is formed.

    Args:
        attention: [L, m, n + m] head means in [0, 1]; attention[0] is the lowest kept layer, row t
            is the attention of position n + t.
        n_context: n, at least 0.
        sparsify: entries below this become 0, in [0, 1].
        renormalise: whether rows sum to 1 again after entries were dropped as small.
        residual: whether half of each row stays on its own position.
        sink_tokens: first keys to drop; the rest of the row then sums to 1. 0 touches nothing.

    Returns:
        [m, n], each at least 0; a row sums to that token's grounding, higher is better.

    Raises:
        UsageError: a wrong shape or option, or attention that is negative, infinite or NaN.

    Source: Abnar & Zuidema 2020, arXiv:2005.00928; context positions are absorbing, so that with
    rows summing to 1 the sum of a row is the full rollout's mass on the context.
    """
    rows = _checked_attention(attention, n_context)
    if not 0 <= sparsify <= 1:
        raise UsageError(f"expected sparsify in [0, 1], got {sparsify}: choose a value inside")
    if sink_tokens < 0:
        raise UsageError(f"expected sink_tokens of at least 0, got {sink_tokens}: use 0 for none")
    # The bound in the rows' own precision, so that a recorded 0.01 is not below a bound of 0.01.
    smallest_kept = float(rows.dtype.type(sparsify))
    entered: FloatArray | None = None
    for layer in rows:
        mixed = layer.astype(np.float64)
        if sink_tokens:
            _drop_sinks(mixed, sink_tokens)
        _drop_small(mixed, smallest_kept, renormalise)
        if residual:
            _mix_residual(mixed, n_context)
        to_context, to_step = mixed[:, :n_context], mixed[:, n_context:]
        entered = to_context if entered is None else to_context + to_step @ entered
    assert entered is not None  # _checked_attention refuses an empty stack of layers
    return np.ascontiguousarray(entered)


def token_grounding(entered: FloatArray) -> FloatArray:
    """Grounding of each step token, [m] in [0, G_max]: the row sums of an entry attribution."""
    return np.asarray(entered.sum(axis=1), dtype=np.float64)


def grounding_ceiling(layers_used: int, residual: bool) -> float:
    """G_max in (0, 1]: 1 - 0.5 ** layers_used with the residual path mixed in, else 1."""
    if layers_used < 1:
        raise UsageError(f"expected at least 1 rollout layer, got {layers_used}: raise it")
    return float(1.0 - RESIDUAL_SHARE**layers_used) if residual else 1.0


def segment_attribution(entered: FloatArray, segment_lengths: Sequence[int]) -> FloatArray:
    """[m, n] summed over runs of context positions: [m, n_segments]; row sums are unchanged.

    Raises:
        UsageError: a negative length, or lengths that do not add up to n.
    """
    n_context = entered.shape[1]
    if any(length < 0 for length in segment_lengths) or sum(segment_lengths) != n_context:
        raise UsageError(
            f"expected segment lengths of at least 0 that add up to the {n_context} context "
            f"positions, got {list(segment_lengths)}: count the context's tokens again"
        )
    summed = np.zeros((entered.shape[0], len(segment_lengths)))
    start = 0
    for index, length in enumerate(segment_lengths):
        summed[:, index] = entered[:, start : start + length].sum(axis=1)
        start += length
    return summed


def quantise_rows(entered: FloatArray) -> Heatmap:
    """An [m, n] attribution as bytes, one scale per row; off by at most 1/510 of that scale."""
    largest = entered.max(axis=1, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)[:, None]
    cells = np.rint(entered / unit * _LEVELS).astype(np.uint8)
    return Heatmap(entered.shape[1], tuple(largest.tolist()), cells.tobytes())


def restore_rows(heatmap: Heatmap) -> FloatArray:
    """The inverse of quantise_rows, [m, n]."""
    cells = np.frombuffer(heatmap.cells, dtype=np.uint8)
    levels = cells.reshape(len(heatmap.scales), heatmap.n_context)
    return np.asarray(heatmap.scales)[:, None] * levels / _LEVELS


def _checked_attention(attention: ArrayLike, n_context: int) -> NDArray[np.floating]:
    try:
        rows = np.asarray(attention)
        if not np.issubdtype(rows.dtype, np.floating):
            rows = rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"expected attention as one array of numbers: {error}") from error
    if rows.ndim != 3 or rows.shape[0] == 0 or rows.shape[1] == 0:
        raise UsageError(
            "expected attention of shape [layers, step, context + step] with at least one layer "
            f"and one step row, got {list(rows.shape)}: pass the rows of the kept layers"
        )
    n_step, n_keys = rows.shape[1:]
    if n_context < 0 or n_keys != n_context + n_step:
        raise UsageError(
            f"expected n_context + n_step keys, got {n_keys} keys for a context of {n_context} and "
            f"a step of {n_step}: align the keys at absolute positions"
        )
    lowest, highest = float(rows.min()), float(rows.max())
    if not (lowest >= 0 and np.isfinite(highest)):  # a NaN anywhere makes both NaN
        raise UsageError(
            f"expected attention that is finite and at least 0, got values from {lowest} to "
            f"{highest}: the captured rows are damaged"
        )
    return rows


def _drop_sinks(rows: FloatArray, sink_tokens: int) -> None:
    """Zeroes the first keys in place, then makes the rows sum to 1; rows of nothing else stay."""
    kept = rows[:, sink_tokens:].sum(axis=1)
    safe = kept > 0
    rows[safe, :sink_tokens] = 0.0
    rows[safe] /= kept[safe, None]


def _drop_small(rows: FloatArray, smallest_kept: float, renormalise: bool) -> None:
    """Zeroes entries below the bound in place; rows of nothing else stay."""
    small = rows < smallest_kept
    emptied = small.all(axis=1, keepdims=True)
    rows[small & ~emptied] = 0.0
    if renormalise:
        total = rows.sum(axis=1, keepdims=True)
        np.divide(rows, total, out=rows, where=~emptied & (total > 0))


def _mix_residual(rows: FloatArray, n_context: int) -> None:
    """A <- 0.5 A + 0.5 I in place; a step row's own position is n + t."""
    rows *= 1.0 - RESIDUAL_SHARE
    own = np.arange(rows.shape[0])
    rows[own, n_context + own] += RESIDUAL_SHARE

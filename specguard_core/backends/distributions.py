"""Whole processed distributions, and how unsure a model is. Knows no model and no tokenizer.

processed   temperature, then top-k, then the nucleus, each time renormalised (see sampling.py);
            one-hot at temperature 0
raw         softmax of the logits as they are
"""

import torch
from torch import Tensor

from specguard_core.backends.sampling import nucleus_edge, top_values
from specguard_core.block_requests import Sampling
from specguard_core.errors import ModelError

_CANDIDATES = 64
# Below this a division would leave fp32; such a distribution is one-hot long before.
_LEAST_TEMPERATURE = 1e-30


def processed(logits: Tensor, sampling: Sampling) -> Tensor:
    """[rows, vocabulary] probabilities of logits [rows, vocabulary], fp32.

    Raises:
        ModelError: logits that are NaN or infinite.
    """
    largest, ids = logits.max(dim=-1, keepdim=True)
    require_finite(largest)
    if sampling.temperature == 0:
        return torch.zeros_like(logits).scatter_(-1, ids, 1.0)
    weights = ((logits - largest) / max(sampling.temperature, _LEAST_TEMPERATURE)).exp_()
    if 0 < sampling.top_k < logits.shape[-1]:
        values, ids = top_values(weights, sampling.top_k)
        weights = torch.zeros_like(weights).scatter_(-1, ids, values)
    if sampling.top_p < 1:
        weights = weights.where(weights >= _edges(weights, sampling.top_p), 0.0)
    probabilities: Tensor = weights / weights.sum(dim=-1, keepdim=True)
    return probabilities


def entropies(logits: Tensor) -> Tensor:
    """[rows] nats, of the raw softmax of logits [rows, vocabulary] fp32."""
    shifted = logits - logits.amax(dim=-1, keepdim=True)
    weights = shifted.exp()
    total = weights.sum(dim=-1)
    expected: Tensor = torch.linalg.vecdot(weights, shifted) / total
    return (total.log() - expected).clamp_min(0)


def top_ids(logits: Tensor, count: int) -> Tensor:
    """[rows, count] ids of the likeliest tokens."""
    return top_values(logits, min(count, logits.shape[-1]))[1]


def overlaps(ids: Tensor, others: Tensor) -> Tensor:
    """[rows] share of ids [rows, n] that are among others [rows, n]."""
    return (ids[:, :, None] == others[:, None, :]).any(dim=-1).float().mean(dim=-1)


def require_finite(best: Tensor) -> None:
    """
    Raises:
        ModelError: a largest logit that is NaN or infinite.
    """
    if not bool(torch.isfinite(best).all()):
        raise ModelError(
            "expected finite logits, got NaN or infinity: the weights are damaged, or half "
            "precision overflows; load with dtype float32"
        )


def _edges(weights: Tensor, top_p: float) -> Tensor:
    """[rows, 1] least weight in each row's nucleus."""
    mass = top_p * weights.sum(dim=-1, dtype=torch.float64)
    values = top_values(weights, min(_CANDIDATES, weights.shape[-1]))[0]
    reached = values.cumsum(dim=-1, dtype=torch.float64) >= mass[:, None]
    edges = values.gather(-1, reached.int().argmax(dim=-1, keepdim=True))
    for row in (~reached.any(dim=-1)).nonzero().flatten().tolist():
        edges[row] = nucleus_edge(weights[row], float(mass[row]))
    return edges

"""From logits to tokens and to what is recorded of them. Knows no model and no tokenizer.

nucleus     the least set of most likely tokens with at least top_p of the mass, ties included
processed   the distribution really sampled: temperature, then top-k, then the nucleus, each time
            renormalised; one-hot at temperature 0
raw         softmax of the logits as they are, over the tokenizer's ids

One uniform number per token decides a draw, by the inverse of the cumulative distribution over
tokens in order of likelihood. Most nuclei lie within the few likeliest tokens, which are found
without a sort; only a flat distribution is searched as a whole.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specguard_core.errors import ModelError

_CANDIDATES = 32
# Below this a temperature is greedy in all but name, and above it no logit overflows.
_LEAST_TEMPERATURE = 1e-6
_BLOCK = 64
_BLOCKED_VOCABULARY = 16_384


@dataclass(frozen=True, slots=True)
class Picked:
    """One token per row. logprobs [rows] nats, of the processed distribution."""

    token_ids: list[int]
    logprobs: list[float]


def pick(
    logits: Tensor, uniforms: Sequence[float], *, temperature: float, top_p: float, top_k: int
) -> Picked:
    """One token for each row of logits [rows, vocabulary], fp32.

    uniforms   [rows], each in [0, 1); not used at temperature 0

    Raises:
        ModelError: logits that are NaN or infinite.
    """
    if temperature == 0:
        best, ids = logits.max(dim=-1)
        _require_finite(best.tolist())
        return Picked(ids.tolist(), [0.0] * len(logits))
    weights = (logits / max(temperature, _LEAST_TEMPERATURE)).softmax(dim=-1)
    count = min(logits.shape[-1], top_k if top_k > 0 else _CANDIDATES)
    values, ids = top_values(weights, count)
    likeliest, ids_of = values.tolist(), ids.tolist()
    _require_finite(row[0] for row in likeliest)
    whole = count == logits.shape[-1] or top_k > 0
    picked: list[int] = []
    logprobs: list[float] = []
    for row, uniform in enumerate(uniforms):
        mass = top_p * sum(likeliest[row]) if top_k > 0 else top_p
        found = _pick_sorted(likeliest[row], uniform, mass, whole=whole)
        if found is None:
            token_id, logprob = _pick_searched(weights[row], uniform, top_p)
        else:
            rank, logprob = found
            token_id = ids_of[row][rank]
        picked.append(token_id)
        logprobs.append(logprob)
    return Picked(picked, logprobs)


def top_values(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row [rows, n] and their places, largest first.

    In a large row they are sought among the blocks with the largest maxima, which hold them all.
    """
    size = values.shape[-1]
    if size < _BLOCKED_VOCABULARY or count > size // (2 * _BLOCK):
        return values.topk(count, dim=-1)
    n_blocks = size // _BLOCK
    whole = values[:, : n_blocks * _BLOCK].unflatten(-1, (n_blocks, _BLOCK))
    blocks = whole.amax(dim=-1).topk(count, dim=-1).indices
    places = (blocks[..., None] * _BLOCK + _steps(_BLOCK, values)).flatten(1)
    rest = _steps(size - n_blocks * _BLOCK, values) + n_blocks * _BLOCK
    places = torch.cat([places, rest.expand(len(values), -1)], dim=-1)
    found, order = values.gather(-1, places).topk(count, dim=-1)
    return found, places.gather(-1, order)


def _pick_sorted(
    likeliest: list[float], uniform: float, mass: float, *, whole: bool
) -> tuple[int, float] | None:
    """Rank and log-probability of a draw from the nucleus of weights sorted downwards.

    None where the nucleus may reach beyond the weights given, unless they are `whole`. A loop: a
    nucleus holds a few tokens, and there are few rows.
    """
    total = 0.0
    sums: list[float] = []
    for weight in likeliest:
        # The least beginning with at least the mass, and ties with its least likely token.
        if total >= mass and sums and weight < likeliest[len(sums) - 1]:
            break
        total += weight
        sums.append(total)
    if len(sums) == len(likeliest) and not whole:
        return None
    rank = min(bisect_right(sums, uniform * total), len(sums) - 1)
    return rank, _log_share(likeliest[rank], total)


def _pick_searched(weights: Tensor, uniform: float, mass: float) -> tuple[int, float]:
    """(token id, log-probability) from one row's weights [vocabulary], however flat."""
    edge = nucleus_edge(weights, mass)
    kept = weights.where(weights >= edge, 0.0)
    sums = kept.cumsum(dim=0, dtype=torch.float64)
    total = float(sums[-1])
    place = int(torch.searchsorted(sums, uniform * total, right=True))
    # Rounding may point past the last kept token, or at one that is not kept.
    if place >= len(kept) or float(kept[place]) == 0.0:
        place = int(kept.nonzero()[-1])
    return place, _log_share(float(kept[place]), total)


def nucleus_edge(weights: Tensor, mass: float) -> float:
    """The least weight in the nucleus of the given mass, from weights [vocabulary] >= 0.

    The bits of a non-negative float order like the number: mass is counted by the leading 16, then
    only the weights that share those of the edge are sorted.
    """
    keys = weights.view(torch.int32) >> 16
    by_key = torch.bincount(keys, weights=weights.double())
    down_to = by_key.flip(0).cumsum(0)
    at = int(torch.searchsorted(down_to, mass))
    if at >= len(down_to):
        return 0.0
    above = float(down_to[at] - by_key.flip(0)[at])
    edge_key = len(by_key) - 1 - at
    near = weights[keys == edge_key].sort(descending=True).values
    inside = int(torch.searchsorted(near.cumsum(0, dtype=torch.float64), mass - above))
    return float(near[min(inside, len(near) - 1)])


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is recorded of chosen tokens. All of the raw distribution, nats.

    logprobs, entropies   [rows]
    other_ids, other_logprobs   [rows, n_alternatives], likeliest first
    """

    logprobs: Tensor
    entropies: Tensor
    other_ids: Tensor
    other_logprobs: Tensor


def describe(logits: Tensor, token_ids: Tensor, n_alternatives: int) -> Recorded:
    """Of logits [rows, vocabulary] fp32 and the tokens [rows] chosen from them."""
    largest = logits.amax(dim=-1, keepdim=True)
    shifted = logits - largest
    weights = shifted.exp()
    total = weights.sum(dim=-1, keepdim=True)
    log_total = total.log()
    expected = torch.linalg.vecdot(weights, shifted).unsqueeze(-1) / total
    chosen = shifted.gather(-1, token_ids[:, None]) - log_total
    best, ids = top_values(shifted, min(n_alternatives, logits.shape[-1]))
    return Recorded(
        logprobs=chosen.squeeze(-1),
        entropies=(log_total - expected).squeeze(-1).clamp_min(0),
        other_ids=ids,
        other_logprobs=best - log_total,
    )


def _steps(count: int, like: Tensor) -> Tensor:
    return torch.arange(count, device=like.device)


def _log_share(weight: float, total: float) -> float:
    return min(0.0, math.log(weight / total)) if weight > 0 else -math.inf


def _require_finite(best: Iterable[float]) -> None:
    if not all(map(math.isfinite, best)):
        raise ModelError(
            "expected finite logits, got NaN or infinity: the weights are damaged, or half "
            "precision overflows; load with dtype float32"
        )

"""How well rewards tell right steps from wrong ones, on steps the draft samples after gold ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import LlamaForTokenClassification, PreTrainedTokenizerFast

from specguard_core.config import DecodeConfig
from specguard_core.training.reward_batches import plain_rows
from specguard_core.training.reward_data import Draw

THRESHOLD = DecodeConfig().reward_threshold
"""The reward from which `rsd` keeps a step, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class RewardScore:
    """A draw counts once, so a step drawn three times counts three times.

    auc        chance that a right draw has a higher reward than a wrong one, ties half
    accepted   share of the right, and of the wrong draws with a reward of `THRESHOLD` or more
    """

    n_draws: int
    n_wrong: int
    auc: float
    accepted: tuple[float, float]


def evaluate_reward(
    model: LlamaForTokenClassification, tokenizer: PreTrainedTokenizerFast, draws: Sequence[Draw]
) -> RewardScore:
    texts = [(draw.question, (*draw.earlier, draw.step)) for draw in draws]
    rewards = np.array(last_rewards(model, tokenizer, texts))
    counts = np.array([draw.count for draw in draws])
    right = np.array([draw.right for draw in draws])
    good, bad = counts * right, counts * ~right
    kept = rewards >= THRESHOLD
    return RewardScore(
        n_draws=int(counts.sum()),
        n_wrong=int(bad.sum()),
        auc=area_under_curve(rewards, good, bad),
        accepted=(
            float(good[kept].sum() / max(good.sum(), 1)),
            float(bad[kept].sum() / max(bad.sum(), 1)),
        ),
    )


@torch.no_grad()
def last_rewards(
    model: LlamaForTokenClassification,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[tuple[str, Sequence[str]]],
    batch_size: int = 64,
) -> list[float]:
    """The reward, in [0, 1], of the last step of each question's steps."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i][0]) + sum(map(len, texts[i][1])))
    found = [0.0] * len(texts)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        ids, last = plain_rows(tokenizer, [texts[i] for i in rows])
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
        logits = model.score(hidden[torch.arange(len(rows)), last])
        for i, reward in zip(rows, logits.softmax(dim=-1)[:, 1].tolist(), strict=True):
            found[i] = reward
    return found


def area_under_curve(
    rewards: Sequence[float] | np.ndarray[Any, Any],
    good: Sequence[int] | np.ndarray[Any, Any],
    bad: Sequence[int] | np.ndarray[Any, Any],
) -> float:
    """ROC AUC where value i was seen `good[i]` times on a right and `bad[i]` on a wrong step."""
    values, place = np.unique(np.asarray(rewards), return_inverse=True)
    rights = np.bincount(place, weights=np.asarray(good), minlength=len(values))
    wrongs = np.bincount(place, weights=np.asarray(bad), minlength=len(values))
    below = np.cumsum(wrongs) - wrongs
    pairs = rights.sum() * wrongs.sum()
    return float((rights * (below + wrongs / 2)).sum() / pairs) if pairs else 0.5

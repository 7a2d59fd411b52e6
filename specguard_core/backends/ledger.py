"""What is recorded of the tokens of a batch, worked out many at a time. Knows no model.

owner   the draw a token belongs to, -1 for a token taken beside a finished draw
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specguard_core.backends.sampling import Picked, Recorded, describe
from specguard_core.lm import Floats

_KEPT_LOGITS = 1 << 22
# What a processor's cache holds beside what is computed of it.
_KEPT_LOGITS_CPU = 1 << 20
_CACHED_LOGITS = 1 << 17


@dataclass(frozen=True, slots=True)
class Ledgered:
    """Recorded of every token taken, flat; owners [rows] is the draw of each, -1 for none."""

    owners: np.ndarray[tuple[int], np.dtype[np.int64]]
    logprobs: Floats
    entropies: Floats
    other_ids: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    other_logprobs: Floats


class Ledger:
    """Keeps logits until there are enough of them to be described in one go."""

    def __init__(self, n_alternatives: int) -> None:
        self.n_alternatives = n_alternatives
        self.owners: list[int] = []
        self._logits: list[Tensor] = []
        self._ids: list[int] = []
        self._n_kept = 0
        self._parts: list[Recorded] = []

    def add(self, logits: Tensor, picked: Picked, owners: list[int]) -> None:
        self._logits.append(logits)
        self._ids += picked.token_ids
        self.owners += owners
        self._n_kept += logits.numel()
        most = _KEPT_LOGITS_CPU if logits.device.type == "cpu" else _KEPT_LOGITS
        if self._n_kept > most:
            self._describe()

    def finish(self) -> Ledgered:
        self._describe()
        names = ("logprobs", "entropies", "other_ids", "other_logprobs")
        whole = {
            name: torch.cat([getattr(part, name) for part in self._parts]).cpu().numpy()
            for name in names
        }
        return Ledgered(owners=np.asarray(self.owners), **whole)

    def _describe(self) -> None:
        if self._logits:
            logits = torch.cat(self._logits)
            parts = _few_rows(logits)
            ids = torch.tensor(self._ids, device=logits.device).split([*map(len, parts)])
            for part, own in zip(parts, ids, strict=True):
                self._parts.append(describe(part, own, self.n_alternatives))
            self._logits, self._ids, self._n_kept = [], [], 0


def _few_rows(logits: Tensor) -> tuple[Tensor, ...]:
    """Logits [rows, vocabulary] by as many rows as a processor's cache holds what is computed of
    them: rows of a large vocabulary take two to three times as long at once as one by one."""
    if logits.device.type != "cpu":
        return (logits,)
    parts: tuple[Tensor, ...] = logits.split(max(1, _CACHED_LOGITS // logits.shape[-1]))
    return parts

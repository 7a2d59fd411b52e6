"""Attention rows of judged candidates, kept so that rollout knobs can be turned without a model.

Lives beside states and traces, never in them; the oldest rows go first when the bound is reached.

rows       [layers, m, n + m] float32, heads averaged, the lowest kept layer first
key        digest of a context and a step: branches that share them share the rows
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

import numpy as np

from specguard_core.events import (
    BlockCommitted,
    ChainsMoved,
    Committed,
    Event,
    Proposed,
    Selected,
    Verified,
)
from specguard_core.lm import Floats
from specguard_core.types import Trace

DEFAULT_LIMIT_BYTES = 256 * 2**20


def evidence_key(context_ids: Sequence[int], token_ids: Sequence[int]) -> str:
    """Names the rows of a step after a context, whatever run or branch it stands in."""
    both = np.asarray([*context_ids, -1, *token_ids], dtype=np.int64)
    return blake2b(both.tobytes(), digest_size=16).hexdigest()


class Evidence:
    """A bounded store of rows, filled from events."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._rows: OrderedDict[str, Floats] = OrderedDict()
        self._judged: set[str] = set()
        self._size = 0

    @classmethod
    def from_rows(
        cls, rows: Mapping[str, Floats], limit_bytes: int = DEFAULT_LIMIT_BYTES
    ) -> "Evidence":
        """The store with these rows by key, as read from a file."""
        evidence = cls(limit_bytes)
        for key, value in rows.items():
            evidence._judged.add(key)
            evidence._put(key, value)
        return evidence

    def copy(self) -> "Evidence":
        """A store of its own with the same rows, all of them taken as judged."""
        return Evidence.from_rows(self._rows, self._limit_bytes)

    @property
    def size_bytes(self) -> int:
        return self._size

    def items(self) -> Iterator[tuple[str, Floats]]:
        """(key, rows), the oldest first."""
        yield from self._rows.items()

    def record(self, event: Event) -> None:
        """Keep a proposal's rows; once a step is committed, only those of judged candidates.

        A candidate that was judged in one branch keeps its rows when another branch judges another.
        """
        match event:
            case Proposed(context_ids=context_ids, candidates=candidates, attention=attention):
                for candidate, rows in zip(candidates, attention, strict=True):
                    if rows is not None:
                        self._put(evidence_key(context_ids, candidate.token_ids), rows)
            case Committed(step=step, trace=trace):
                context_ids = context_before(trace, step.index)
                for candidate in step.candidates:
                    key = evidence_key(context_ids, candidate.token_ids)
                    if candidate is step.chosen:
                        self._judged.add(key)
                    elif key not in self._judged:
                        self._drop(key)
            case Selected() | Verified() | BlockCommitted() | ChainsMoved():
                pass

    def rows(self, context_ids: Sequence[int], token_ids: Sequence[int]) -> Floats | None:
        """[layers, m, n + m] of a step after a context; None where they were not kept."""
        return self._rows.get(evidence_key(context_ids, token_ids))

    def _put(self, key: str, rows: Floats) -> None:
        self._drop(key)
        self._rows[key] = rows
        self._size += rows.nbytes
        while self._size > self._limit_bytes and self._rows:
            oldest = next(iter(self._rows))
            self._judged.discard(oldest)
            self._drop(oldest)

    def _drop(self, key: str) -> None:
        rows = self._rows.pop(key, None)
        if rows is not None:
            self._size -= rows.nbytes


def context_before(trace: Trace, step_index: int) -> tuple[int, ...]:
    """Token ids of everything a step of the trace was written after."""
    earlier = (step.output.token_ids for step in trace.steps[:step_index])
    return trace.prompt_ids + tuple(token_id for ids in earlier for token_id in ids)

"""What a model has read, kept so that nothing is read twice. Knows no tokenizer and no sampling.

chunk      tokens that went through the model in one pass: a paragraph, a turn of a chat, or the
           longest run allowed. Where one ends depends on the tokens before it and on nothing else,
           so that problems under one system prompt share what was read of it
states     keys and values of a chunk, per layer [1, kv_heads, m, head_dim]
store      the chunks read so far, as a tree: a refused step is simply a branch not taken
working    the cache handed to the model for one call, filled from the store

Floating-point sums depend on how many tokens go through at once. As chunks depend on tokens alone,
a prefix has the same states, bit for bit, whatever was asked before: after an undo, on another
branch, in a rerun. What sampling writes is dropped and read again as a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from specguard_core.errors import ModelError
from specguard_core.lm import TokenIds

States = list[tuple[Tensor, Tensor]]
MAX_CHUNK_TOKENS = 256
_GROWTH_TOKENS = 64


def split_chunks(
    token_ids: Sequence[int],
    piece: Callable[[int], bytes],
    *,
    turn_ends: Set[int] = frozenset(),
    limit: int = MAX_CHUNK_TOKENS,
) -> list[TokenIds]:
    """The chunks of a prefix: one ends after a blank line or a turn, or at `limit` tokens."""
    chunks: list[TokenIds] = []
    breaks = {token: text for token in set(token_ids) if b"\n" in (text := piece(token))}
    start, after_break = 0, False
    for position, token_id in enumerate(token_ids, 1):
        text = breaks.get(token_id, b"")
        ends = b"\n\n" in text or (after_break and text.startswith(b"\n"))
        after_break = text.endswith(b"\n")
        if ends or token_id in turn_ends or position - start == limit:
            chunks.append(tuple(token_ids[start:position]))
            start = position
    if start < len(token_ids):
        chunks.append(tuple(token_ids[start:]))
    return chunks


class BufferLayer(DynamicLayer):
    """One layer's keys and values in a buffer with room to grow: [rows, kv_heads, room, head_dim].

    Full length also for sliding layers, whose window the mask enforces: any depth can be dropped.
    """

    def __init__(self, room: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # so in transformers
        self._room = room
        self._length = 0
        self._buffers: tuple[Tensor, Tensor] | None = None

    @property
    def held(self) -> tuple[Tensor, Tensor]:
        """Keys and values [rows, kv_heads, length, head_dim], views of the buffers."""
        if self._buffers is None:
            raise ModelError("expected every layer to use its cache, one did not")
        keys, values = self._buffers
        return keys.narrow(2, 0, self._length), values.narrow(2, 0, self._length)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        count = key_states.shape[-2]
        keys, values = self._with_room(key_states, value_states)
        keys.narrow(2, self._length, count).copy_(key_states)
        values.narrow(2, self._length, count).copy_(value_states)
        self._length += count
        return keys.narrow(2, 0, self._length), values.narrow(2, 0, self._length)

    def fill(self, rows: int, states: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Lay chunks end to end, the same in each of `rows` rows."""
        keys, values = (torch.cat(parts, dim=2) for parts in zip(*states, strict=True))
        self.update(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1))

    def get_seq_length(self) -> int:
        return self._length

    def crop(self, tokens_to_remove: int) -> None:
        self._length -= abs(tokens_to_remove)

    def batch_repeat_interleave(self, repeats: int) -> None:
        keys, _ = self.held
        rows = torch.arange(keys.shape[0], device=keys.device)
        self.batch_select_indices(rows.repeat_interleave(repeats))

    def batch_select_indices(self, indices: Tensor) -> None:
        if self._buffers is not None:
            keys, values = self._buffers
            rows = indices.to(keys.device)  # layers of a spread model lie on several devices
            self._buffers = keys[rows], values[rows]

    def _with_room(self, key_states: Tensor, value_states: Tensor) -> tuple[Tensor, Tensor]:
        needed = self._length + key_states.shape[-2]
        if self._buffers is None:
            room = max(self._room, needed)
            self._buffers = _buffer(key_states, room), _buffer(value_states, room)
            self.is_initialized = True
            self.dtype, self.device = key_states.dtype, key_states.device
        elif needed > self._buffers[0].shape[2]:
            room = needed + max(_GROWTH_TOKENS, needed // 4)
            keys, values = self.held
            grown = _buffer(keys, room), _buffer(values, room)
            grown[0].narrow(2, 0, self._length).copy_(keys)
            grown[1].narrow(2, 0, self._length).copy_(values)
            self._buffers = grown
        return self._buffers


def _buffer(like: Tensor, room: int) -> Tensor:
    rows, heads, _, size = like.shape
    return like.new_empty((rows, heads, room, size))


class WorkingCache(Cache):
    """A transformers cache of `rows` equal rows that begins with the given chunks."""

    def __init__(self, rows: int, chunks: Sequence[Chunk], room: int) -> None:
        # A callable that makes a layer serves where a class is expected.
        super().__init__(layer_class_to_replicate=cast(Any, partial(BufferLayer, room)))
        self.rows = rows
        self._room = room
        if chunks:
            for index in range(len(chunks[0].states)):
                self.layer(index).fill(rows, [chunk.states[index] for chunk in chunks])

    def layer(self, index: int) -> BufferLayer:
        """The layer of that index, made if it is not there yet."""
        while len(self.layers) <= index:
            self.layers.append(BufferLayer(self._room))
        return cast(BufferLayer, self.layers[index])

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order."""
        self.batch_select_indices(rows)
        self.rows = len(rows)

    def states(self, start: int, stop: int) -> States:
        """Copies of positions [start, stop) of every layer."""
        found = []
        for index in range(len(self.layers)):
            keys, values = self.layer(index).held
            found.append((keys[:, :, start:stop].clone(), values[:, :, start:stop].clone()))
        return found


class PassThrough(Cache):
    """Stands for caches that attention fills and reads itself, see attention.py: of several
    members in one pass, or of one whose pass is recorded. `length`: the most that one holds."""

    def __init__(self, length: int) -> None:
        super().__init__(layers=[])
        self._length = length

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        layer_idx: int,
        *args: object,
        **kwargs: object,
    ) -> tuple[Tensor, Tensor]:
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._length

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return self._length + query_length, 0


@dataclass(slots=True, eq=False)
class Chunk:
    """One chunk in the tree. `last_logits` [vocabulary] are the model's after its last token."""

    token_ids: TokenIds
    states: States
    last_logits: Tensor
    parent: Chunk | None
    children: dict[TokenIds, Chunk] = field(default_factory=dict)
    last_used: int = 0

    @property
    def n_bytes(self) -> int:
        tensors = [tensor for pair in self.states for tensor in pair]
        return sum(t.numel() * t.element_size() for t in (*tensors, self.last_logits))


class PrefixStore:
    """Chunks read so far, the least recently used forgotten above `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.n_bytes = 0
        self._roots: dict[TokenIds, Chunk] = {}
        self._chunks: set[Chunk] = set()
        self._clock = 0

    def __len__(self) -> int:
        return len(self._chunks)

    def find(self, chunks: Sequence[TokenIds]) -> list[Chunk]:
        """The longest known beginning of a list of chunks."""
        self._clock += 1
        path: list[Chunk] = []
        level = self._roots
        for token_ids in chunks:
            known = level.get(token_ids)
            if known is None:
                break
            known.last_used = self._clock
            path.append(known)
            level = known.children
        return path

    def add(
        self, parent: Chunk | None, token_ids: TokenIds, states: States, last_logits: Tensor
    ) -> Chunk:
        """Remember one chunk after its parent; the one known already stands."""
        siblings = self._roots if parent is None else parent.children
        if token_ids in siblings:
            return siblings[token_ids]
        chunk = Chunk(token_ids, states, last_logits, parent, last_used=self._clock)
        siblings[token_ids] = chunk
        self._chunks.add(chunk)
        self.n_bytes += chunk.n_bytes
        return chunk

    def trim(self) -> None:
        """Forget leaves, least recently used first, until the bound holds. Call between requests:
        chunks of the latest request stay, so that the bound may be passed by one request."""
        while self.n_bytes > self.max_bytes:
            leaves = [c for c in self._chunks if not c.children and c.last_used < self._clock]
            if not leaves:
                return
            oldest = min(leaves, key=lambda chunk: chunk.last_used)
            siblings = self._roots if oldest.parent is None else oldest.parent.children
            del siblings[oldest.token_ids]
            self._chunks.remove(oldest)
            self.n_bytes -= oldest.n_bytes

    def clear(self) -> None:
        self._roots.clear()
        self._chunks.clear()
        self.n_bytes = 0

"""Attention that can say what it attended to. Knows no tokens, no sampling and no requests.

query     [rows, heads, q, head_dim]; keys and values [rows, kv_heads, k, head_dim], heads being a
          multiple of kv_heads (grouped-query attention)
packed    with one query token, the heads of a group become the query length: no key is repeated
member    rows of a batch that share one prefix; a shared pass has several, each with its own cache
apart     a pass that leaves the members' caches to attention: it adds the new keys and values
          itself. So several members share a pass, and a pass of one token per row can be recorded
record    queries (or finished weights) of the last layers, kept while a model runs
rows      head-mean attention weights in fp32, one row per recorded query, over the keys up to it

Registered with transformers under two names, each with the mask function it needs: PACKED, built
on scaled_dot_product_attention, and EAGER, for models whose own implementation is eager.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from specguard_core.backends.cache import WorkingCache

PACKED, EAGER = "specguard_packed", "specguard_eager"
_BLOCK_ELEMENTS = 1 << 22


@dataclass(slots=True)
class LayerRecord:
    """One layer's record, an entry per forward pass.

    queries   [rows, heads, q, head_dim]
    masks     [rows, 1, q, k] true where a key may be seen, or None where all up to the query may
    weights   [rows, q, k] head means, where attention weights came out ready (then no queries)
    """

    scaling: float = 1.0
    queries: list[Tensor] = field(default_factory=list)
    masks: list[Tensor | None] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)


@dataclass(slots=True)
class Record:
    """What the layers from `first_layer` on attended with, since the record began."""

    first_layer: int
    layers: dict[int, LayerRecord] = field(default_factory=dict)

    def of(self, layer_index: int) -> LayerRecord:
        if layer_index not in self.layers:
            self.layers[layer_index] = LayerRecord()
        return self.layers[layer_index]

    def select(self, rows: Tensor) -> None:
        """Keep only these rows of the batch."""
        for layer in self.layers.values():
            layer.queries = _rows_of(layer.queries, rows)
            layer.masks = [
                mask if mask is None else _rows_of([mask], rows)[0] for mask in layer.masks
            ]
            layer.weights = _rows_of(layer.weights, rows)


def _rows_of(tensors: Sequence[Tensor], rows: Tensor) -> list[Tensor]:
    return [tensor[rows.to(tensor.device)] for tensor in tensors]


@dataclass(frozen=True, slots=True)
class Member:
    """Rows of a forward pass that share one cache, and their record."""

    cache: WorkingCache
    record: Record | None


@dataclass(frozen=True, slots=True)
class _Pass:
    members: Sequence[Member] = ()
    apart: bool = False
    lengths: Sequence[int] | None = None


_NO_PASS = _Pass()
_pass: ContextVar[_Pass] = ContextVar("specguard_pass", default=_NO_PASS)


def passing(members: Sequence[Member]) -> AbstractContextManager[None]:
    """While open, this thread's forward passes are of these members, in the order of the rows."""
    return _open(_Pass(members))


def passing_apart(
    members: Sequence[Member], lengths: Sequence[int] | None = None
) -> AbstractContextManager[None]:
    """As `passing`, of one token per row, the model's own cache being a PassThrough; with lengths,
    of so many tokens of each member, which has one row, end to end in a single row."""
    return _open(_Pass(members, apart=True, lengths=lengths))


@contextmanager
def _open(now: _Pass) -> Iterator[None]:
    token = _pass.set(now)
    try:
        yield
    finally:
        _pass.reset(token)


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | list[Tensor | None] | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention call; returns [rows, q, heads, head_dim]."""
    now = _pass.get()
    if now.apart:
        return attend_apart(module, query, key, value, attention_mask, scaling, **kwargs), None
    mask = cast(Tensor | None, attention_mask)
    for member in now.members:
        _keep(member.record, module, query, mask, scaling)
    return _attend(module, query, key, value, mask, scaling, kwargs), None


def attend_apart(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | list[Tensor | None] | None,
    scaling: float | None,
    **kwargs: Any,
) -> Tensor:
    """[rows, q, heads, head_dim]: each member's rows, or its tokens of the single row, on its own
    cache, which takes the new keys in.

    What is beyond the members' only fills the batch: it gets what the first one gets.

    To a recorder one function like those of torch: what it does inside differs from pass to pass.
    """
    if has_torch_function_unary(query):
        given = (module, query, key, value, attention_mask, scaling)
        attended: Tensor = handle_torch_function(attend_apart, (query,), *given, **kwargs)
        return attended
    layer_index = cast(int, module.layer_idx)
    now = _pass.get()
    along = 0 if now.lengths is None else 2
    counts = now.lengths or [member.cache.rows for member in now.members]
    filling = query.shape[along] - sum(counts)
    parts = [*counts, filling] if filling else [*counts]
    split = (states.split(parts, dim=along) for states in (query, key, value))
    masks: Sequence[Tensor | None] = [None] * len(parts)
    if attention_mask is not None:
        whole = attention_mask
        masks = whole if isinstance(whole, list) else whole.split(parts, dim=along)
    outputs = []
    for member, own, new_keys, new_values, mask in zip(now.members, *split, masks, strict=False):
        keys, values = member.cache.layer(layer_index).update(new_keys, new_values)
        _keep(member.record, module, own, mask, scaling)
        outputs.append(_attend(module, own, keys, values, mask, scaling, kwargs))
    if filling:
        shape = [filling if axis == along // 2 else -1 for axis in range(4)]
        outputs.append(outputs[0].narrow(along // 2, 0, 1).expand(shape))
    return torch.cat(outputs, dim=along // 2) if len(outputs) > 1 else outputs[0]


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float | None,
    options: dict[str, Any],
) -> Tensor:
    rows, heads, count, _ = query.shape
    kv_heads = key.shape[1]
    if count > 1 or options.get("position_bias") is not None or options.get("s_aux") is not None:
        stock = ALL_ATTENTION_FUNCTIONS["sdpa"]
        return cast(Tensor, stock(module, query, key, value, mask, scaling=scaling, **options)[0])
    packed = query.reshape(rows, kv_heads, heads // kv_heads, -1)
    output = F.scaled_dot_product_attention(packed, key, value, attn_mask=mask, scale=scaling)
    return output.reshape(rows, 1, heads, -1)


def _keep(
    record: Record | None,
    module: nn.Module,
    query: Tensor,
    mask: Tensor | None,
    scaling: float | None,
) -> None:
    layer_index = cast(int, module.layer_idx)
    if record is not None and layer_index >= record.first_layer:
        layer = record.of(layer_index)
        layer.scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        layer.queries.append(query)
        layer.masks.append(mask)


def packed_mask(
    batch_size: int, q_length: int, kv_length: int, **options: Any
) -> Tensor | list[Tensor | None] | None:
    """The mask of scaled_dot_product_attention; in a shared pass one for each member."""
    stock = ALL_MASK_ATTENTION_FUNCTIONS["sdpa"]
    now = _pass.get()
    members = now.members
    if len(members) < 2 and now.lengths is None:
        return cast(
            Tensor | None,
            stock(batch_size=batch_size, q_length=q_length, kv_length=kv_length, **options),
        )
    masks: list[Tensor | None] = []
    counts = now.lengths or [q_length] * len(members)
    for member, count in zip(members, counts, strict=True):
        before = member.cache.get_seq_length()
        own = dict(options, q_offset=before, kv_offset=0)
        rows, length = member.cache.rows, before + count
        masks.append(stock(batch_size=rows, q_length=count, kv_length=length, **own))
    return None if all(mask is None for mask in masks) else masks


def eager_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """The model's own eager attention, its weights kept, softcaps and sinks as they are."""
    own = vars(sys.modules[type(module).__module__])["eager_attention_forward"]
    output, weights = own(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    layer_index = cast(int, module.layer_idx)
    for member in _pass.get().members:
        if member.record is not None and layer_index >= member.record.first_layer:
            member.record.of(layer_index).weights.append(weights.float().mean(dim=1))
    return output, weights


def register() -> None:
    """Make both names known to transformers, each with its mask; harmless when repeated."""
    AttentionInterface.register(PACKED, packed_attention)
    AttentionMaskInterface.register(PACKED, packed_mask)
    AttentionInterface.register(EAGER, eager_attention)
    AttentionMaskInterface.register(EAGER, ALL_MASK_ATTENTION_FUNCTIONS["eager"])


def recorded_rows(layer: LayerRecord, keys: Tensor, n_before: int) -> Tensor:
    """[rows, m, n_before + m] fp32: the recorded positions, which follow `n_before` others.

    keys: [rows, kv_heads, at least n_before + m, head_dim], as the layer's cache holds them.
    """
    if layer.weights:
        return _laid_out(layer.weights, n_before)
    query = torch.cat(layer.queries, dim=2)
    rows, heads, m, size = query.shape
    length = n_before + m
    keys = keys[:, :, :length].float()
    kv_heads = keys.shape[1]
    first, hidden = _hidden(layer, n_before, length, keys.device)
    grouped = query.view(rows, kv_heads, heads // kv_heads, m, size).float() * layer.scaling
    block = max(1, _BLOCK_ELEMENTS // (rows * heads * length))
    parts = []
    for start in range(0, m, block):
        part = grouped[:, :, :, start : start + block]
        flat = part.reshape(rows, kv_heads, -1, size)
        scores = torch.matmul(flat, keys.transpose(2, 3)).view(rows, heads, -1, length)
        scores[..., first:].masked_fill_(hidden[:, :, start : start + block], float("-inf"))
        parts.append(scores.softmax(dim=-1).mean(dim=1))
    return torch.cat(parts, dim=1)


def _hidden(
    layer: LayerRecord, n_before: int, length: int, device: torch.device
) -> tuple[int, Tensor]:
    """The first key that may be hidden from a query, and from there on
    [rows or 1, 1, m, up to length] true where one is."""
    positions = torch.arange(n_before, length, device=device)
    if all(mask is None for mask in layer.masks):
        return n_before, (positions > positions[:, None])[None, None]
    causal = (torch.arange(length, device=device) <= positions[:, None])[None, None]
    rows = max(mask.shape[0] for mask in layer.masks if mask is not None)
    allowed = causal.repeat(rows, 1, 1, 1)
    start = 0
    for query, mask in zip(layer.queries, layer.masks, strict=True):
        stop = start + query.shape[2]
        if mask is not None:
            seen = min(length, mask.shape[3])
            allowed[:, :, start:stop, :seen] &= mask[..., :seen]
        start = stop
    return 0, ~allowed


def _laid_out(weights: Sequence[Tensor], n_before: int) -> Tensor:
    """Ready rows of growing length side by side; a shorter one is aligned at the right of its own
    last key, and what it never saw is zero."""
    m = sum(part.shape[1] for part in weights)
    laid = weights[0].new_zeros((weights[0].shape[0], m, n_before + m))
    start = 0
    for part in weights:
        stop = start + part.shape[1]
        end = n_before + stop
        laid[:, start:stop, end - part.shape[2] : end] = part
        start = stop
    return laid

"""One causal language model made ready to be asked. Knows no requests, only tokens and caches.

prefix        all tokens before the next one
shared pass   rows with prefixes of unequal length in one forward pass, where the model allows it
tape          a pass of one token per row, recorded once for each number of rows, see tape.py
rows          sequences in one forward pass
row multiple  rows are filled up to a multiple of this with copies: in fp32 on a CPU, a matrix
              product of 4, 8, ... rows gives each row the same bits, one of 1 to 3 does not, so a
              draw is the same whatever is written beside it. Attention, which treats each row by
              itself, leaves copies out: a model whose attention is its own gets none
real ids      ids the tokenizer knows; a vocabulary padded beyond them never shows
"""

import math
from collections.abc import Callable, Sequence, Set
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.cache_utils import Cache

from specguard_core.backends.attention import (
    Member,
    Record,
    passing,
    passing_apart,
    recorded_rows,
)
from specguard_core.backends.cache import (
    Chunk,
    PassThrough,
    PrefixStore,
    WorkingCache,
    split_chunks,
)
from specguard_core.backends.loading import (
    RUN_ERRORS,
    cache_argument,
    can_read_together,
    can_share_passes,
    input_device,
)
from specguard_core.backends.sources import SMALL_MODEL_PARAMETERS
from specguard_core.backends.tape import Tape, UnfitError, record, same_operations
from specguard_core.errors import Cancelled, ModelError
from specguard_core.lm import Floats, ShouldStop, TokenIds
from specguard_core.types import ModelInfo

_MISSING_LOGIT = -1e30
_ROW_MULTIPLES = (4, 8, 16)
_MOST_PROBED_ROWS = 64
_MOST_READ_TOKENS = 512


class Engine:
    """A loaded model, its vocabulary's bytes, and the chunks it has read."""

    def __init__(
        self,
        model: Any,  # transformers ships no types
        info: ModelInfo,
        *,
        piece: Callable[[int], bytes],
        real_ids: Sequence[int],
        turn_ends: Set[int],
        max_cache_bytes: int,
    ) -> None:
        self.model = model
        self.info = info
        self.piece = piece
        self.turn_ends = turn_ends
        self.store = PrefixStore(max_cache_bytes)
        self.device = input_device(model)
        self.n_ids = min(max(real_ids) + 1, info.vocabulary_size)
        known = set(real_ids)
        missing = [token_id for token_id in range(self.n_ids) if token_id not in known]
        self._missing = torch.tensor(missing, device=self.device) if missing else None
        self._cache_name = cache_argument(model)
        self._keeps_logits = "logits_to_keep" in signature(model.forward).parameters
        self._hidden: Tensor | None = None
        head = model.get_output_embeddings()
        if head is not None:
            head.register_forward_pre_hook(self._see_hidden)
        self.shares_passes = can_share_passes(model)
        self.row_multiple = 1
        if self.shares_passes:
            self.row_multiple = _row_multiple(info, model.get_input_embeddings().weight)
        self.reads_together = self.row_multiple > 1 and can_read_together(model)
        # In a large model Python is a small part of a pass, and recording takes four passes. A
        # module that a library moves about does more than its operations.
        small = info.device == "cpu" and info.n_parameters <= SMALL_MODEL_PARAMETERS
        moved = any(hasattr(module, "_hf_hook") for module in model.modules())
        self._can_be_recorded = small and self.shares_passes and not moved
        self._tapes: dict[int, Tape] = {}

    @property
    def captures(self) -> bool:
        return self.info.grounding == "captured"

    @property
    def hidden(self) -> Tensor:
        """[rows, d] last hidden states of the latest pass."""
        if self._hidden is None:
            raise ModelError("expected the model to use its output embeddings, it did not")
        return self._hidden[:, -1]

    def forward(
        self, token_ids: Tensor, members: Sequence[Member], *, all_logits: bool = False
    ) -> Tensor:
        """Logits [rows, q, n_ids] after each token, over the real ids; q = 1 is after the last.

        token_ids   [rows, q], the members' rows one after the other; q = 1 where there are several.
                    There may be more rows, that fill the batch: of those nothing comes back
        """
        rows, count = token_ids.shape
        if count > 1 or not self.shares_passes:
            with passing(members):
                logits = self._run(token_ids, members[0].cache, all_logits=all_logits)
        else:
            places = self._places(members, rows)
            tape = self._tape(rows)
            with passing_apart(members):
                if tape is None:
                    longest = max(member.cache.get_seq_length() for member in members)
                    logits = self._run(token_ids, PassThrough(longest), position_ids=places)
                else:
                    logits = self._played(tape, token_ids, places)
            logits = logits[: sum(member.cache.rows for member in members)]
        if not all_logits and logits.shape[1] > 1:
            logits = logits[:, -1:]
        return self._known(logits)

    def _known(self, logits: Tensor) -> Tensor:
        """Logits [..., vocabulary] over the tokenizer's ids."""
        if logits.shape[-1] > self.n_ids:
            logits = logits[..., : self.n_ids]
        if self._missing is not None:
            logits = logits.index_fill(-1, self._missing, _MISSING_LOGIT)
        return logits

    def _run(
        self,
        token_ids: Tensor,
        cache: Cache,
        *,
        all_logits: bool = False,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """[rows, q, vocabulary], or of the last position only, by the model's own forward."""
        options: dict[str, Any] = {self._cache_name: cache}
        if position_ids is not None:
            options["position_ids"] = position_ids
        if self._keeps_logits and not all_logits:
            options["logits_to_keep"] = 1
        logits: Tensor = self.model(input_ids=token_ids, use_cache=True, **options).logits
        return logits

    def _played(self, tape: Tape, token_ids: Tensor, places: Tensor) -> Tensor:
        """As `_run`, by the tape."""
        logits, self._hidden = tape.play(token_ids, places)
        return logits

    def _places(self, members: Sequence[Member], rows: int) -> Tensor:
        """[rows, 1] the position of each row's next token."""
        caches = [member.cache for member in members]
        first = caches[0].get_seq_length()
        if len(caches) == 1:
            return torch.full((rows, 1), first, device=self.device)
        lengths = [cache.get_seq_length() for cache in caches for _ in range(cache.rows)]
        return self.ids(lengths + [first] * (rows - len(lengths)))[:, None]

    def _tape(self, rows: int) -> Tape | None:
        """The pass of so many rows, or None where it cannot be recorded."""
        if self._can_be_recorded and rows not in self._tapes:
            try:
                self._tapes[rows] = self._recorded(rows)
            except (UnfitError, *RUN_ERRORS):
                self._can_be_recorded = False
        return self._tapes.get(rows)

    def _recorded(self, rows: int) -> Tape:
        """
        Raises:
            UnfitError: a position, or what a tensor holds, decides what is done.
        """
        first, last = (
            self._recorded_at(place, first_id, rows)
            for place, first_id in ((0, 0), (self.info.context_length - 1, self.n_ids // 2))
        )
        if not same_operations(first, last):
            raise UnfitError("a pass does something else at another position")
        return first

    def _recorded_at(self, place: int, first_id: int, rows: int) -> Tape:
        """The pass at one position, on an empty cache that says it is longer."""

        def run(token_ids: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
            logits = self._run(token_ids, PassThrough(place), position_ids=places)
            if self._hidden is None:
                raise UnfitError("the model does not use its output embeddings")
            return logits, self._hidden

        ids = (torch.arange(rows, device=self.device)[:, None] + first_id) % self.n_ids
        inputs = (ids, torch.full_like(ids, place))
        weights = [*self.model.parameters(), *self.model.buffers()]
        with passing_apart([Member(WorkingCache(rows, [], 1), None)]):
            tape, outputs = record(run, inputs, weights)
        with passing_apart([Member(WorkingCache(rows, [], 1), None)]):
            played = tape.play(*inputs)
        if not all(map(torch.equal, played, outputs)):
            raise UnfitError("a pass that is played gives other numbers")
        return tape

    def ids(self, rows: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor(rows, dtype=torch.long, device=self.device)

    def chunks(self, token_ids: TokenIds) -> list[TokenIds]:
        return split_chunks(token_ids, self.piece, turn_ends=self.turn_ends)

    def read_chunks(
        self, parts: Sequence[tuple[TokenIds, Member]], *, all_logits: bool = False
    ) -> list[Tensor]:
        """Logits of each chunk, read by the one row of its member's cache: [m, n_ids] after each of
        its tokens, or [1, n_ids] after the last.

        A small model reads several chunks end to end in one pass, which costs it more than the
        tokens do; their bits are those of each chunk read alone.
        """
        if not self.reads_together:
            return [
                self.forward(self.ids([chunk]), [member], all_logits=all_logits)[0]
                for chunk, member in parts
            ]
        passes: list[list[tuple[TokenIds, Member]]] = []
        room = 0
        for part in parts:
            room -= len(part[0])
            if room < 0 or not passes:
                passes.append([])
                room = _MOST_READ_TOKENS - len(part[0])
            passes[-1].append(part)
        read = (self._read_end_to_end(some, all_logits=all_logits) for some in passes)
        return [logits for some in read for logits in some]

    def _read_end_to_end(
        self, parts: Sequence[tuple[TokenIds, Member]], *, all_logits: bool
    ) -> list[Tensor]:
        """As read_chunks, in one pass."""
        members, lengths = [member for _, member in parts], [len(chunk) for chunk, _ in parts]
        begun = [member.cache.get_seq_length() for member in members]
        ids = [token_id for chunk, _ in parts for token_id in chunk]
        places = [n + i for n, m in zip(begun, lengths, strict=True) for i in range(m)]
        filling = self.filled(len(ids)) - len(ids)
        row, positions = self.ids([ids + ids[:1] * filling, places + places[:1] * filling])
        with passing_apart(members, lengths):
            cache = PassThrough(max(begun))
            logits = self._run(row[None], cache, all_logits=True, position_ids=positions[None])
        found = list(self._known(logits[0, : len(ids)]).split(lengths))
        return found if all_logits else [part[-1:] for part in found]

    def remember(
        self, path: Sequence[Chunk], chunk: TokenIds, cache: WorkingCache, last_logits: Tensor
    ) -> Chunk:
        """Store the chunk that the cache ends with."""
        length = cache.get_seq_length()
        states = cache.states(length - len(chunk), length)
        return self.store.add(path[-1] if path else None, chunk, states, last_logits.clone())

    def new_record(self, n_capture_layers: int) -> Record | None:
        """A record of the last layers, or None where none is wanted or none can be had."""
        if n_capture_layers == 0 or not self.captures:
            return None
        return Record(first_layer=max(0, self.info.n_layers - n_capture_layers))

    def rows(self, record: Record, cache: WorkingCache, n_before: int) -> Floats:
        """[layers, rows, m, n_before + m] of what was recorded; the cache still holds its keys."""
        layers = [
            recorded_rows(layer, cache.layer(index).held[0], n_before)
            for index, layer in sorted(record.layers.items())
        ]
        stacked: Floats = torch.stack([layer.cpu() for layer in layers]).numpy()
        return stacked

    def filled(self, n_rows: int) -> int:
        return math.ceil(n_rows / self.row_multiple) * self.row_multiple

    def _see_hidden(self, module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._hidden = inputs[0] if inputs else None


def poll(should_stop: ShouldStop | None) -> None:
    if should_stop is not None and should_stop():
        raise Cancelled


def _row_multiple(info: ModelInfo, weight: Tensor) -> int:
    """The least of a few multiples at which rows of a product do not depend on their number.

    weight   [n, d], one of the model's own, on the CPU for the question to arise
    """
    small = info.n_parameters <= SMALL_MODEL_PARAMETERS
    if not small or info.device != "cpu" or info.dtype != "float32":
        return 1
    size = weight.shape[1]
    rows = torch.arange(_MOST_PROBED_ROWS * size, dtype=torch.float32).sin()
    rows = rows.view(_MOST_PROBED_ROWS, size)
    whole = F.linear(rows, weight)
    for multiple in _ROW_MULTIPLES:
        counts = range(multiple, _MOST_PROBED_ROWS, multiple)
        if all(torch.equal(F.linear(rows[:count], weight), whole[:count]) for count in counts):
            return multiple
    return _ROW_MULTIPLES[0]

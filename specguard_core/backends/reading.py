"""Reading steps that someone else wrote: one block pass each, of a small model one for all of them.
Knows no sampling."""

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from specguard_core.backends.attention import Member
from specguard_core.backends.cache import Chunk, WorkingCache
from specguard_core.backends.engine import Engine, poll
from specguard_core.backends.prefixes import read_prefixes
from specguard_core.errors import ModelError
from specguard_core.lm import Floats, ReadRequest, ShouldStop, StepReading, TokenIds

_BLOCK_ELEMENTS = 1 << 17


def read(
    engine: Engine, requests: Sequence[ReadRequest], should_stop: ShouldStop | None
) -> list[StepReading]:
    """Log-probabilities and attention rows of steps' tokens; the store then knows the steps."""
    start = time.perf_counter()
    readers = [_Reader(engine, request) for request in requests]
    prefixes = read_prefixes(engine, [r.chunks[: r.n_known_chunks] for r in readers], should_stop)
    for reader, prefix in zip(readers, prefixes, strict=True):
        reader.begin(prefix.path, prefix.passes, prefix.positions)
    while active := [reader for reader in readers if reader.missing]:
        poll(should_stop)
        parts = [(reader.missing[0], reader.member()) for reader in active]
        logits = engine.read_chunks(parts, all_logits=True)
        for reader, (_, member), own in zip(active, parts, logits, strict=True):
            reader.take(own, member)
    milliseconds = 1000 * (time.perf_counter() - start) / max(len(readers), 1)
    return [reader.finish(milliseconds) for reader in readers]


class _Reader:
    """One request: its step's chunks, of which the first may begin before the step does."""

    def __init__(self, engine: Engine, request: ReadRequest) -> None:
        n, m = len(request.prefix), len(request.token_ids)
        if not n or not m or n + m > engine.info.context_length:
            raise ModelError(
                f"expected a prefix and a step of at most {engine.info.context_length} tokens "
                f"together, got {n} and {m}: shorten them or use a model with a longer context"
            )
        self.engine, self.request, self.n, self.m = engine, request, n, m
        self.whole = request.prefix + request.token_ids
        self.chunks = engine.chunks(self.whole)
        self.n_known_chunks, self.start = _whole_chunks_within(self.chunks, n)
        self.missing = self.chunks[self.n_known_chunks :]
        self.logprobs = np.zeros(m, np.float32)
        self.attention: Floats | None = None

    def begin(self, path: list[Chunk], passes: int, positions: int) -> None:
        self.path, self.passes, self.positions = path, passes, positions
        self.cache = WorkingCache(1, path, self.n + self.m)
        if self.start == self.n:
            first = self.engine.ids([self.whole[self.n : self.n + 1]])[0]
            self.logprobs[0] = token_logprobs(path[-1].last_logits[None], first)[0]

    def member(self) -> Member:
        """Who reads the next chunk."""
        return Member(self.cache, self.engine.new_record(self.request.n_capture_layers))

    def take(self, logits: Tensor, member: Member) -> None:
        """The logits [chunk, vocabulary] of the next chunk, and what was recorded of it."""
        chunk, n, m, start = self.missing.pop(0), self.n, self.m, self.start
        stop = start + len(chunk)
        self.path.append(self.engine.remember(self.path, chunk, self.cache, logits[-1]))
        self.passes, self.positions = self.passes + 1, self.positions + len(chunk)
        # The logits at position p speak of token p + 1.
        first, last = max(n, start + 1), min(n + m, stop + 1)
        if first < last:
            spoken = self.engine.ids([self.whole[first:last]])[0]
            self.logprobs[first - n : last - n] = token_logprobs(
                logits[first - 1 - start : last - 1 - start], spoken
            )
        if member.record is not None:
            rows = self.engine.rows(member.record, self.cache, start)[:, 0]
            if self.attention is None:
                self.attention = np.zeros((len(rows), m, n + m), np.float32)
            first = max(n, start)
            self.attention[:, first - n : stop - n, :stop] = rows[:, first - start :]
        self.start = stop

    def finish(self, milliseconds: float) -> StepReading:
        return StepReading(
            logprobs=self.logprobs,
            attention=self.attention,
            passes=self.passes,
            positions=self.positions,
            milliseconds=milliseconds,
        )


def token_logprobs(logits: Tensor, token_ids: Tensor) -> Floats:
    """[m] raw log-probabilities in nats of tokens [m], from logits [m, vocabulary] of any dtype."""
    block = max(1, _BLOCK_ELEMENTS // logits.shape[-1])
    parts = []
    for start in range(0, len(token_ids), block):
        part = logits[start : start + block].float()
        chosen = part.gather(-1, token_ids[start : start + block, None]).squeeze(-1)
        parts.append(chosen - part.logsumexp(dim=-1))
    values: Floats = torch.cat(parts).cpu().numpy()
    return values


def _whole_chunks_within(chunks: list[TokenIds], n: int) -> tuple[int, int]:
    """How many leading chunks lie within the first n tokens, and how many tokens those are."""
    total = 0
    for index, chunk in enumerate(chunks):
        if total + len(chunk) > n:
            return index, total
        total += len(chunk)
    return len(chunks), total

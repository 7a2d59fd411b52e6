"""Reading a step that someone else wrote: one block pass. Knows no sampling."""

import time

import numpy as np
import torch
from torch import Tensor

from specguard_core.backends.attention import Member
from specguard_core.backends.cache import WorkingCache
from specguard_core.backends.engine import Engine, poll
from specguard_core.errors import ModelError
from specguard_core.lm import Floats, ReadRequest, ShouldStop, StepReading, TokenIds

_BLOCK_ELEMENTS = 1 << 17


def read(engine: Engine, request: ReadRequest, should_stop: ShouldStop | None) -> StepReading:
    """Log-probabilities and attention rows of a step's tokens; the store then knows the step."""
    start_time = time.perf_counter()
    n, m = len(request.prefix), len(request.token_ids)
    if not n or not m or n + m > engine.info.context_length:
        raise ModelError(
            f"expected a prefix and a step of at most {engine.info.context_length} tokens "
            f"together, got {n} and {m}: shorten them or use a model with a longer context"
        )
    whole = request.prefix + request.token_ids
    chunks = engine.chunks(whole)
    before, n_before = _whole_chunks_within(chunks, n)
    path, passes, positions = engine.read_prefix(chunks[:before], should_stop)
    logprobs = np.zeros(m, np.float32)
    attention: Floats | None = None
    if n_before == n:
        logprobs[0] = token_logprobs(path[-1].last_logits[None], engine.ids([whole[n : n + 1]])[0])[
            0
        ]
    cache = WorkingCache(1, path, n + m)
    start = n_before
    for chunk in chunks[before:]:
        poll(should_stop)
        stop = start + len(chunk)
        record = engine.new_record(request.n_capture_layers)
        members = [Member(cache, record)]
        logits = engine.forward(engine.ids([chunk]), members, all_logits=True)[0]
        path.append(engine.remember(path, chunk, cache, logits[-1]))
        passes, positions = passes + 1, positions + len(chunk)
        # The logits at position p speak of token p + 1.
        first, last = max(n, start + 1), min(n + m, stop + 1)
        if first < last:
            spoken = engine.ids([whole[first:last]])[0]
            logprobs[first - n : last - n] = token_logprobs(
                logits[first - 1 - start : last - 1 - start], spoken
            )
        if record is not None:
            rows = engine.rows(record, cache, start)[:, 0]
            if attention is None:
                attention = np.zeros((len(rows), m, n + m), np.float32)
            first = max(n, start)
            attention[:, first - n : stop - n, :stop] = rows[:, first - start :]
        start = stop
    return StepReading(
        logprobs=logprobs,
        attention=attention,
        passes=passes,
        positions=positions,
        milliseconds=1000 * (time.perf_counter() - start_time),
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

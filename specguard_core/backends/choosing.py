"""How likely each of a few tokens is after a question put to the model. Knows no sampling."""

import time

from specguard_core.backends.attention import Member
from specguard_core.backends.cache import WorkingCache
from specguard_core.backends.engine import Engine, poll
from specguard_core.backends.prefixes import read_prefix
from specguard_core.errors import ModelError
from specguard_core.lm import ChoiceReading, ChoiceRequest, Floats, ShouldStop


def choose(engine: Engine, request: ChoiceRequest, should_stop: ShouldStop | None) -> ChoiceReading:
    """Log-probabilities of the choices. The store then knows the prefix, but not the question."""
    start = time.perf_counter()
    n, m = len(request.prefix), len(request.question)
    if not n or not m or n + m > engine.info.context_length:
        raise ModelError(
            f"expected a prefix and a question of at most {engine.info.context_length} tokens "
            f"together, got {n} and {m}: shorten them or use a model with a longer context"
        )
    chunks = engine.chunks(request.prefix)
    prefix = read_prefix(engine, chunks, should_stop)
    poll(should_stop)
    members = [Member(WorkingCache(1, prefix.path, n + m), None)]
    row = engine.forward(engine.ids([request.question]), members)[0, -1].float()
    chosen = row[engine.ids([request.choices])[0]] - row.logsumexp(dim=-1)
    logprobs: Floats = chosen.cpu().numpy()
    return ChoiceReading(
        logprobs=logprobs,
        passes=prefix.passes + 1,
        positions=prefix.positions + m,
        milliseconds=1000 * (time.perf_counter() - start),
    )

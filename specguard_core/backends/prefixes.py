"""Prefixes into the store: what is known of them is found, the rest is read. Knows no requests.

missing    the chunks of a prefix that the store does not hold yet
round      one chunk of each prefix that still lacks some; those of a small model share a pass
"""

from collections.abc import Sequence
from dataclasses import dataclass

from specguard_core.backends.attention import Member
from specguard_core.backends.cache import Chunk, WorkingCache
from specguard_core.backends.engine import Engine, poll
from specguard_core.lm import ShouldStop, TokenIds


@dataclass(slots=True)
class ReadPrefix:
    """A prefix whose chunks are all in the store, and the passes and positions that took."""

    chunks: Sequence[TokenIds]
    path: list[Chunk]
    passes: int = 0
    positions: int = 0

    @property
    def missing(self) -> TokenIds | None:
        """The next chunk to read; None where there is none."""
        return self.chunks[len(self.path)] if len(self.path) < len(self.chunks) else None


def read_prefix(
    engine: Engine, chunks: Sequence[TokenIds], should_stop: ShouldStop | None
) -> ReadPrefix:
    """As read_prefixes, of one."""
    return read_prefixes(engine, [chunks], should_stop)[0]


def read_prefixes(
    engine: Engine, prefixes: Sequence[Sequence[TokenIds]], should_stop: ShouldStop | None
) -> list[ReadPrefix]:
    """Every chunk of every prefix in the store; one that several lack is read for the first.

    Raises:
        Cancelled: should_stop said so; chunks read before stay.
    """
    found = [ReadPrefix(chunks, engine.store.find(chunks)) for chunks in prefixes]
    caches: dict[int, WorkingCache] = {}
    while any(one.missing is not None for one in found):
        poll(should_stop)
        lacking: dict[tuple[int, TokenIds], list[int]] = {}
        for place, one in enumerate(found):
            if (chunk := one.missing) is not None:
                parent = id(one.path[-1]) if one.path else 0
                lacking.setdefault((parent, chunk), []).append(place)
        parts = []
        for (_, chunk), (place, *_) in lacking.items():
            if place not in caches:
                one = found[place]
                caches[place] = WorkingCache(1, one.path, sum(map(len, one.chunks)))
            parts.append((chunk, Member(caches[place], None)))
        read = engine.read_chunks(parts)
        for ((_, chunk), (first, *others)), logits in zip(lacking.items(), read, strict=True):
            known = engine.remember(found[first].path, chunk, caches[first], logits[-1])
            found[first].passes += 1
            found[first].positions += len(chunk)
            for place in (first, *others):
                found[place].path.append(known)
            for place in others:
                # Its own cache, if it has one, lacks this chunk.
                caches.pop(place, None)
    return found

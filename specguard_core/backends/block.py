"""Drafting and judging blocks of tokens on caches that stay. Knows no files and no pairs.

line       a run's own cache: what it has read so far, rolled back to the longest common prefix
pending    tokens of the prefix that the line has not read
block      g drafted tokens; the target reads the last token of the prefix and all of them in one
           pass, which gives its word on each and on the token after them

The distributions of a whole vocabulary stay on the device: what leaves are a few numbers a token.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specguard_core.acceptance import Doubt, Judged, accept_block, accept_greedy, draw
from specguard_core.backends.attention import Member
from specguard_core.backends.cache import MAX_CHUNK_TOKENS, WorkingCache
from specguard_core.backends.distributions import (
    entropies,
    overlaps,
    processed,
    require_finite,
    top_ids,
)
from specguard_core.backends.engine import Engine, poll
from specguard_core.backends.prefixes import read_prefix
from specguard_core.block_requests import DraftedBlock, DraftRequest, JudgedBlock, JudgeRequest
from specguard_core.errors import ModelError, PairError
from specguard_core.lm import OnToken, ShouldStop, TokenIds

MAX_LINES = 4
_ROOM_TOKENS = 256


@dataclass(slots=True)
class Line:
    """token_ids: what the cache holds; last_logits [vocabulary]: after the last of them, or None
    where they are not known any more."""

    token_ids: TokenIds
    cache: WorkingCache
    last_logits: Tensor | None
    passes: int = 0
    positions: int = 0


@dataclass(frozen=True, slots=True)
class DraftState:
    """What a target needs of a drafted block, besides its tokens.

    probs       [g, vocabulary] processed distributions; None at temperature 0
    entropies   [g] nats, and likeliest [g, top_n]; None where not asked for
    """

    probs: Tensor | None
    entropies: Tensor | None
    likeliest: Tensor | None


class Lines:
    """The lines of one engine, the least recently used forgotten above MAX_LINES."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lines: list[Line] = []

    def take(self, prefix: TokenIds, n_more: int, should_stop: ShouldStop | None) -> Line:
        """A line that holds the prefix or part of it.

        It is no longer kept here until it is given back: one that broke off is never used again.
        """
        most = self.engine.info.context_length
        if not prefix or len(prefix) + n_more > most:
            raise ModelError(
                f"expected a prefix and a block of at most {most} tokens together, got "
                f"{len(prefix)} and {n_more}: shorten the problem or use a model with a longer "
                "context"
            )
        best = max(self._lines, key=lambda line: _n_common(line.token_ids, prefix), default=None)
        n_common = 0 if best is None else _n_common(best.token_ids, prefix)
        # A line of another run is left to it: most of it would be thrown away.
        if best is not None and 2 * n_common >= len(best.token_ids) > 0:
            self._lines.remove(best)
            best.passes = best.positions = 0
            self.roll_back(best, n_common)
            if n_common == len(prefix) and best.last_logits is None:
                self.roll_back(best, n_common - 1)
            return best
        read = read_prefix(self.engine, self.engine.chunks(prefix), should_stop)
        cache = WorkingCache(1, read.path, len(prefix) + _ROOM_TOKENS)
        return Line(prefix, cache, read.path[-1].last_logits, read.passes, read.positions)

    def clear(self) -> None:
        self._lines = []

    def give_back(self, line: Line) -> None:
        self._lines = [*self._lines[-MAX_LINES + 1 :], line]

    def roll_back(self, line: Line, n_tokens: int) -> None:
        """Forget all but the first `n_tokens`."""
        surplus = len(line.token_ids) - n_tokens
        if surplus > 0:
            line.cache.crop(-surplus)
            line.token_ids = line.token_ids[:n_tokens]
            line.last_logits = None

    def read(self, line: Line, token_ids: TokenIds, *, all_logits: bool = False) -> Tensor:
        """[1 or q, vocabulary] logits after the last token, or after each."""
        ids, members = self.engine.ids([token_ids]), [Member(line.cache, None)]
        logits = self.engine.forward(ids, members, all_logits=all_logits)[0]
        line.token_ids += token_ids
        line.last_logits = None
        line.passes += 1
        line.positions += len(token_ids)
        return logits

    def last_row(self, line: Line) -> Tensor:
        """[1, vocabulary] logits after the last token that the line holds."""
        if line.last_logits is None:
            raise AssertionError("a line as long as its prefix knows its last logits")
        return line.last_logits[None]

    def catch_up(self, line: Line, prefix: TokenIds, should_stop: ShouldStop | None) -> TokenIds:
        """The pending tokens, no more than one chunk of them: the others are read."""
        while len(prefix) - len(line.token_ids) > MAX_CHUNK_TOKENS:
            poll(should_stop)
            n_read = len(line.token_ids)
            self.read(line, prefix[n_read : n_read + MAX_CHUNK_TOKENS])
        return prefix[len(line.token_ids) :]


def draft_block(
    lines: Lines,
    request: DraftRequest,
    eos_token_ids: frozenset[int],
    on_token: OnToken | None = None,
    should_stop: ShouldStop | None = None,
) -> DraftedBlock:
    """Draft a block, one forward pass a token; it may end early, with an end of sequence."""
    start = time.perf_counter()
    poll(should_stop)
    line = lines.take(request.prefix, request.n_tokens, should_stop)
    pending = lines.catch_up(line, request.prefix, should_stop)
    row = lines.read(line, pending) if pending else lines.last_row(line)
    greedy = request.sampling.temperature == 0
    generator = random.Random(request.seed)
    token_ids: list[int] = []
    bests: list[Tensor] = []
    probs: list[Tensor] = []
    rows: list[Tensor] = []
    for n_drafted in range(1, request.n_tokens + 1):
        if token_ids:
            poll(should_stop)
            row = lines.read(line, (token_ids[-1],))
        if request.top_n:
            rows.append(row.float())
        if greedy:
            best, token = row.max(dim=-1)
            bests.append(best)
            token_ids.append(int(token))
        else:
            probs.append(processed(row.float(), request.sampling))
            token_ids.append(draw(probs[-1][0], generator.random()))
        if on_token is not None:
            on_token(n_drafted)
        if token_ids[-1] in eos_token_ids:
            break
    if bests:
        require_finite(torch.cat(bests))
    lines.give_back(line)
    logits = torch.cat(rows) if rows else None
    state = DraftState(
        probs=torch.cat(probs) if probs else None,
        entropies=None if logits is None else entropies(logits),
        likeliest=None if logits is None else top_ids(logits, request.top_n),
    )
    return DraftedBlock(tuple(token_ids), state, 1000 * (time.perf_counter() - start))


def judge_block(
    lines: Lines, request: JudgeRequest, should_stop: ShouldStop | None = None
) -> JudgedBlock:
    """Judge a block in one forward pass, and keep of it what was accepted."""
    start = time.perf_counter()
    poll(should_stop)
    prefix = request.prefix
    token_ids = () if request.drafted is None else request.drafted.token_ids
    line = lines.take(prefix, len(token_ids), should_stop)
    lines.roll_back(line, len(prefix) - 1)
    pending = lines.catch_up(line, prefix, should_stop)
    if len(pending) > 1:
        lines.read(line, pending[:-1])
    logits = lines.read(line, (prefix[-1], *token_ids), all_logits=True)
    judged = _judged(request, token_ids, logits)
    n_accepted = sum(decision.outcome == "accepted" for decision in judged.decisions)
    lines.roll_back(line, len(prefix) + n_accepted)
    lines.give_back(line)
    return JudgedBlock(
        decisions=judged.decisions,
        correction=judged.correction,
        passes=line.passes,
        positions=line.positions,
        milliseconds=1000 * (time.perf_counter() - start),
    )


def _judged(request: JudgeRequest, token_ids: TokenIds, logits: Tensor) -> Judged:
    """The rule's word, from logits [g + 1, vocabulary]."""
    state = DraftState(None, None, None)
    if request.drafted is not None:
        if not isinstance(request.drafted.state, DraftState):
            raise PairError(
                "expected a block drafted by a model of the same kind, got another: load both "
                "models of a pair the same way"
            )
        state = request.drafted.state
    doubt = _doubt(request, state, logits)
    if request.sampling.temperature == 0:
        best, choices = logits.max(dim=-1)
        require_finite(best)
        return accept_greedy(token_ids, choices.tolist(), doubt)
    target_probs = processed(logits.float(), request.sampling)
    draft_probs = target_probs[:0] if state.probs is None else state.probs
    if draft_probs.shape[1] != target_probs.shape[1]:
        raise PairError(
            f"expected draft and target to know the same ids, got {draft_probs.shape[1]} and "
            f"{target_probs.shape[1]}: name two models of one family"
        )
    generator = random.Random(request.seed)
    correction_uniform = generator.random()
    return accept_block(
        draft_probs.to(target_probs.device),
        target_probs,
        token_ids,
        [generator.random() for _ in token_ids],
        correction_uniform,
        rule=request.rule,
        easd=request.easd,
        doubt=doubt,
    )


def _doubt(request: JudgeRequest, state: DraftState, logits: Tensor) -> Doubt | None:
    if request.easd is None:
        return None
    if state.entropies is None or state.likeliest is None:
        return Doubt((), (), ())
    rows = logits[:-1].float()
    shared = overlaps(state.likeliest.to(rows.device), top_ids(rows, request.easd.top_n))
    return Doubt(state.entropies.tolist(), entropies(rows).tolist(), shared.tolist())


def _n_common(some: Sequence[int], others: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    n = min(len(some), len(others))
    if some[:n] == others[:n]:
        return n
    return next(i for i in range(n) if some[i] != others[i])

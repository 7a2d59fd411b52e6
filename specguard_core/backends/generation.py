"""Writing steps: several draws in one batch after one prefix. Knows no files and no pairs.

writer     one request's share of the work
draw       one of the steps being written, with its own random numbers
row        a place in the batch; finished draws leave it
shared     a row of several draws: as long as they are the same, they are computed once
fed        tokens of a draw that went through the model: positions that were queries
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from specguard_core.backends.attention import Member
from specguard_core.backends.cache import WorkingCache
from specguard_core.backends.engine import Engine, poll
from specguard_core.backends.ledger import Ledger, Ledgered
from specguard_core.backends.prefixes import ReadPrefix, read_prefixes
from specguard_core.backends.sampling import pick
from specguard_core.errors import ModelError
from specguard_core.lm import (
    Draw,
    DrawBatch,
    DrawStop,
    Floats,
    OnToken,
    SampleRequest,
    ShouldStop,
)
from specguard_core.text import StepWatch

_MOST_ROWS = 64
_ROOM_TOKENS = 128


@dataclass(slots=True)
class _Line:
    """A draw while it is written."""

    random: random.Random
    watch: StepWatch
    token_ids: list[int] = field(default_factory=list)
    sampling_logprobs: list[float] = field(default_factory=list)
    stop: DrawStop | None = None
    fed: int = 0
    feeds_last: bool = False
    attention: Floats | None = None
    hidden: Floats | None = None

    @property
    def waits(self) -> bool:
        """Whether its last token must go through the model."""
        return self.stop is None or (self.feeds_last and self.fed < len(self.token_ids))


def sample(
    engine: Engine,
    requests: Sequence[SampleRequest],
    eos_token_ids: frozenset[int],
    on_token: OnToken | None,
    should_stop: ShouldStop | None,
) -> list[DrawBatch]:
    """All draws of all requests; those that may share forward passes do."""
    batches: list[DrawBatch] = []
    for group in _groups(engine, requests):
        start = time.perf_counter()
        writers = [_Writer(engine, request, eos_token_ids) for request in group]
        chunks = [engine.chunks(request.prefix) for request in group]
        prefixes = read_prefixes(engine, chunks, should_stop)
        for writer, prefix in zip(writers, prefixes, strict=True):
            writer.begin(prefix)
        for writer in writers:
            writer.seconds = (time.perf_counter() - start) / len(group)
        _write(engine, writers, on_token, should_stop)
        batches += [writer.finish() for writer in writers]
    return batches


def _groups(engine: Engine, requests: Sequence[SampleRequest]) -> list[list[SampleRequest]]:
    """Requests that go through the model together, in order."""
    groups: list[list[SampleRequest]] = []
    n_rows = 0
    for request in requests:
        rows = len(request.seeds)
        if not groups or not engine.shares_passes or n_rows + rows > _MOST_ROWS:
            groups.append([])
            n_rows = 0
        groups[-1].append(request)
        n_rows += rows
    return groups


def _write(
    engine: Engine,
    writers: "Sequence[_Writer]",
    on_token: OnToken | None,
    should_stop: ShouldStop | None,
) -> None:
    """One token for every draw in turn, until all have stopped."""
    n_written = 0
    active = list(writers)
    while active:
        start = time.perf_counter()
        poll(should_stop)
        for writer in active:
            writer.take()
        n_written += 1
        if on_token is not None:
            on_token(n_written)
        turn = active
        active = [writer for writer in active if writer.waiting]
        if active:
            for writer in active:
                writer.arrange()
            latest = [token_id for writer in active for token_id in writer.latest]
            latest += latest[:1] * (engine.filled(len(latest)) - len(latest))
            ids = engine.ids(latest)[:, None]
            logits = engine.forward(ids, [writer.member for writer in active])
            first = 0
            for writer in active:
                first = writer.fed(logits, first)
        for writer in turn:
            writer.seconds += (time.perf_counter() - start) / len(turn)


class _Writer:
    """The batch of one request: takes tokens from logits, feeds them, keeps what is recorded."""

    member: Member

    def __init__(
        self, engine: Engine, request: SampleRequest, eos_token_ids: frozenset[int]
    ) -> None:
        n, most = len(request.prefix), engine.info.context_length
        self.room = min(request.max_tokens, most - n)
        if not n or self.room < 1:
            raise ModelError(
                f"expected a prefix of 1 to {most - 1} tokens, got {n}: shorten the problem or use "
                "a model with a longer context"
            )
        self.engine = engine
        self.request = request
        self.eos_token_ids = eos_token_ids
        self.seconds = 0.0
        self.passes = 0
        self.positions = 0
        # Greedy draws are all the same one.
        seeds = request.seeds if request.temperature > 0 else request.seeds[:1]
        delimiter, begun = request.delimiter.encode(), [*map(engine.piece, request.begun)]
        self.lines = [_Line(random.Random(seed), StepWatch(delimiter, begun)) for seed in seeds]
        # Rows are shared where that makes the batch smaller.
        self.shares = engine.filled(1) < engine.filled(len(self.lines))
        self.draws = list(range(len(self.lines)))
        self.rows = [0] * len(self.lines) if self.shares else self.draws
        self.hidden: list[Tensor] = []
        self.ledger = Ledger(request.n_alternatives)

    def begin(self, prefix: ReadPrefix) -> None:
        """Lay the prefix out for all draws."""
        self.passes, self.positions = prefix.passes, prefix.positions
        room = len(self.request.prefix) + min(self.room, _ROOM_TOKENS)
        self.member = Member(
            WorkingCache(1 + self.rows[-1], prefix.path, room),
            self.engine.new_record(self.request.n_capture_layers),
        )
        self.logits = prefix.path[-1].last_logits.float()[None].expand(len(self.lines), -1)

    @property
    def waiting(self) -> bool:
        return any(self.lines[draw].waits for draw in self.draws)

    @property
    def latest(self) -> list[int]:
        """The latest token of each row."""
        tokens: dict[int, int] = {}
        for draw, row in zip(self.draws, self.rows, strict=True):
            line = self.lines[draw]
            if row not in tokens or line.waits:
                tokens[row] = line.token_ids[-1]
        return [tokens[row] for row in range(self.member.cache.rows)]

    def take(self) -> None:
        """The next token of each unfinished draw."""
        lines = [self.lines[draw] for draw in self.draws]
        if all(line.stop for line in lines):
            return
        uniforms = [0.0 if line.stop else line.random.random() for line in lines]
        picked = pick(
            self.logits,
            uniforms,
            temperature=self.request.temperature,
            top_p=self.request.top_p,
            top_k=self.request.top_k,
        )
        owners = [-1 if line.stop else draw for draw, line in zip(self.draws, lines, strict=True)]
        self.ledger.add(self.logits, picked, owners)
        for line, token_id, logprob in zip(lines, picked.token_ids, picked.logprobs, strict=True):
            if not line.stop:
                self._append(line, token_id, logprob)

    def arrange(self) -> None:
        """Part the rows of draws that went apart, and drop finished draws where that makes the
        batch much smaller: the others' states are copied for it."""
        staying: list[int] = []
        branches: dict[tuple[int, int], int] = {}
        sources: list[int] = []
        rows: list[int] = []
        for draw, row in zip(self.draws, self.rows, strict=True):
            if self.lines[draw].waits:
                branch = (row, self.lines[draw].token_ids[-1] if self.shares else draw)
                if branch not in branches:
                    branches[branch] = len(sources)
                    sources.append(row)
                staying.append(draw)
                rows.append(branches[branch])
        n_rows = self.member.cache.rows
        fewer = self.engine.filled(len(sources)) < self.engine.filled(n_rows)
        halved = 2 * len(sources) <= n_rows
        if not fewer and not halved and len(set(sources)) == len(sources):
            return
        self._settle([draw for draw in self.draws if not self.lines[draw].waits])
        index = self.engine.ids(sources)
        self.member.cache.select(index)
        if self.member.record is not None:
            self.member.record.select(index)
        self.hidden = [states[sources] for states in self.hidden]
        self.draws, self.rows = staying, rows

    def fed(self, logits: Tensor, first: int) -> int:
        """The latest tokens went through the model, in rows from `first` on; the row after."""
        after = first + self.member.cache.rows
        own = logits[first:after, 0].float()
        self.logits = own if len(self.draws) == len(own) else own[self.rows]
        if self.request.want_hidden:
            self.hidden.append(self.engine.hidden[first:after])
        self.passes += 1
        read = set()
        for draw, row in zip(self.draws, self.rows, strict=True):
            if self.lines[draw].waits:
                self.lines[draw].fed += 1
                read.add(row)
        self.positions += len(read)
        return after

    def finish(self) -> DrawBatch:
        start = time.perf_counter()
        self._settle(self.draws)
        recorded = self.ledger.finish()
        draws = tuple(self._draw(index, recorded) for index in range(len(self.lines)))
        if self.request.temperature == 0:
            draws *= len(self.request.seeds)
        seconds = self.seconds + time.perf_counter() - start
        return DrawBatch(draws, self.passes, self.positions, milliseconds=1000 * seconds)

    def _append(self, line: _Line, token_id: int, logprob: float) -> None:
        line.token_ids.append(token_id)
        line.sampling_logprobs.append(logprob)
        if token_id in self.eos_token_ids:
            line.stop = "eos"
        elif line.watch.feed(self.engine.piece(token_id)):
            line.stop = "delimiter"
        elif len(line.token_ids) == self.room:
            line.stop = "limit"
        if line.stop is not None:
            alone = len(line.token_ids) == 1 and not self.request.n_begun
            line.feeds_last = line.stop == "limit" or alone or self.request.feed_boundary

    def _settle(self, draws: list[int]) -> None:
        """Work out attention and hidden states of draws that leave."""
        n = len(self.request.prefix)
        rows = None
        record = self.member.record
        if record is not None and record.layers:
            rows = self.engine.rows(record, self.member.cache, n)
        for draw in draws:
            line, row = self.lines[draw], self.rows[self.draws.index(draw)]
            m = len(line.token_ids)
            if rows is not None:
                line.attention = np.zeros((len(rows), m, n + m), np.float32)
                line.attention[:, : line.fed, : n + line.fed] = rows[
                    :, row, : line.fed, : n + line.fed
                ]
            if self.hidden:
                states = torch.stack([states[row] for states in self.hidden[: line.fed]])
                line.hidden = states.float().mean(dim=0).cpu().numpy()

    def _draw(self, index: int, recorded: Ledgered) -> Draw:
        line = self.lines[index]
        if line.stop is None:
            raise AssertionError("a draw ends by a stop")
        places = np.flatnonzero(recorded.owners == index)
        others = zip(
            recorded.other_ids[places].tolist(),
            recorded.other_logprobs[places].tolist(),
            strict=True,
        )
        return Draw(
            token_ids=tuple(line.token_ids),
            logprobs=recorded.logprobs[places],
            sampling_logprobs=np.asarray(line.sampling_logprobs, np.float32),
            entropies=recorded.entropies[places],
            alternatives=tuple(tuple(zip(ids, values, strict=True)) for ids, values in others),
            attention=line.attention,
            hidden=line.hidden,
            stop=line.stop,
        )

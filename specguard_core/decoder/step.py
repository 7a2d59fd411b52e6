"""Both decoders: one transition function, and a loop over it.

    step    propose k steps (draft) -> select one -> verify it -> keep it, or the target writes it
    block   draft gamma tokens -> the target judges each in one pass -> it adds one of its own
    vote    several chains of the step decoder, one transition of each at a time -> a vote

Knows no torch and no UI. A transition either calls a model or does arithmetic, but for the verdict
where a weighted signal needs the target to read the step first. A failed or cancelled transition
changes nothing: the states it was given stand.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from specguard_core.decoder.block import write_blocks
from specguard_core.decoder.chains import move_chains
from specguard_core.decoder.commit import commit
from specguard_core.decoder.draft import propose
from specguard_core.decoder.states import (
    AwaitingBlock,
    AwaitingChains,
    AwaitingCommit,
    AwaitingDraft,
    AwaitingSelection,
    AwaitingVerdict,
    Finished,
    State,
    resume,
    rewound,
    start,
)
from specguard_core.decoder.verdict import judge
from specguard_core.errors import PairError
from specguard_core.events import Event, Selected
from specguard_core.lm import Models, OnToken, ShouldStop
from specguard_core.selection import select
from specguard_core.text import join_pieces
from specguard_core.types import Cost, RoleCost

__all__ = [
    "AwaitingBlock",
    "AwaitingChains",
    "AwaitingCommit",
    "AwaitingDraft",
    "AwaitingSelection",
    "AwaitingVerdict",
    "Finished",
    "State",
    "advance",
    "advance_many",
    "decode",
    "resume",
    "rewound",
    "start",
]

Moved = tuple[State, Event]
Waiting = TypeVar(
    "Waiting",
    AwaitingDraft,
    AwaitingSelection,
    AwaitingVerdict,
    AwaitingCommit,
    AwaitingBlock,
    AwaitingChains,
)


def advance_many(
    states: Sequence[State],
    models: Models,
    *,
    on_token: OnToken | None = None,
    should_stop: ShouldStop | None = None,
) -> list[Moved]:
    """One transition of each state, in their order; states in one phase share model batches.

    Args:
        on_token: told how many tokens the longest unit being written has.
        should_stop: polled before each token.

    Raises:
        Cancelled: should_stop said so.
        ModelError, NotMeasured: the transition cannot be made. All given states stand.
        PairError: a trace was made with another tokenizer.
        ValueError: a finished state was given.
    """
    if any(isinstance(state, Finished) for state in states):
        raise ValueError("expected states that can go on, got a finished one")
    for state in states:
        _check_tokenizer(state, models)
    moved: dict[int, Moved] = {}
    for place, undecided in _in_phase(states, AwaitingSelection).items():
        moved[place] = _select(undecided, models.clock)
    if draft := _in_phase(states, AwaitingDraft):
        proposed = propose(list(draft.values()), models, on_token, should_stop)
        moved.update(zip(draft, proposed, strict=True))
    if verdict := _in_phase(states, AwaitingVerdict):
        judged = judge(list(verdict.values()), models, should_stop)
        moved.update(zip(verdict, judged, strict=True))
    if last := _in_phase(states, AwaitingCommit):
        committed = commit(list(last.values()), models, on_token, should_stop)
        moved.update(zip(last, committed, strict=True))
    if block := _in_phase(states, AwaitingBlock):
        written = write_blocks(list(block.values()), models, on_token, should_stop)
        moved.update(zip(block, written, strict=True))
    if chains := _in_phase(states, AwaitingChains):
        further = partial(advance_many, models=models, on_token=on_token, should_stop=should_stop)
        gathered = move_chains(list(chains.values()), further)
        moved.update(zip(chains, gathered, strict=True))
    return [moved[place] for place in range(len(states))]


def advance(
    state: State,
    models: Models,
    *,
    on_token: OnToken | None = None,
    should_stop: ShouldStop | None = None,
) -> Moved:
    """One transition: advance_many of one state."""
    return advance_many([state], models, on_token=on_token, should_stop=should_stop)[0]


def decode(
    state: State,
    models: Models,
    *,
    on_token: OnToken | None = None,
    should_stop: ShouldStop | None = None,
) -> Iterator[Event]:
    """Every event from a state to the end of its run; the last one carries the finished trace.

    All but the last transition of a step are phases of it; a block is one transition.
    """
    while not isinstance(state, Finished):
        state, event = advance(state, models, on_token=on_token, should_stop=should_stop)
        yield event


def _in_phase(states: Sequence[State], phase: type[Waiting]) -> dict[int, Waiting]:
    return {place: state for place, state in enumerate(states) if isinstance(state, phase)}


def _check_tokenizer(state: State, models: Models) -> None:
    theirs, ours = state.trace.tokenizer_hash, models.vocabulary.tokenizer_hash
    if theirs != ours:
        raise PairError(
            f"expected models with the trace's tokenizer ({theirs[:12]}), got another "
            f"({ours[:12]}): load the pair that the trace names"
        )


def _select(state: AwaitingSelection, clock: Callable[[], float]) -> Moved:
    began = clock()
    candidates, pieces = state.candidates, state.trace.pieces
    selection = None
    if sum(len(candidate.draws) for candidate in candidates) > 1:
        config = state.trace.config
        selection = select(
            [join_pieces(candidate.token_ids, pieces) for candidate in candidates],
            [len(candidate.draws) for candidate in candidates],
            [candidate.mean_logprob or 0.0 for candidate in candidates],
            method=config.selection_method,
            cluster_similarity=config.cluster_similarity,
            recorded=state.similarity,
        )
        kept = selection.chosen
        candidates = tuple(
            candidate if index == kept else replace(candidate, heatmap=None)
            for index, candidate in enumerate(candidates)
        )
    spent = Cost({"selection": RoleCost(0, (clock() - began) * 1000)})
    after = AwaitingVerdict(state.trace, state.attempt, candidates, selection, state.cost + spent)
    return after, Selected(len(state.trace.units), selection)

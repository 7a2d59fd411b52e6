"""Several chains of one strategy on one problem, and the vote that makes them one trace.

chain     a run of its own: its randomness has the chain's index in its address
whole     the trace of all chains; its steps are those of the chain that stands for the winner
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from specguard_core.decoder.states import AwaitingChains, Finished, State
from specguard_core.events import ChainsMoved, Event
from specguard_core.types import Chain, Finish, Trace
from specguard_core.votes import vote

Moved = tuple[State, Event]


def move_chains(
    states: Sequence[AwaitingChains], move: Callable[[list[State]], list[Moved]]
) -> list[tuple[AwaitingChains | Finished, ChainsMoved]]:
    """One transition of every chain that goes on, of all states in the same batches."""
    going = [
        (place, index)
        for place, state in enumerate(states)
        for index, chain in enumerate(state.chains)
        if not isinstance(chain, Finished)
    ]
    moved = dict(
        zip(going, move([states[place].chains[index] for place, index in going]), strict=True)
    )
    return [
        _gathered(state, {index: moved[at, index] for at, index in going if at == place})
        for place, state in enumerate(states)
    ]


def _gathered(
    state: AwaitingChains, moved: dict[int, Moved]
) -> tuple[AwaitingChains | Finished, ChainsMoved]:
    chains = tuple(
        moved[index][0] if index in moved else chain for index, chain in enumerate(state.chains)
    )
    pieces = dict(state.trace.pieces)
    for chain in chains:
        pieces |= chain.trace.pieces
    trace = replace(
        state.trace,
        pieces=pieces,
        chains=tuple(Chain(chain.trace.steps, chain.trace.finish) for chain in chains),
    )
    events = tuple((index, event) for index, (_, event) in moved.items())
    if not all(isinstance(chain, Finished) for chain in chains):
        return replace(state, trace=trace, chains=chains), ChainsMoved(events, trace, None)
    trace = voted(trace)
    return Finished(trace), ChainsMoved(events, trace, trace.finish)


def voted(trace: Trace) -> Trace:
    """The trace with the vote of its chains, all of them finished."""
    finishes = [chain.finish for chain in trace.chains]
    answers = [None if finish is None else finish.answer for finish in finishes]
    result = vote(answers, [mean_reward(chain) for chain in trace.chains])
    chosen = trace.chains[result.chosen]
    if chosen.finish is None:
        raise ValueError("expected chains that are finished")
    return replace(
        trace,
        units=chosen.units,
        vote=result,
        status="finished",
        finish=Finish(chosen.finish.reason, chosen.finish.answer),
    )


def mean_reward(chain: Chain) -> float | None:
    """Over all steps of the draft that were given one, refused ones too; None where none was."""
    rewards = [
        step.verdict.readings["reward"].raw
        for step in chain.units
        if step.verdict is not None and "reward" in step.verdict.readings
    ]
    return math.fsum(rewards) / len(rewards) if rewards else None

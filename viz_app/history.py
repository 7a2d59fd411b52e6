"""The states a recorded trace went through, so that a file can be looked through like a run. Pure.

lane       the states of one of several chains; it ends where the chain's own run ended
"""

from dataclasses import replace

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
)
from specguard_core.types import Chain, Trace


def history_of(trace: Trace) -> tuple[State, ...]:
    """The states of a recorded trace, up to where it can go on.

    A step's cost is known as a whole only, so it stands in each of its states.
    """
    if trace.chains:
        return _of_chains(trace)
    if trace.blocks:
        begun = [AwaitingBlock(rewound(trace, b.index), b.attempt) for b in trace.blocks]
        return (*begun, resume(trace))
    return _of_steps(trace)


def lanes(history: tuple[State, ...]) -> tuple[tuple[State, ...], ...]:
    """The history of each chain by itself; none where a run is not one of several chains."""
    first = history[0] if history else None
    if not isinstance(first, AwaitingChains):
        return ()
    found: list[tuple[State, ...]] = []
    for index in range(len(first.chains)):
        lane: list[State] = []
        for state in history:
            own = state.chains[index] if isinstance(state, AwaitingChains) else _last(state, index)
            if lane and isinstance(lane[-1], Finished):
                break
            lane.append(own)
        found.append(tuple(lane))
    return tuple(found)


def _of_steps(trace: Trace) -> tuple[State, ...]:
    states: list[State] = []
    for step in trace.steps:
        before = rewound(trace, step.index)
        similarity = {} if step.selection is None else step.selection.similarity
        plan = replace(step.outcome)
        states += [
            AwaitingDraft(before, step.attempt),
            AwaitingSelection(before, step.attempt, step.candidates, similarity, step.cost),
            AwaitingVerdict(before, step.attempt, step.candidates, step.selection, step.cost),
            AwaitingCommit(
                before,
                step.attempt,
                step.candidates,
                step.selection,
                step.verdict,
                plan,
                step.cost,
                step.written if plan.source == "edited" else None,
            ),
        ]
    return (*states, resume(trace))


def _of_chains(trace: Trace) -> tuple[State, ...]:
    """Chains go phase by phase beside each other; one that has ended waits for the others."""
    own = [_of_steps(_chain_trace(trace, index)) for index in range(len(trace.chains))]
    states: list[State] = []
    for place in range(max(len(lane) for lane in own) - 1):
        now = tuple(lane[min(place, len(lane) - 1)] for lane in own)
        chains = tuple(Chain(state.trace.steps, state.trace.finish) for state in now)
        whole = replace(
            trace, units=(), chains=chains, vote=None, status="running", failure=None, finish=None
        )
        states.append(AwaitingChains(whole, now))
    return (*states, resume(trace))


def _chain_trace(trace: Trace, index: int) -> Trace:
    chain = trace.chains[index]
    return replace(
        trace,
        chain=index,
        chains=(),
        vote=None,
        units=chain.units,
        status="running" if chain.finish is None else "finished",
        failure=None,
        finish=chain.finish,
    )


def _last(state: State, index: int) -> State:
    return Finished(_chain_trace(state.trace, index))

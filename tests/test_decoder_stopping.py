"""Stopping a decode: at any moment the state before stands, and the run goes on from it."""

from dataclasses import replace

import pytest

from specguard_core.decoder.step import (
    AwaitingSelection,
    Finished,
    advance,
    advance_many,
    decode,
    resume,
    start,
)
from specguard_core.errors import Cancelled, ModelError
from specguard_core.events import Committed
from tests.builders import (
    PROBLEM,
    configured,
    pair,
    run,
    scripted,
    trace_from,
)


class Brake:
    """Says stop at the n-th poll and never again."""

    def __init__(self, at):
        self.at, self.polls = at, 0

    def __call__(self):
        self.polls += 1
        return self.polls - 1 == self.at


@pytest.mark.case(22)
@pytest.mark.parametrize(
    "knobs",
    [
        {"threshold": 1.01},
        {"threshold": 0.0},
        {"weights": {"target_confidence": 1.0}, "normalisation": "candidates"},
        {"strategy": "draft_only"},
        {"strategy": "target_only", "target_temperature": 0.7, "target_samples": 3},
    ],
    ids=str,
)
def test_stopping_at_any_poll_leaves_the_state_and_the_run_goes_on_as_if_never_stopped(knobs):
    models = pair()
    config = configured(max_steps=2, max_step_tokens=6, **knobs)
    first = start(PROBLEM, models, config)
    whole = trace_from(first, models)
    n_stops = 0
    while True:
        brake, state, stopped = Brake(n_stops), first, False
        while not isinstance(state, Finished):
            before = repr(state)
            try:
                state, _ = advance(state, models, should_stop=brake)
            except Cancelled:
                stopped = True
                assert repr(state) == before
        assert state.trace == whole
        if not stopped:
            break
        n_stops += 1
    assert n_stops == brake.polls > 4


def test_stopping_one_of_many_leaves_all_of_them():
    models = pair()
    states = [start(f"{PROBLEM} {i}", models, configured()) for i in range(3)]
    states[1] = advance(states[1], models)[0]
    with pytest.raises(Cancelled):
        advance_many(states, models, should_stop=lambda: True)
    assert isinstance(states[1], AwaitingSelection)
    assert isinstance(advance_many(states, models)[0][0], AwaitingSelection)


def test_a_decode_that_is_stopped_keeps_what_was_committed():
    models = pair()
    config = configured(max_steps=4, threshold=1.01)
    whole = run(models, config)
    assert len(whole.units) > 1
    trace = start(PROBLEM, models, config).trace
    events = decode(
        start(PROBLEM, models, config), models, should_stop=lambda: len(trace.units) == 1
    )
    for event in events:
        if isinstance(event, Committed):
            trace = event.trace
            break
    with pytest.raises(Cancelled):
        next(events)
    assert trace.units == whole.units[:1]
    stopped = replace(trace, status="stopped")
    assert trace_from(resume(stopped), models) == whole


def test_progress_counts_the_tokens_of_the_longest_step_being_written():
    seen = []
    models = pair()
    state = start(PROBLEM, models, configured(n_candidates=3))
    state, event = advance(state, models, on_token=seen.append)
    longest = max(len(one.tokens) for one in event.candidates)
    assert seen == list(range(1, longest + 1))


def test_a_failing_model_leaves_the_state_as_it_was():
    models = pair(scripted({}, "draft", strict=True))
    state = start(PROBLEM, models, configured())
    with pytest.raises(ModelError, match="scripted step"):
        advance(state, models)
    assert advance(state, pair())[0] == advance(start(PROBLEM, pair(), configured()), pair())[0]

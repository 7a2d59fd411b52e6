"""Laws of whole decodes on scripted pairs: thresholds, repeats, branches and batches."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core import trace_io
from specguard_core.decoder.step import (
    AwaitingDraft,
    Finished,
    advance,
    advance_many,
    decode,
    resume,
    rewound,
    start,
)
from specguard_core.events import Committed, Proposed, Selected, Verified
from tests.builders import (
    PAIR_STRATEGIES,
    PROBLEM,
    VOCABULARY,
    configured,
    events_of,
    pair,
    run,
    states_of,
    trace_from,
)

SEEDS = st.integers(0, 2**31 - 1)
SETTINGS = st.fixed_dictionaries(
    {
        "seed": SEEDS,
        "system_prompt": st.just("Think."),
        "max_steps": st.integers(1, 6),
        "max_step_tokens": st.integers(1, 12),
    },
    optional={
        "strategy": st.sampled_from(PAIR_STRATEGIES),
        "n_candidates": st.integers(1, 5),
        "draft_temperature": st.sampled_from([0.0, 0.7]),
        "target_temperature": st.sampled_from([0.0, 0.7]),
        "target_samples": st.integers(1, 3),
        "threshold": st.sampled_from([0.0, 0.4, 0.6, 0.8, 1.01]),
        "normalisation": st.sampled_from(["calibrated", "fixed", "candidates"]),
        "signal_tokens": st.sampled_from(["all", "numeric", "equation", "setup"]),
        "include_boundary_token": st.booleans(),
        "selection_method": st.sampled_from(["lexical", "numeric", "hidden"]),
        "weights": st.sampled_from(
            [
                {"confidence": 0.3, "grounding": 0.7},
                {"agreement": 0.5, "confidence": 0.5},
                {"target_confidence": 0.6, "target_grounding": 0.4},
            ]
        ),
        "max_new_tokens": st.integers(1, 40),
        "rollout_layers": st.integers(1, 5),
        "sink_tokens": st.integers(0, 3),
        "n_alternatives": st.integers(0, 3),
    },
)
CONFIGS = SETTINGS.map(lambda knobs: configured(**knobs))


def ids_of(trace):
    return [step.output.token_ids for step in trace.units]


# Thresholds


@given(CONFIGS)
@settings(max_examples=25)
def test_at_threshold_0_the_target_never_writes(config):
    config = replace(
        config,
        strategy="specguard",
        threshold=0.0,
        weights=(("confidence", 0.5), ("grounding", 0.5)),
    )
    models = pair()
    trace = run(models, config)
    assert models.target.n_calls == 0
    assert all(step.outcome.source == "draft" for step in trace.units)
    assert (trace.cost.target_passes, trace.cost.target_positions) == (0, 0)
    assert "target_written" not in trace.cost.roles


@given(CONFIGS)
@settings(max_examples=25)
def test_at_threshold_1_01_only_the_target_writes_what_it_would_write_alone(config):
    models = pair()
    refused = run(models, replace(config, strategy="specguard", threshold=1.01))
    alone = run(models, replace(config, strategy="target_only"))
    assert all(step.outcome.source == "target" for step in refused.units)
    assert ids_of(refused) == ids_of(alone)
    assert (refused.text, refused.finish) == (alone.text, alone.finish)
    written = [(step.written, step.output) for step in refused.units]
    assert written == [(step.written, step.output) for step in alone.units]


@given(CONFIGS, st.floats(0, 1.01), st.floats(0, 1.01))
@settings(max_examples=25)
def test_a_stricter_threshold_never_accepts_more_until_the_two_runs_part(config, one, other):
    config = replace(config, strategy="specguard")
    mild, strict = (
        run(pair(), replace(config, threshold=threshold)) for threshold in sorted((one, other))
    )
    for before, after in zip(mild.units, strict.units, strict=False):
        assert before.verdict.score == after.verdict.score
        assert before.verdict.accepted >= after.verdict.accepted
        if before.output != after.output:
            break


@given(CONFIGS)
@settings(max_examples=30)
def test_draft_only_calls_no_target_and_target_only_no_draft(config):
    models = pair()
    run(models, replace(config, strategy="draft_only"))
    assert models.target.n_calls == 0
    models = pair()
    run(models, replace(config, strategy="target_only"))
    assert models.draft.n_calls == 0


# Repeats and branches


@given(CONFIGS)
@settings(max_examples=30)
def test_a_rerun_gives_an_equal_trace(config):
    assert run(pair(), config) == run(pair(), config)


@given(CONFIGS)
@settings(max_examples=30)
def test_a_trace_is_complete_and_comes_back_from_its_file(config):
    trace = run(pair(), config)
    data = trace_io.to_json(trace)
    assert trace_io.from_json(data) == trace
    assert trace_io.to_json(trace_io.from_json(data)) == data


@given(CONFIGS)
@settings(max_examples=30)
def test_undo_and_redo_and_a_branch_that_changes_nothing_give_equal_traces(config):
    models = pair()
    states = states_of(start(PROBLEM, models, config), models)
    finished = states[-1].trace
    for state in states:
        assert trace_from(state, models) == finished
    for n_steps in range(len(finished.units)):
        branch = resume(rewound(finished, n_steps))
        assert branch.trace.units == finished.units[:n_steps]
        assert trace_from(branch, models) == finished
    assert resume(finished) == Finished(finished)
    assert resume(rewound(finished, len(finished.units))) == Finished(finished)


@given(CONFIGS)
@settings(max_examples=30)
def test_advancing_a_state_leaves_it_as_it_was(config):
    models = pair()
    state = start(PROBLEM, models, config)
    while not isinstance(state, Finished):
        before = repr(state)
        following, _ = advance(state, models)
        assert repr(state) == before
        state = following


@given(CONFIGS)
@settings(max_examples=30)
def test_every_state_can_show_all_its_tokens(config):
    models = pair()
    for state in states_of(start(PROBLEM, models, config), models):
        candidates = list(getattr(state, "candidates", ()))
        for step in state.trace.units:
            candidates += [*step.candidates, step.output]
        ids = {token.token_id for one in candidates for token in one.tokens}
        ids |= {a.token_id for one in candidates for t in one.tokens for a in t.alternatives}
        ids |= set(state.trace.prompt_ids)
        assert ids <= state.trace.pieces.keys()
        assert all(state.trace.pieces[i] == VOCABULARY.piece(i) for i in ids)


def test_a_trace_is_rewound_to_a_step_that_it_has():
    trace = run(pair(), configured(max_steps=1))
    for n_steps in (-1, 2):
        with pytest.raises(ValueError, match=f"0 to 1 units to keep, got {n_steps}"):
            rewound(trace, n_steps)


def test_a_stopped_or_failed_run_goes_on_from_its_last_whole_step():
    models = pair()
    config = configured(threshold=1.01, max_steps=3)
    whole = run(models, config)
    part = rewound(whole, 2)
    stopped = replace(part, status="stopped")
    failed = replace(part, status="failed", failure="out of memory")
    assert trace_from(resume(stopped), models) == trace_from(resume(failed), models) == whole


def test_a_redraw_draws_from_other_seeds_and_the_next_one_again():
    models = pair()
    state = start(PROBLEM, models, configured(n_candidates=4))
    drawn = [advance(replace(state, attempt=attempt), models)[0].candidates for attempt in range(4)]
    texts = {tuple(one.token_ids for one in candidates) for candidates in drawn}
    assert len(texts) == 4
    again = advance(replace(state, attempt=2), models)[0].candidates
    assert again == drawn[2]


def test_a_redraw_is_recorded_and_the_next_step_starts_afresh():
    models = pair()
    state = replace(start(PROBLEM, models, configured(threshold=0.0, seed=3)), attempt=5)
    states = states_of(state, models)
    trace = states[-1].trace
    assert [step.attempt for step in trace.units] == [5] + [0] * (len(trace.units) - 1)
    assert [s.attempt for s in states if isinstance(s, AwaitingDraft)][1:] == [0] * (
        len(trace.units) - 1
    )


def test_another_seed_draws_other_steps():
    texts = {
        run(pair(), configured(seed=seed, max_steps=3, threshold=0.0)).text for seed in range(5)
    }
    assert len(texts) == 5


# Events


@given(CONFIGS)
@settings(max_examples=30)
def test_events_come_in_the_order_of_the_states_and_the_last_one_ends_the_run(config):
    models = pair()
    events = events_of(models, config)
    kinds = [type(event) for event in events]
    assert kinds == [Proposed, Selected, Verified, Committed] * (len(events) // 4)
    last = events[-1]
    assert last.finish is not None
    assert last.trace.finish == last.finish
    assert [e.finish for e in events if isinstance(e, Committed)][:-1] == [None] * (
        len(events) // 4 - 1
    )
    indices = [e.step.index if isinstance(e, Committed) else e.step_index for e in events]
    assert indices == [i // 4 for i in range(len(events))]
    for event in events:
        if isinstance(event, Committed):
            assert event.trace.units[event.step.index] == event.step
        if isinstance(event, Proposed):
            assert event.context_ids == last.trace.context_ids[: len(event.context_ids)]
            assert len(event.attention) == len(event.candidates)


# Many at once


@given(st.lists(CONFIGS, min_size=1, max_size=4), st.data())
@settings(max_examples=30)
def test_advancing_many_equals_advancing_one_by_one(configs, data):
    models = pair()
    states = []
    for place, config in enumerate(configs):
        line = states_of(start(f"{PROBLEM} Number {place}.", models, config), models)[:-1]
        states.append(data.draw(st.sampled_from(line)))
    alone = [advance(state, models) for state in states]
    together = advance_many(states, models)
    assert [state for state, _ in together] == [state for state, _ in alone]
    for (_, one), (_, other) in zip(alone, together, strict=True):
        assert type(one) is type(other)
        if isinstance(one, Committed):
            assert one == other
        if isinstance(one, Proposed):
            assert one.candidates == other.candidates


def test_no_states_move_to_no_states_and_no_model_is_called():
    models = pair()
    assert advance_many([], models) == []
    assert (models.draft.n_calls, models.target.n_calls) == (0, 0)


def test_states_in_one_phase_share_one_call():
    models = pair()
    states = [start(f"{PROBLEM} {i}", models, configured(threshold=1.01)) for i in range(3)]
    for n_draft, n_target in ((1, 0), (1, 0), (1, 0), (1, 1)):
        states = [state for state, _ in advance_many(states, models)]
        assert (models.draft.n_calls, models.target.n_calls) == (n_draft, n_target)


def test_a_finished_state_goes_nowhere():
    models = pair()
    done = states_of(start(PROBLEM, models, configured(max_steps=1)), models)[-1]
    with pytest.raises(ValueError, match="finished"):
        advance(done, models)
    assert list(decode(done, models)) == []

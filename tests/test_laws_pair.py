"""The laws of decoding on the pair that ships: real caches, real attention, real batches."""

import json
import threading
from dataclasses import replace
from itertools import islice

import pytest

from specguard_core import bundled, trace_io
from specguard_core.decoder.step import (
    Finished,
    advance,
    advance_many,
    decode,
    resume,
    rewound,
    start,
)
from specguard_core.errors import Cancelled
from specguard_core.evidence import Evidence
from specguard_core.presets import preset
from specguard_core.regate import regate
from tests.builders import configured, states_of, trace_from

PROBLEM = (
    "Tom has 5 pens. He buys 4 more pens. Then he doubles his pens. How many pens does Tom have?"
)

pytestmark = pytest.mark.bundled(bundled.DRAFT, bundled.TARGET)


@pytest.fixture(scope="module")
def models():
    from specguard_core.backends.hf import load_models

    return load_models(bundled.DRAFT, bundled.TARGET, device="cpu")


def problems(count):
    with bundled.PROBLEMS.open(encoding="utf-8") as lines:
        return [json.loads(line)["question"] for line in islice(lines, count)]


# The target reads and writes, so that both caches are rolled back and caught up.
MIXED = configured(
    threshold=0.75, weights={"target_confidence": 0.5, "grounding": 0.5}, seed=2, max_steps=3
)


def decoded(models, config, problem=PROBLEM):
    return trace_from(start(problem, models, config), models)


def part_accepted(models):
    """A config and a problem of which the draft writes some steps and the target others."""
    for threshold in (0.75, 0.85, 0.95, 0.6, 0.4, 0.2):
        config = replace(MIXED, threshold=threshold)
        for question in problems(3):
            trace = decoded(models, config, question)
            if len({step.outcome.source for step in trace.units}) == 2:
                return config, question
    raise AssertionError("expected some threshold to accept a part of the steps")


def ids_of(trace):
    return [step.output.token_ids for step in trace.units]


def test_every_preset_and_strategy_ends_and_comes_back_from_its_file(models):
    configs = [preset(name) for name in ("cpu", "best")]
    configs += [configured(strategy=name) for name in ("draft_only", "target_only")]
    for config in configs:
        trace = decoded(models, config)
        assert trace.finish is not None
        assert trace_io.from_json(trace_io.to_json(trace)) == trace


def test_a_rerun_gives_an_equal_trace_though_the_caches_are_warm(models):
    for config in (MIXED, preset("cpu"), configured(strategy="target_only")):
        assert decoded(models, config) == decoded(models, config)


def test_a_freshly_loaded_pair_gives_the_same_trace(models):
    from specguard_core.backends.hf import load_models

    decoded(models, MIXED, problems(1)[0])
    fresh = load_models(bundled.DRAFT, bundled.TARGET, device="cpu")
    assert decoded(fresh, MIXED) == decoded(models, MIXED)


def test_undo_and_redo_and_a_branch_that_changes_nothing_give_equal_traces(models):
    config, question = part_accepted(models)
    states = states_of(start(question, models, config), models)
    finished = states[-1].trace
    for state in states[::-2]:
        assert trace_from(state, models) == finished
    for n_steps in range(len(finished.units)):
        assert trace_from(resume(rewound(finished, n_steps)), models) == finished


def test_advancing_many_equals_advancing_one_by_one_whatever_their_phases(models):
    questions = problems(4)
    lines = [
        states_of(start(question, models, replace(MIXED, seed=place, max_steps=2)), models)
        for place, question in enumerate(questions)
    ]
    for shift in (0, 1, 3):
        states = [line[min(shift + 2 * place, len(line) - 2)] for place, line in enumerate(lines)]
        alone = [advance(state, models)[0] for state in states]
        assert [state for state, _ in advance_many(states, models)] == alone


def test_whole_runs_in_one_batch_equal_runs_alone(models):
    questions = problems(3)
    alone = [decoded(models, MIXED, question) for question in questions]
    states = [start(question, models, MIXED) for question in questions]
    while True:
        running = [i for i, state in enumerate(states) if not isinstance(state, Finished)]
        if not running:
            break
        moved = advance_many([states[i] for i in running], models)
        for place, (state, _) in zip(running, moved, strict=True):
            states[place] = state
    assert [state.trace for state in states] == alone


def test_at_threshold_0_the_target_is_never_called(models):
    config = configured(threshold=0.0)
    alone = replace(models, target=Untouchable(models.target.info))
    trace = trace_from(start(PROBLEM, alone, config), alone)
    assert {step.outcome.source for step in trace.units} == {"draft"}
    assert trace.cost.target_positions == 0


def test_at_threshold_1_01_the_text_is_the_targets_own_token_for_token(models):
    for question in problems(2):
        refused = decoded(models, configured(threshold=1.01), question)
        alone = decoded(models, configured(strategy="target_only"), question)
        assert ids_of(refused) == ids_of(alone)
        assert refused.finish == alone.finish


def test_a_draw_depends_on_its_own_seed_and_on_no_other_draw(models):
    four, _ = advance(start(PROBLEM, models, configured(n_candidates=4)), models)
    seven, _ = advance(start(PROBLEM, models, configured(n_candidates=7)), models)

    def by_slot(state):
        return {slot: one.token_ids for one in state.candidates for slot in one.draws}

    assert by_slot(seven).items() >= by_slot(four).items()


def test_a_redraw_differs_and_comes_back(models):
    first = start(PROBLEM, models, configured(draft_temperature=1.5, draft_top_p=1.0))
    drawn = [
        [one.token_ids for one in advance(replace(first, attempt=n), models)[0].candidates]
        for n in (0, 1, 0)
    ]
    assert drawn[0] == drawn[2] != drawn[1]


def test_regating_with_the_traces_own_config_reproduces_every_verdict(models):
    evidence = Evidence()
    for event in decode(start(PROBLEM, models, MIXED), models):
        evidence.record(event)
    trace = event.trace
    verdicts = tuple(step.verdict for step in trace.units)
    assert regate(trace, trace.config).verdicts == verdicts
    there = replace(trace.config, residual=False, weights=(("grounding", 1.0),))
    back = replace(there, residual=True)
    turned = regate(trace, there, evidence)
    moved = replace(trace, config=there)
    expected = regate(trace, back).verdicts
    # Rows that were kept give the attributions that were recorded, to the last bit.
    for verdict, recorded in zip(regate(moved, back, evidence).verdicts, expected, strict=True):
        assert verdict.readings["grounding"] == recorded.readings["grounding"]
    assert turned.verdicts != expected


def test_rollout_knobs_give_what_a_fresh_decode_of_the_same_draws_would(models):
    config = configured(normalisation="fixed", max_steps=1)
    evidence = Evidence()
    for event in decode(start(PROBLEM, models, config), models):
        evidence.record(event)
    for knobs in (
        {"residual": False},
        {"sink_tokens": 2},
        {"sparsify": 0.1},
        {"rollout_layers": 2},
    ):
        turned = replace(config, **knobs)
        fresh = decoded(models, turned)
        (verdict,) = regate(event.trace, turned, evidence).verdicts
        assert verdict == fresh.units[0].verdict


def test_stopping_anywhere_leaves_the_run_as_if_it_had_never_been_stopped(models):
    config = replace(MIXED, max_steps=2)
    whole = decoded(models, config)
    polls = count_polls(models, config)
    assert polls > 20
    for at in range(0, polls, max(1, polls // 8)):
        brake, state = Brake(at), start(PROBLEM, models, config)
        stopped = 0
        while not isinstance(state, Finished):
            try:
                state, _ = advance(state, models, should_stop=brake)
            except Cancelled:
                stopped += 1
        assert (stopped, state.trace) == (1, whole)


@pytest.mark.case(23)
def test_two_runs_in_two_threads_stay_apart(models):
    questions = problems(2)
    alone = [decoded(models, MIXED, question) for question in questions]
    together = [None, None]

    def work(place):
        together[place] = decoded(models, MIXED, questions[place])

    threads = [threading.Thread(target=work, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


@pytest.mark.case(19)
def test_the_context_limit_is_met_in_the_middle_of_a_step_and_never_passed(models):
    n_prompt = len(start(PROBLEM, models, configured()).trace.prompt_ids)
    for threshold in (0.0, 1.01):
        small = replace(
            models,
            draft=Shortened(models.draft, n_prompt + 9),
            target=Shortened(models.target, n_prompt + 9),
        )
        trace = decoded(small, configured(threshold=threshold))
        assert len(trace.context_ids) == n_prompt + 9
        assert trace.finish.reason == "context_limit"


@pytest.mark.parametrize("knobs", [{"threshold": 0.0}, {"threshold": 1.01}, {}])
def test_readings_are_finite_and_within_their_ranges(models, knobs):
    trace = decoded(models, replace(MIXED, **knobs))
    for step in trace.units:
        for one in step.candidates:
            for token in one.tokens:
                assert token.logprob <= 0
                assert token.sampling_logprob <= 0
                assert token.entropy >= 0
                assert token.grounding is None or 0 <= token.grounding <= 0.875 + 1e-6
        assert {"confidence", "grounding", "agreement"} <= step.verdict.readings.keys()
        for reading in step.verdict.readings.values():
            assert 0 <= reading.normalised <= 1


class Brake:
    """Says stop at the n-th poll and never again."""

    def __init__(self, at):
        self.at, self.polls = at, 0

    def __call__(self):
        self.polls += 1
        return self.polls - 1 == self.at


def count_polls(models, config):
    brake = Brake(-1)
    list(decode(start(PROBLEM, models, config), models, should_stop=brake))
    return brake.polls


class Untouchable:
    """A model that must not be called."""

    def __init__(self, info):
        self.info = info

    def sample_steps(self, requests, **options):
        raise AssertionError("the target was asked to write")

    def read_steps(self, requests, **options):
        raise AssertionError("the target was asked to read")


class Shortened:
    """A model that says its context is shorter."""

    def __init__(self, model, context_length):
        self.info = replace(model.info, context_length=context_length)
        self.sample_steps, self.read_steps = model.sample_steps, model.read_steps

"""What proposing, selecting and verifying ask of the models and make of their answers, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from specguard_core.backends.scripted import ScriptedStep
from specguard_core.decoder.step import (
    AwaitingCommit,
    AwaitingSelection,
    AwaitingVerdict,
    advance,
    start,
)
from specguard_core.errors import NotMeasured, PairError
from specguard_core.grounding import entry_attribution
from specguard_core.seeding import seed_for
from specguard_core.types import (
    Bounds,
    Calibration,
    CalibrationTable,
)
from tests.builders import (
    PROBLEM,
    VOCABULARY,
    at,
    configured,
    overheard,
    pair,
    run,
    steps_after_nothing,
)

HALF = 0.5


# Proposing


def test_the_draft_is_asked_for_k_draws_each_with_a_seed_of_its_own_address():
    models = pair(overheard())
    config = configured(n_candidates=3, seed=7, draft_top_p=0.9, draft_top_k=5, max_step_tokens=9)
    state = start(PROBLEM, models, config)
    advance(replace(state, attempt=2), models)
    (request,) = models.draft.sampled
    name = state.trace.problem_id
    assert request.seeds == tuple(seed_for(7, name, 0, 0, slot, 2) for slot in range(3))
    assert request.prefix == state.trace.prompt_ids
    assert (request.temperature, request.top_p, request.top_k) == (0.7, 0.9, 5)
    assert (request.max_tokens, request.n_capture_layers) == (9, 3)
    assert (request.feed_boundary, request.want_hidden) == (False, True)


def test_the_seed_of_a_later_step_names_its_place():
    models = pair(overheard(steps_after_nothing("a.\n\n")))
    state = start(PROBLEM, models, configured(threshold=0.0, n_candidates=1))
    for _ in range(5):
        state, _ = advance(state, models)
    assert models.draft.sampled[1].seeds == (seed_for(0, state.trace.problem_id, 0, 1, 0, 0),)


def test_draft_only_drafts_one_step_greedily_and_captures_nothing():
    models = pair(overheard())
    advance(start(PROBLEM, models, configured(strategy="draft_only", n_candidates=8)), models)
    (request,) = models.draft.sampled
    assert (len(request.seeds), request.temperature, request.n_capture_layers) == (1, 0.0, 0)


def test_a_model_without_attention_is_not_asked_for_it():
    models = pair(overheard(grounding="Mamba has no attention"))
    trace = run(models, configured(weights={"confidence": 1.0}, threshold=0.0))
    assert models.draft.sampled[0].n_capture_layers == 0
    assert all(t.attribution is None for s in trace.units for t in s.output.tokens)
    assert set(trace.units[0].verdict.readings) == {"confidence", "agreement"}


@pytest.mark.case(1)
@pytest.mark.parametrize("name", ["grounding", "target_grounding"])
def test_grounding_of_a_model_without_attention_is_refused_at_the_start(name):
    blind = {"grounding": "Mamba has no attention"}
    models = pair(overheard(**blind), overheard(name="target", **blind))
    with pytest.raises(NotMeasured, match="Mamba has no attention"):
        start(PROBLEM, models, configured(weights={name: 0.1, "confidence": 0.9}))
    assert start(PROBLEM, models, configured(strategy="draft_only"))


def test_agreement_alone_with_one_draw_is_refused_at_the_start():
    with pytest.raises(NotMeasured, match="raise n_candidates"):
        start(PROBLEM, pair(), configured(weights={"agreement": 1.0}, n_candidates=1))
    both = {"agreement": 0.9, "confidence": 0.1}
    assert start(PROBLEM, pair(), configured(weights=both, n_candidates=1))


def test_a_missing_model_is_missed_at_the_start_and_only_where_it_is_called():
    for missing, needed_by in (("draft", "draft_only"), ("target", "target_only")):
        models = replace(pair(), **{missing: None})
        for strategy in ("specguard", needed_by):
            with pytest.raises(PairError, match=r"none is loaded|no draft model is loaded"):
                start(PROBLEM, models, configured(strategy=strategy))
    alone = replace(pair(), target=None)
    assert run(alone, configured(strategy="draft_only")).target is None
    assert run(replace(pair(), draft=None), configured(strategy="target_only")).draft is None


def test_equal_draws_are_one_candidate_that_knows_its_slots():
    models = pair(steps_after_nothing("a.\n\n", "b.\n\n"))
    state = at(AwaitingSelection, models, configured(n_candidates=5))
    assert [one.draws for one in state.candidates] == [(0, 2, 4), (1, 3)]
    assert state.cost.roles["draft_discarded"].tokens == 10


def test_a_greedy_draft_is_asked_once_and_counts_k_times():
    models = pair(overheard(steps_after_nothing("a.\n\n", "b.\n\n")))
    config = configured(
        draft_temperature=0.0,
        n_candidates=4,
        threshold=0.0,
        max_steps=1,
        weights={"agreement": 1.0},
    )
    step = run(models, config).units[0]
    assert len(models.draft.sampled[0].seeds) == 1
    assert [one.draws for one in step.candidates] == [(0, 1, 2, 3)]
    assert step.verdict.readings["agreement"].raw == 1.0
    assert step.cost.roles["draft_kept"].tokens == 2
    assert step.selection.chosen == 0


def test_what_was_drawn_is_what_is_recorded():
    logprobs = (-0.5, -1.0, -2.0)
    models = pair(steps_after_nothing("a1.\n\n", logprobs=logprobs))
    (one,) = at(AwaitingSelection, models, configured(n_candidates=1)).candidates
    assert one.token_ids == VOCABULARY.encode("a1.\n\n")
    assert [token.logprob for token in one.tokens] == list(logprobs)
    assert [token.entropy for token in one.tokens] == [0.5, 1.0, 2.0]
    assert [token.sampling_logprob for token in one.tokens] == [-0.25, -0.5, -1.0]
    assert all(len(token.alternatives) == 5 for token in one.tokens)
    assert (one.stop, one.origin) == ("delimiter", "sampled")


@pytest.mark.parametrize(
    ("text", "knobs", "n_measured"),
    [
        ("abc.\n\n", {}, 3),  # the delimiter's token was never a query
        ("abc", {}, 3),  # nor was EOS
        ("abc.\n\n", {"include_boundary_token": True}, 4),
        ("abcdef", {"max_step_tokens": 4}, 4),  # a limit: the last token is fed once
        ("", {}, 1),  # EOS alone is fed once
    ],
)
def test_tokens_that_were_queries_are_attributed_to_the_segments(text, knobs, n_measured):
    models = pair(steps_after_nothing(text))
    config = configured(n_candidates=1, **knobs)
    state = at(AwaitingSelection, models, config)
    (one,) = state.candidates
    measured = [token.attribution is not None for token in one.tokens]
    assert measured == [i < n_measured for i in range(len(one.tokens))]
    n_segments = len(state.trace.prompt_segments)
    assert all(len(t.attribution) == n_segments for t in one.tokens[:n_measured])
    assert (len(one.heatmap.scales), one.heatmap.n_context) == (
        n_measured,
        len(state.trace.prompt_ids),
    )


def test_grounding_by_hand_is_the_share_that_three_halved_layers_send_back():
    # Each row puts 0.8 on the context and 0.2 on itself; half of it stays where it is, so that
    # 0.4 enters at each of three layers of what has not yet entered: 1 - 0.6 ** 3.
    models = pair(steps_after_nothing("ab.\n\n", context_share=0.8))
    config = configured(n_candidates=1, sparsify=0.0)
    (one,) = at(AwaitingSelection, models, config).candidates
    assert one.tokens[0].grounding == pytest.approx(1 - 0.6**3, abs=1e-6)
    plain = replace(config, residual=False, rollout_layers=1)
    (one,) = at(AwaitingSelection, models, plain).candidates
    assert one.tokens[0].grounding == pytest.approx(0.8, abs=1e-6)


def test_the_rows_of_an_event_are_those_the_attribution_came_from():
    models, config = pair(), configured(rollout_layers=2, n_candidates=3)
    _, event = advance(start(PROBLEM, models, config), models)
    n = len(event.context_ids)
    for one, rows in zip(event.candidates, event.attention, strict=True):
        m = sum(token.attribution is not None for token in one.tokens)
        assert rows.shape == (2, len(one.tokens), n + len(one.tokens))
        entered = entry_attribution(
            rows[:, :m, : n + m], n, sparsify=0.01, renormalise=True, residual=True, sink_tokens=0
        )
        grounding = [token.grounding for token in one.tokens[:m]]
        assert grounding == pytest.approx(entered.sum(axis=1).tolist(), abs=1e-12)


def test_a_later_step_is_attributed_to_the_step_before_it():
    models = pair({"": (ScriptedStep("a.\n\n"),), "a.\n\n": (ScriptedStep("b"),)})
    trace = run(models, configured(threshold=0.0, n_candidates=1))
    n_segments = len(trace.prompt_segments)
    assert [len(s.output.tokens[0].attribution) for s in trace.units] == [
        n_segments,
        n_segments + 1,
    ]


# Selecting


def test_the_medoid_of_the_draws_is_chosen_and_every_method_is_recorded():
    texts = ("3 + 4 = 7 pens.\n\n", "So 3 + 4 = 7 pens.\n\n", "9 apples.\n\n")
    models = pair(steps_after_nothing(*texts))
    state = at(AwaitingVerdict, models, configured(n_candidates=3))
    assert state.selection.chosen in (0, 1)
    assert {"lexical", "numeric", "hidden"} <= state.selection.similarity.keys()
    heatmaps = [one.heatmap is not None for one in state.candidates]
    assert heatmaps == [i == state.selection.chosen for i in range(3)]


def test_a_single_draw_needs_no_selection():
    models = pair()
    step = run(models, configured(n_candidates=1, threshold=0.0, max_steps=1)).units[0]
    assert step.selection is None
    assert step.chosen == step.candidates[0] == step.output
    assert "agreement" not in step.verdict.readings


def test_ties_go_to_the_likelier_candidate():
    script = {"": (ScriptedStep("ab.\n\n", -2.0), ScriptedStep("cd.\n\n", -0.5))}
    state = at(AwaitingVerdict, pair(script), configured(n_candidates=2))
    assert state.selection.chosen == 1


def test_hidden_similarity_comes_from_the_draft():
    models = pair()
    state = at(AwaitingVerdict, models, configured(n_candidates=4, selection_method="hidden"))
    matrix = np.array(state.selection.similarity["hidden"])
    assert matrix.shape == (len(state.candidates),) * 2
    assert np.array_equal(matrix, matrix.T)


# Verifying


def test_the_target_is_not_asked_where_no_reading_of_it_carries_weight():
    models = pair()
    at(AwaitingCommit, models, configured(weights={"target_confidence": 0.0, "confidence": 1.0}))
    assert models.target.n_calls == 0


def test_the_target_reads_the_chosen_step_once_and_its_reading_is_costed():
    models = pair(target=overheard(name="target"))
    config = configured(weights={"target_confidence": 0.5, "target_grounding": 0.5}, n_candidates=4)
    state = at(AwaitingCommit, models, config)
    (request,) = models.target.read
    chosen = state.candidates[state.selection.chosen]
    assert request.prefix == state.trace.context_ids
    assert request.token_ids == chosen.token_ids
    assert request.n_capture_layers == config.rollout_layers
    read = [t.target_logprob is not None for one in state.candidates for t in one.tokens]
    assert sum(read) == len(chosen.tokens)
    assert all(t.target_grounding is not None for t in chosen.tokens)
    m = len(chosen.tokens)
    assert state.cost.roles["verification"].tokens == m
    assert (state.cost.target_passes, state.cost.target_positions) == (1, m)
    assert state.verdict.readings["target_confidence"].raw == min(
        t.target_logprob for t in chosen.tokens[:-1]
    )


def test_the_target_captures_attention_only_where_its_grounding_carries_weight():
    models = pair(target=overheard(name="target"))
    state = at(AwaitingCommit, models, configured(weights={"target_confidence": 1.0}))
    assert models.target.read[0].n_capture_layers == 0
    assert "target_grounding" not in state.verdict.readings


def test_normalising_among_candidates_reads_all_of_them():
    models = pair(target=overheard(name="target"))
    config = configured(
        weights={"target_confidence": 1.0}, normalisation="candidates", n_candidates=4
    )
    state = at(AwaitingCommit, models, config)
    assert [r.token_ids for r in models.target.read] == [c.token_ids for c in state.candidates]
    n_tokens = sum(len(one.tokens) for one in state.candidates)
    assert state.cost.roles["verification"].tokens == n_tokens
    assert state.cost.target_passes == len(state.candidates)


def test_a_step_the_target_read_and_refused_costs_both():
    models = pair()
    config = configured(weights={"target_confidence": 1.0}, threshold=1.01, max_steps=1)
    step = run(models, config).units[0]
    read, written = len(step.chosen.tokens), len(step.written.tokens)
    assert step.cost.target_passes == 1 + written
    assert step.cost.target_positions == read + written
    assert step.cost.roles["target_written"].tokens == written


def test_a_calibration_travels_with_the_trace_and_is_used():
    knobs = {"signal_tokens": "all", "include_boundary_token": False}
    calibration = Calibration(
        "pair", 1, 1, (CalibrationTable(knobs, {"confidence": Bounds(-4.0, -1.0)}),)
    )
    script = steps_after_nothing("a.\n\n", logprobs=-2.5)
    config = configured(weights={"confidence": 1.0}, threshold=HALF, n_candidates=1, max_steps=1)
    trace = run(pair(script), config, calibration=calibration)
    assert trace.calibration == calibration
    reading = trace.units[0].verdict.readings["confidence"]
    assert (reading.basis, reading.normalised) == ("calibrated", 0.5)
    assert trace.units[0].outcome.source == "draft"

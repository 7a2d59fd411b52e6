"""What one transition asks of the models and makes of their answers, by hand."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from specguard_core.backends.scripted import EOS, ScriptedModel, ScriptedStep
from specguard_core.decoder.step import (
    AwaitingCommit,
    AwaitingDraft,
    AwaitingSelection,
    AwaitingVerdict,
    advance,
    start,
)
from specguard_core.errors import NotMeasured, PairError, UsageError
from specguard_core.grounding import entry_attribution
from specguard_core.seeding import seed_for
from specguard_core.types import (
    Bounds,
    Calibration,
    CalibrationTable,
    Candidate,
    Outcome,
    TokenSignal,
)
from tests.builders import PROBLEM, VOCABULARY, configured, pair, run, scripted, scripted_info

HALF = 0.5


@dataclass(slots=True)
class Overheard(ScriptedModel):
    """A scripted model that keeps the requests it was asked."""

    sampled: list = field(default_factory=list)
    read: list = field(default_factory=list)

    def sample_steps(self, requests, **options):
        self.sampled += requests
        return ScriptedModel.sample_steps(self, requests, **options)

    def read_steps(self, requests, **options):
        self.read += requests
        return ScriptedModel.read_steps(self, requests, **options)


def overheard(script=None, name="draft", **info):
    return Overheard(script or {}, info=replace(scripted_info(name), **info))


def at(kind, models, config):
    """The first state of that kind."""
    state = start(PROBLEM, models, config)
    while not isinstance(state, kind):
        state, _ = advance(state, models)
    return state


def steps_after_nothing(*texts, **fields):
    return {"": tuple(ScriptedStep(text, **fields) for text in texts)}


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


# Falling back


def test_the_target_writes_the_whole_step_from_the_context():
    models = pair(steps_after_nothing("a.\n\n"), overheard(steps_after_nothing("b.\n\n"), "target"))
    step = run(models, configured(threshold=1.01, max_steps=1)).units[0]
    (request,) = models.target.sampled
    assert (request.temperature, request.top_p, request.top_k) == (0.0, 1.0, 0)
    assert step.output.token_ids == VOCABULARY.encode("b.\n\n")
    assert step.output == step.written
    assert step.written.draws == ()
    assert step.chosen.token_ids == VOCABULARY.encode("a.\n\n")


def test_the_targets_samples_give_their_medoid_and_all_of_them_are_counted():
    texts = ("3 + 4 = 7 pens.\n\n", "9 apples.\n\n", "So 3 + 4 = 7 pens.\n\n")
    target = overheard(steps_after_nothing(*texts), "target")
    config = configured(
        strategy="target_only", target_samples=3, target_temperature=0.7, max_steps=1
    )
    step = run(pair(target=target), config).units[0]
    assert len(set(target.sampled[0].seeds)) == 3
    assert step.written.token_ids != VOCABULARY.encode(texts[1])
    n_tokens = sum(len(VOCABULARY.encode(text)) for text in texts)
    assert step.cost.roles["target_written"].tokens == n_tokens


def test_a_step_the_target_samples_more_often_is_its_medoid():
    target = scripted(steps_after_nothing("ab.\n\n", "xy.\n\n", "xy.\n\n"), "target")
    config = configured(
        strategy="target_only", target_samples=3, target_temperature=0.7, max_steps=1
    )
    step = run(pair(target=target), config).units[0]
    assert step.written.token_ids == VOCABULARY.encode("xy.\n\n")


@pytest.mark.parametrize("method", ["lexical", "numeric", "hidden"])
def test_the_targets_samples_are_selected_as_the_drafts_are(method):
    config = configured(
        threshold=1.01,
        target_samples=4,
        target_temperature=0.7,
        selection_method=method,
        max_steps=2,
    )
    assert len(run(pair(), config).units) == 2


def test_greedy_samples_of_the_target_are_one():
    target = overheard(name="target")
    run(pair(target=target), configured(strategy="target_only", target_samples=5, max_steps=1))
    assert len(target.sampled[0].seeds) == 1


def test_the_targets_seeds_are_never_the_drafts():
    models = pair(overheard(), overheard(name="target"))
    config = configured(threshold=1.01, target_temperature=0.7, target_samples=64, max_steps=3)
    run(models, replace(config, n_candidates=64))
    drafted = {seed for request in models.draft.sampled for seed in request.seeds}
    written = {seed for request in models.target.sampled for seed in request.seeds}
    assert not drafted & written


# Costs


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.01])
def test_what_was_drafted_is_either_kept_or_discarded(threshold):
    models = pair()
    trace = run(models, configured(threshold=threshold, n_candidates=4, max_steps=5))
    for step in trace.units:
        drafted = sum(len(one.tokens) * len(one.draws) for one in step.candidates)
        tokens = {role: cost.tokens for role, cost in step.cost.roles.items()}
        kept = len(step.output.tokens) if step.outcome.source == "draft" else 0
        assert tokens.get("draft_kept", 0) == kept
        assert tokens["draft_discarded"] == drafted - kept
        written = 0 if step.written is None else len(step.written.tokens)
        assert tokens.get("target_written", 0) == written
        assert step.cost.target_positions == written
    assert trace.cost.target_positions == sum(s.cost.target_positions for s in trace.units)
    assert trace.cost.roles["draft_discarded"].tokens == sum(
        s.cost.roles["draft_discarded"].tokens for s in trace.units
    )


def test_time_is_shared_between_what_was_kept_and_what_was_not():
    models = pair(steps_after_nothing("a.\n\n", "bcd.\n\n"))
    state = at(AwaitingSelection, models, configured(n_candidates=2, threshold=0.0))
    spent = state.cost.roles["draft_discarded"]
    timed = replace(state.cost, roles={"draft_discarded": replace(spent, milliseconds=60.0)})
    committed = replace(state, cost=timed)
    for _ in range(3):
        committed, event = advance(committed, models)
    roles = event.step.cost.roles
    kept = len(event.step.output.tokens)
    assert roles["draft_kept"].milliseconds == pytest.approx(60.0 * kept / 6)
    both = roles["draft_kept"].milliseconds + roles["draft_discarded"].milliseconds
    assert both == pytest.approx(60.0)


def test_selection_and_verification_are_timed_by_the_clock_given():
    ticks = iter(range(1000))
    models = replace(pair(), clock=lambda: float(next(ticks)))
    step = run(models, configured(threshold=0.0, max_steps=1)).units[0]
    assert step.cost.roles["selection"].milliseconds == 1000.0
    assert step.cost.roles["verification"].milliseconds == 1000.0


def test_target_only_costs_no_draft():
    trace = run(pair(), configured(strategy="target_only", max_steps=3))
    roles = trace.cost.roles
    assert {role for role, cost in roles.items() if cost.tokens} == {"target_written"}
    assert all(step.candidates == () and step.verdict is None for step in trace.units)


# Plans that a person forced


def forced(models, config, source, written=None):
    """The event that commits a plan in place of the rule's."""
    state = at(AwaitingCommit, models, config)
    return advance(replace(state, plan=Outcome(source, forced=True), written=written), models)


def test_a_refused_step_may_be_accepted_by_hand():
    models = pair()
    state, event = forced(models, configured(threshold=1.01), "draft")
    assert models.target.n_calls == 0
    assert not event.step.verdict.accepted
    assert (event.step.outcome.source, event.step.outcome.forced) == ("draft", True)
    assert event.step.output == event.step.chosen
    assert event.step.cost.roles["draft_kept"].tokens == len(event.step.output.tokens)
    assert state.trace.units == (event.step,)


def test_an_accepted_step_may_be_refused_by_hand():
    models = pair()
    _, event = forced(models, configured(threshold=0.0), "target")
    assert event.step.verdict.accepted
    assert event.step.output == event.step.written
    refused = run(models, configured(threshold=1.01, max_steps=1)).units[0]
    assert event.step.written == refused.written


def test_a_step_may_be_edited_by_hand():
    models = pair()
    config = configured(threshold=0.0)
    ids = models.vocabulary.encode("5 + 4 = 9 pens.\n\n")
    edit = Candidate(tuple(map(TokenSignal, ids)), "delimiter", "retokenised")
    state, event = forced(models, config, "edited", edit)
    assert isinstance(state, AwaitingDraft)
    assert event.step.output == edit
    assert state.trace.text == "5 + 4 = 9 pens.\n\n"
    assert set(ids) <= state.trace.pieces.keys()
    assert models.target.n_calls == 0
    drafted = sum(len(one.tokens) * len(one.draws) for one in event.step.candidates)
    assert event.step.cost.roles["draft_discarded"].tokens == drafted
    assert "draft_kept" not in event.step.cost.roles
    following, _ = advance(state, models)
    n_segments = len(state.trace.prompt_segments)
    assert len(following.candidates[0].tokens[0].attribution) == n_segments + 1


def test_an_edit_that_closes_the_answer_ends_the_run():
    models = pair()
    ids = models.vocabulary.encode("\\boxed{9}.\n\n")
    edit = Candidate(tuple(map(TokenSignal, ids)), "delimiter", "retokenised")
    state, event = forced(models, configured(), "edited", edit)
    assert (event.finish.reason, state.trace.finish.answer) == ("answer", "9")


def test_an_edit_longer_than_the_context_is_refused_and_one_that_fills_it_ends_the_run():
    n_prompt = len(start(PROBLEM, pair()).trace.prompt_ids)
    small = {"context_length": n_prompt + 4}
    models = pair(overheard(**small), overheard(name="target", **small))
    tokens = tuple(map(TokenSignal, models.vocabulary.encode("12345")))
    with pytest.raises(UsageError, match="at most 4 tokens"):
        forced(models, configured(), "edited", Candidate(tokens, "step_limit", "retokenised"))
    fitting = Candidate(tokens[:4], "step_limit", "retokenised")
    _, event = forced(models, configured(), "edited", fitting)
    assert event.finish.reason == "context_limit"


def test_an_edit_without_its_step_and_a_step_without_an_edit_are_refused():
    models = pair()
    with pytest.raises(ValueError, match="written step"):
        forced(models, configured(), "edited")
    spare = run(models, configured(max_steps=1, threshold=0.0)).units[0].output
    with pytest.raises(ValueError, match="written step"):
        forced(models, configured(threshold=0.0), "draft", spare)


def test_a_fallback_may_be_forced_where_the_strategy_never_calls_the_target():
    models = pair(target=scripted(steps_after_nothing("b.\n\n"), "target"))
    _, event = forced(models, configured(strategy="draft_only"), "target")
    assert event.step.output.token_ids == VOCABULARY.encode("b.\n\n")
    alone = replace(models, target=None)
    with pytest.raises(PairError, match="none is loaded"):
        forced(alone, configured(strategy="draft_only"), "target")


def test_nothing_can_be_accepted_where_nothing_was_proposed():
    with pytest.raises(ValueError, match="got none"):
        forced(pair(), configured(strategy="target_only"), "draft")


def test_a_forced_step_leaves_the_verdict_as_it_was_given():
    models = pair()
    refused = at(AwaitingCommit, models, configured(threshold=1.01))
    _, event = forced(models, configured(threshold=1.01), "draft")
    assert event.step.verdict == refused.verdict


def test_eos_in_a_kept_step_is_kept_as_a_token():
    trace = run(pair(steps_after_nothing("a")), configured(threshold=0.0))
    assert trace.units[0].output.token_ids[-1] == EOS

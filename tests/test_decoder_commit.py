"""What is kept of a step, by hand: the fallback, its costs, and plans that a person forced."""

from dataclasses import replace

import pytest

from specguard_core.backends.scripted import EOS
from specguard_core.decoder.step import (
    AwaitingCommit,
    AwaitingDraft,
    AwaitingSelection,
    advance,
    start,
)
from specguard_core.errors import PairError, UsageError
from specguard_core.types import (
    Candidate,
    Outcome,
    TokenSignal,
)
from tests.builders import (
    PROBLEM,
    VOCABULARY,
    at,
    configured,
    overheard,
    pair,
    run,
    scripted,
    steps_after_nothing,
)

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

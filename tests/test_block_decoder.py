"""The block decoder: the target's own text, and caches that hold what they must."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from specguard_core.backends.block import MAX_LINES
from specguard_core.backends.distributions import processed
from specguard_core.block_requests import DraftRequest, JudgeRequest, Sampling
from specguard_core.decoder.states import AwaitingBlock, Finished, resume, rewound
from specguard_core.decoder.step import advance, advance_many, start
from specguard_core.errors import Cancelled, ModelError, PairError
from specguard_core.lm import Models
from specguard_core.metrics import block_accept_rate, tokens_per_block
from tests.block_models import (
    LONG,
    blocks,
    generated,
    random_model,
    random_pair,
)
from tests.builders import PROBLEM, run, trace_from

GREEDY = Sampling(0.0, 1.0, 0)

# The text is the target's


@pytest.mark.parametrize("gamma", [1, 4, 8])
@pytest.mark.parametrize("strategy", ["speculative", "easd"])
def test_greedy_text_is_what_the_target_writes_alone(strategy, gamma):
    models = random_pair()
    alone = run(models, blocks(strategy="target_only", max_new_tokens=60, **LONG))
    config = blocks(strategy=strategy, gamma=gamma, max_new_tokens=60, **LONG)
    trace = run(models, config)
    assert generated(trace) == generated(alone)
    assert trace.finish == alone.finish
    assert 0 < block_accept_rate([trace]) < 1


@pytest.mark.case(5, 6)
@pytest.mark.parametrize("gamma", [1, 4, 8])
def test_a_draft_equal_to_its_target_is_accepted_whole_for_300_rounds(gamma):
    """The bonus token reaches the draft's cache, and nothing in it is stale."""
    models = random_pair(noise=0.0)
    n_tokens = 300 * (gamma + 1)
    trace = run(models, blocks(gamma=gamma, max_new_tokens=n_tokens, **LONG))
    assert len(trace.blocks) == 300
    assert all(block.n_accepted == gamma for block in trace.blocks)
    assert {block.correction.kind for block in trace.blocks} == {"bonus"}
    assert (block_accept_rate([trace]), tokens_per_block([trace])) == (1.0, gamma + 1)


def test_a_sampled_draft_equal_to_its_target_is_accepted_too():
    models = random_pair(noise=0.0)
    knobs = {"target_temperature": 1.0, "target_top_p": 0.9, "target_top_k": 50}
    trace = run(models, blocks(gamma=4, max_new_tokens=150, **knobs, **LONG))
    assert block_accept_rate([trace]) == 1.0


def test_a_block_takes_one_target_pass_over_its_tokens_and_the_one_before():
    trace = run(random_pair(), blocks(gamma=4, max_new_tokens=40, **LONG))
    for block in trace.blocks[1:]:
        assert block.cost.target_passes == 1
        assert block.cost.target_positions == len(block.drafted) + 1


@pytest.mark.case(9)
def test_padded_vocabularies_of_one_tokenizer_make_a_pair():
    """Ids beyond the tokenizer's are never drafted, kept or counted."""
    target = random_model(vocabulary_size=384)
    models = Models(target.vocabulary, random_model(vocabulary_size=320), target)
    for temperature in (0.0, 5.0):
        config = blocks(gamma=3, max_new_tokens=40, target_temperature=temperature, **LONG)
        trace = run(models, config)
        assert max(i for block in trace.blocks for i in (*block.drafted, *block.token_ids)) < 300


@pytest.mark.case(16)
def test_a_draft_of_other_ids_is_refused():
    """Tokenizers are compared at load; ids that do not match are refused here too."""
    models = replace(random_pair(), draft=random_model(vocabulary_size=280))
    with pytest.raises(PairError, match="same ids"):
        run(models, blocks(target_temperature=1.0, max_new_tokens=9))


@pytest.mark.case(17)
@pytest.mark.parametrize(
    "knobs", [{"target_temperature": 1e-4}, {"target_temperature": 1, "target_top_p": 1e-4}]
)
def test_extreme_settings_are_greedy(knobs):
    models = random_pair()
    greedy = run(models, blocks(max_new_tokens=20, **LONG))
    assert generated(run(models, blocks(max_new_tokens=20, **knobs, **LONG))) == generated(greedy)


@pytest.mark.case(14)
def test_sampled_blocks_follow_the_target_through_decoder_and_caches():
    """Chi-square of the first two tokens of 400 runs, two likeliest tokens each."""
    models = random_pair(noise=0.5)
    config = blocks(gamma=2, max_new_tokens=2, target_temperature=1.5, target_top_k=2)
    state = start(PROBLEM, models, config)
    seen = Counter()
    for seed in range(400):
        trace = replace(state.trace, config=replace(config, seed=seed))
        seen[generated(trace_from(AwaitingBlock(trace), models))] += 1

    def row(ids):
        logits = models.target._engine.model(input_ids=torch.tensor([ids])).logits[0, -1:]
        return processed(logits.float(), Sampling(1.5, 1.0, 2))[0]

    prefix = state.trace.context_ids
    chances = {
        (a, b): float(row(prefix)[a] * row((*prefix, a))[b])
        for a in row(prefix).nonzero().flatten().tolist()
        for b in row((*prefix, a)).nonzero().flatten().tolist()
    }
    assert len(chances) == 4
    assert seen.keys() <= chances.keys()
    assert sum((seen[pair] - 400 * c) ** 2 / (400 * c) for pair, c in chances.items()) < 16.3


# Caches


def next_draft(model, prefix, n_tokens=4):
    return model.draft_blocks([DraftRequest(prefix, n_tokens, 0, GREEDY, 0)])[0].token_ids


@pytest.mark.case(6)
def test_rounds_without_drafting_leave_nothing_stale():
    """The target writes first, then the draft goes on as one that read it all afresh."""
    models = random_pair()
    prefix = start(PROBLEM, models, blocks()).trace.context_ids
    next_draft(models.draft, prefix)
    for _ in range(5):
        request = JudgeRequest(prefix, None, 0, GREEDY, "speculative", None)
        (judged,) = models.target.judge_blocks([request])
        assert (judged.decisions, judged.correction.kind) == ((), "bonus")
        prefix += (judged.correction.token_id,)
    assert next_draft(models.draft, prefix) == next_draft(random_model(0.3), prefix)


def test_runs_that_take_turns_do_not_disturb_each_other():
    models = random_pair()
    config = blocks(gamma=3, max_new_tokens=25, **LONG)
    problems = [f"{PROBLEM} {number}" for number in range(MAX_LINES + 2)]
    states = [start(problem, models, config) for problem in problems]
    alone = [trace_from(state, random_pair()) for state in states]
    while not all(isinstance(state, Finished) for state in states):
        running = [i for i, state in enumerate(states) if not isinstance(state, Finished)]
        moved = advance_many([states[i] for i in running], models)
        for i, (state, _) in zip(running, moved, strict=True):
            states[i] = state
    assert [generated(state.trace) for state in states] == [generated(trace) for trace in alone]


def test_undo_and_branches_go_on_as_the_first_time():
    models = random_pair()
    config = blocks(gamma=3, max_new_tokens=30, target_temperature=0.8, **LONG)
    whole = run(models, config)
    for n_blocks in (0, 1, len(whole.blocks) - 1, 2):
        state = resume(rewound(whole, n_blocks))
        assert isinstance(state, AwaitingBlock)
        again = trace_from(state, models)
        assert [block.drafted for block in again.blocks] == [b.drafted for b in whole.blocks]
        assert (again.context_ids, again.finish) == (whole.context_ids, whole.finish)
    assert resume(rewound(whole, len(whole.units))) == Finished(whole)


def test_a_redrawn_block_is_another_and_a_rerun_the_same():
    models = random_pair()
    config = blocks(gamma=4, max_new_tokens=30, target_temperature=2.0, **LONG)
    state = start(PROBLEM, models, config)
    first, again, redrawn = (
        advance(AwaitingBlock(state.trace, attempt), models)[1].block for attempt in (0, 0, 1)
    )
    assert (first.drafted, first.token_ids) == (again.drafted, again.token_ids)
    assert (first.drafted, first.attempt) != (redrawn.drafted, redrawn.attempt)
    assert redrawn.attempt == 1


def test_a_stopped_block_leaves_the_run_as_it_was():
    models = random_pair()
    config = blocks(gamma=4, max_new_tokens=30, **LONG)
    whole = run(models, config)
    state = resume(rewound(whole, 2))
    for n_polls in (0, 1, 3, 4):
        left = iter([False] * n_polls)
        with pytest.raises(Cancelled):
            advance(state, models, should_stop=lambda left=left: next(left, True))
    assert trace_from(state, models) == whole


def test_a_block_beyond_the_context_is_refused_by_the_model():
    model = random_model(n_positions=64)
    with pytest.raises(ModelError, match="64 tokens together, got 62 and 3"):
        next_draft(model, tuple(range(5, 67)), 3)

"""The block decoder: the target's own text, stops inside a block, caches that hold what they
must."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core.backends.block import MAX_LINES
from specguard_core.backends.distributions import processed
from specguard_core.backends.scripted import EOS
from specguard_core.blocks import Block, Correction, Decision
from specguard_core.decoder.block import next_gamma
from specguard_core.decoder.states import AwaitingBlock, Finished, resume, rewound
from specguard_core.decoder.step import advance, advance_many, decode, start
from specguard_core.entropies import with_entropies, writes_blocks
from specguard_core.errors import Cancelled, ConfigError, ModelError, PairError, TraceFileError
from specguard_core.events import BlockCommitted
from specguard_core.lm import DraftRequest, JudgeRequest, Models, Sampling
from specguard_core.metrics import block_accept_rate, tokens_per_block
from specguard_core.problem_files import FileProblem
from specguard_core.trace_io import from_json, to_json
from specguard_core.types import Calibration
from tests.block_models import line_pair, random_model, random_pair
from tests.builders import PROBLEM, configured, pair, trace_from

GREEDY = Sampling(0.0, 1.0, 0)
LONG = {"max_steps": 10_000, "repeat_limit": 1_000, "max_step_tokens": 100_000}


def blocks(**knobs):
    return configured(**({"strategy": "speculative", "system_prompt": "x"} | knobs))


def run(models, config):
    return trace_from(start(PROBLEM, models, config), models)


def decisions_of(*traces):
    return [d for trace in traces for block in trace.blocks for d in block.decisions]


def generated(trace):
    return trace.context_ids[len(trace.prompt_ids) :]


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


@pytest.mark.parametrize("gamma", [1, 4, 8])
def test_a_draft_equal_to_its_target_is_accepted_whole_for_300_rounds(gamma):
    """CASES 5 and 6: the bonus token reaches the draft's cache, and nothing in it is stale."""
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


def test_padded_vocabularies_of_one_tokenizer_make_a_pair():
    """CASES 9: ids beyond the tokenizer's are never drafted, kept or counted."""
    target = random_model(vocabulary_size=384)
    models = Models(target.vocabulary, random_model(vocabulary_size=320), target)
    for temperature in (0.0, 5.0):
        config = blocks(gamma=3, max_new_tokens=40, target_temperature=temperature, **LONG)
        trace = run(models, config)
        assert max(i for block in trace.blocks for i in (*block.drafted, *block.token_ids)) < 300


def test_a_draft_of_other_ids_is_refused():
    """CASES 16: tokenizers are compared at load; ids that do not match are refused here too."""
    models = replace(random_pair(), draft=random_model(vocabulary_size=280))
    with pytest.raises(PairError, match="same ids"):
        run(models, blocks(target_temperature=1.0, max_new_tokens=9))


@pytest.mark.parametrize(
    "knobs", [{"target_temperature": 1e-4}, {"target_temperature": 1, "target_top_p": 1e-4}]
)
def test_extreme_settings_are_greedy(knobs):
    """CASES 17."""
    models = random_pair()
    greedy = run(models, blocks(max_new_tokens=20, **LONG))
    assert generated(run(models, blocks(max_new_tokens=20, **knobs, **LONG))) == generated(greedy)


def test_sampled_blocks_follow_the_target_through_decoder_and_caches():
    """CASES 14: chi-square of the first two tokens of 400 runs, two likeliest tokens each."""
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


def test_rounds_without_drafting_leave_nothing_stale():
    """CASES 6: the target writes first, then the draft goes on as one that read it all afresh."""
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


# Stops

TEXT = "2 + 3 = 5 apples"


def prompt_length():
    return len(start(PROBLEM, pair(), blocks(strategy="draft_only")).trace.prompt_ids)


def said(text, draft_text=None, *, context_length=4096, **knobs):
    models = line_pair(text, draft_text, n_prompt=prompt_length(), context_length=context_length)
    trace = run(models, blocks(**knobs))
    return trace, models


@pytest.mark.parametrize("gamma", [1, 2, 3, 5, 8, 64])
def test_eos_inside_a_block_ends_it_and_drops_what_follows(gamma):
    trace, _ = said(TEXT, gamma=gamma)
    assert (trace.text, trace.finish.reason) == (TEXT, "eos")
    assert generated(trace)[-1] == EOS
    assert generated(trace).count(EOS) == 1
    last = trace.blocks[-1]
    assert last.ended_by_eos
    assert not any(block.ended_by_eos for block in trace.blocks[:-1])
    if gamma == 64:
        words = [decision.outcome for decision in last.decisions]
        n_kept = len(last.token_ids)
        assert words == ["accepted"] * n_kept + ["dropped"] * (64 - n_kept)
        assert last.correction is None


@pytest.mark.parametrize("gamma", [1, 4, 7])
def test_a_refused_eos_ends_nothing(gamma):
    trace, _ = said(TEXT, "2 + 3", gamma=gamma)
    assert (trace.text, trace.finish.reason) == (TEXT, "eos")


@pytest.mark.parametrize("gamma", [1, 3, 8])
def test_a_closed_answer_ends_the_run_with_its_step_as_under_target_only(gamma):
    """CASES 18: the delimiter may be one token or two."""
    for end in (".\n\n", "\n\n"):
        trace, _ = said("So 5.\n\nIt is \\boxed{5}" + end + "And more.\n\n", gamma=gamma)
        assert trace.text == "So 5.\n\nIt is \\boxed{5}" + end
        assert (trace.finish.reason, trace.finish.answer) == ("answer", "5")


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("limit", [1, 2, 5, 6, 11])
def test_the_token_budget_is_met_to_the_token(limit, gamma):
    trace, models = said("x" * 50, gamma=gamma, max_new_tokens=limit)
    assert (len(generated(trace)), trace.finish.reason) == (limit, "max_new_tokens")
    if limit == 1:
        assert (trace.blocks[0].drafted, models.draft.asked) == ((), [])


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("room", [1, 2, 7])
def test_the_context_limit_is_never_passed(room, gamma):
    """CASES 19."""
    limit = prompt_length() + room
    trace, _ = said("x" * 50, gamma=gamma, context_length=limit)
    assert (len(trace.context_ids), trace.finish.reason) == (limit, "context_limit")


def test_steps_are_counted_as_under_target_only():
    trace, _ = said("a.\n\nb.\n\nc.\n\n", gamma=8, max_steps=2)
    assert (trace.text, trace.finish.reason) == ("a.\n\nb.\n\n", "max_steps")
    trace, _ = said("a.\n\n" * 9, gamma=5)
    assert (trace.text, trace.finish.reason) == ("a.\n\n" * 3, "repeated_steps")


@given(
    st.lists(st.sampled_from(["a", "b.\n\n", "\n", "\\boxed{1}", " "]), min_size=1, max_size=12),
    st.integers(1, 9),
    st.booleans(),
    st.integers(1, 30),
)
@settings(max_examples=60)
def test_blocks_of_any_size_end_where_blocks_of_one_token_end(parts, gamma, adaptive, limit):
    text = "".join(parts)
    one, _ = said(text, gamma=1, max_new_tokens=limit, max_step_tokens=4)
    many, _ = said(
        text, gamma=gamma, adaptive_gamma=adaptive, max_new_tokens=limit, max_step_tokens=4
    )
    assert (generated(one), one.finish) == (generated(many), many.finish)


# Gamma


def test_adaptive_gamma_grows_by_two_after_a_whole_block_and_shrinks_by_one():
    trace, models = said(
        "x" * 40, "x" * 20 + "y" * 20, gamma=3, adaptive_gamma=True, max_new_tokens=40
    )
    assert models.draft.asked[:3] == [3, 5, 7]
    for before, block in pairwise(trace.blocks[:-1]):
        whole = before.n_accepted == len(before.drafted)
        assert len(block.drafted) == max(1, len(before.drafted) + (2 if whole else -1))


def test_gamma_stays_within_its_range():
    trace, _ = said("x" * 400, gamma=63, adaptive_gamma=True)
    assert next_gamma(rewound(trace, 1)) == 64
    trace, _ = said("x" * 400, "y" * 400, gamma=1, adaptive_gamma=True, max_new_tokens=9)
    assert {len(block.drafted) for block in trace.blocks[:-1]} == {1}


# Data


def test_a_block_trace_comes_back_from_json_and_its_pieces_cover_it():
    trace = run(random_pair(), blocks(strategy="easd", max_new_tokens=30, target_temperature=1.0))
    assert from_json(to_json(trace)) == trace
    assert {i for block in trace.blocks for i in block.drafted} <= trace.pieces.keys()
    assert (trace.steps, trace.units) == ((), trace.blocks)


def test_a_block_trace_that_was_changed_is_refused_with_the_place():
    data = to_json(run(random_pair(), blocks(max_new_tokens=12)))
    data["units"][1]["candidates"] = []
    with pytest.raises(TraceFileError, match=r"unknown key 'candidates' at units\.1"):
        from_json(data)
    data = to_json(run(random_pair(), blocks(max_new_tokens=12)))
    data["units"][0]["drafted"][-1] = 299
    with pytest.raises(TraceFileError, match="299 without its bytes"):
        from_json(data)


def test_entropy_bounds_are_percentiles_of_what_easd_measures():
    models = random_pair()
    problems = [FileProblem(str(number), f"{PROBLEM} {number}", "1") for number in range(2)]
    config = blocks(max_new_tokens=80, target_temperature=1.0, **LONG)
    measuring = replace(config, strategy="easd", easd_overlap=1.01)
    empty = Calibration("p", 3, 20, ())
    known = with_entropies(empty, problems, models, config).entropies
    traces = [
        trace_from(
            start(p.question, models, measuring, problem_id=p.problem_id),
            models,
        )
        for p in problems
    ]
    assert not any(d.outcome == "overridden" for d in decisions_of(*traces))
    entropies = [decision.target_entropy for decision in decisions_of(*traces)]
    below = sum(entropy <= known["target"] for entropy in entropies) / len(entropies)
    assert below == pytest.approx(0.85, abs=0.02)
    with pytest.raises(ConfigError, match="at least 100 drafted tokens"):
        with_entropies(empty, problems[:1], models, replace(config, max_new_tokens=4))
    assert writes_blocks(models)
    assert not writes_blocks(pair())


def test_easd_measures_both_entropies_and_the_overlap_and_speculative_does_not():
    models = random_pair()
    for strategy, measured in (("easd", True), ("speculative", False)):
        knobs = {"max_new_tokens": 20, "target_temperature": 1.0}
        trace = run(models, blocks(strategy=strategy, **knobs, **LONG))
        for decision in (d for block in trace.blocks for d in block.decisions):
            assert (decision.draft_entropy is not None) == measured
            assert (decision.target_entropy is not None) == measured
            assert (decision.overlap is not None) == measured


def test_easd_bounds_come_from_the_calibration_unless_fixed():
    models = random_pair(noise=0.05)
    low = Calibration("p", 1, 20, (), {"draft": 0.0, "target": 0.0})
    words = {}
    for bounds in ("calibrated", "fixed"):
        knobs = {"easd_overlap": 0.0, "easd_draft_entropy": 99.0, "easd_bounds": bounds}
        config = blocks(strategy="easd", target_temperature=1.0, max_new_tokens=20, **knobs, **LONG)
        trace = trace_from(start(PROBLEM, models, config, calibration=low), models)
        words[bounds] = {d.outcome for block in trace.blocks for d in block.decisions}
    assert "overridden" in words["calibrated"]
    assert "accepted" not in words["calibrated"]
    assert "overridden" not in words["fixed"]


def test_easd_that_finds_nothing_doubtful_is_speculative():
    models = random_pair()
    knobs = {"target_temperature": 1.0, "max_new_tokens": 40, **LONG}
    plain = run(models, blocks(**knobs))
    never = run(models, blocks(strategy="easd", easd_overlap=1.01, **knobs))
    assert generated(plain) == generated(never)


def test_every_block_is_one_event_and_the_last_one_finishes():
    models = random_pair()
    state = start(PROBLEM, models, blocks(max_new_tokens=12, **LONG))
    events = list(decode(state, models))
    assert all(isinstance(event, BlockCommitted) for event in events)
    assert [event.finish is not None for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1].trace.blocks == tuple(event.block for event in events)


def test_a_model_that_writes_steps_only_is_refused():
    with pytest.raises(PairError, match="writes whole steps only"):
        run(pair(), blocks())


YES = Decision(0.5, 0.5, 1.0, 0.3, "accepted")
NO = replace(YES, outcome="rejected")
GONE = replace(YES, outcome="dropped")
OWN = Correction(9, "corrected", 0.5)


def test_a_block_keeps_what_was_accepted_and_the_correction():
    block = Block(0, (1, 2, 3), (YES, NO), OWN, ended_by_eos=False)
    assert (block.token_ids, block.n_accepted, block.n_judged) == ((1, 9), 1, 2)
    ended = Block(0, (1, 2, 3), (YES, GONE), None, ended_by_eos=True)
    assert (ended.token_ids, ended.n_accepted, ended.n_judged) == ((1,), 1, 1)


@pytest.mark.parametrize(
    ("decisions", "correction"),
    [((NO, YES), OWN), ((YES,) * 4, OWN), ((NO,), None), ((YES, GONE), OWN), ((), None)],
)
def test_a_block_that_cannot_be_is_refused(decisions, correction):
    with pytest.raises(ValueError, match="expected"):
        Block(0, (1, 2, 3), decisions, correction, ended_by_eos=False)

"""Where blocks end: stops inside a block, limits to the token, and how long the next one is."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core.backends.scripted import EOS
from specguard_core.decoder.block import next_gamma
from specguard_core.decoder.states import rewound
from specguard_core.decoder.step import start
from tests.block_models import blocks, generated, line_pair
from tests.builders import PROBLEM, pair, run

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


@pytest.mark.case(18)
@pytest.mark.parametrize("gamma", [1, 3, 8])
def test_a_closed_answer_ends_the_run_with_its_step_as_under_target_only(gamma):
    """The delimiter may be one token or two."""
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


@pytest.mark.case(19)
@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("room", [1, 2, 7])
def test_the_context_limit_is_never_passed(room, gamma):
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


def test_a_block_that_the_draft_ended_early_shrinks_gamma_by_one_and_not_to_its_length():
    trace, _ = said("abcdefgh", "ab", gamma=5, adaptive_gamma=True)
    block = trace.blocks[0]
    assert block.drafted[2] == EOS and block.n_accepted == 2
    early = replace(block, drafted=block.drafted[:3])
    assert next_gamma(replace(rewound(trace, 1), units=(early,))) == 4


def test_gamma_stays_within_its_range():
    trace, _ = said("x" * 400, gamma=63, adaptive_gamma=True)
    assert next_gamma(rewound(trace, 1)) == 64
    trace, _ = said("x" * 400, "y" * 400, gamma=1, adaptive_gamma=True, max_new_tokens=9)
    assert {len(block.drafted) for block in trace.blocks[:-1]} == {1}

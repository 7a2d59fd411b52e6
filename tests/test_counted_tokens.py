"""From token signals to raw readings: which tokens count, and the least of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.readings import boundary_index, counted_tokens, measure
from tests.builders import PIECES, candidate, configured

LOGPROB = st.floats(-20, 0)


@pytest.mark.parametrize(
    ("one", "knobs", "counted"),
    [
        (candidate("abc\n\n"), {}, (0, 1, 2, 3)),
        (candidate("abc.\n\n"), {}, (0, 1, 2)),  # ".\n\n" is one token
        (candidate("abc"), {}, (0, 1, 2)),  # EOS
        (candidate("abc", stop="step_limit"), {}, (0, 1, 2)),
        (candidate("abc", stop="context_limit"), {}, (0, 1, 2)),
        (candidate("abc.\n\n"), {"include_boundary_token": True}, (0, 1, 2, 3)),
        (candidate("abc"), {"include_boundary_token": True}, (0, 1, 2, 3)),
        (candidate(""), {}, (0,)),  # nothing but EOS
        (candidate("x\n\n", stop="delimiter"), {}, (0, 1)),
        (candidate("a1b2\n\n"), {"signal_tokens": "numeric"}, (1, 3)),
        (candidate("ab\n\n"), {"signal_tokens": "numeric"}, (0, 1, 2)),
        (candidate("3 4", stop="step_limit"), {"signal_tokens": "numeric"}, (0, 1)),
        (candidate(""), {"signal_tokens": "numeric"}, (0,)),
        (candidate("a1+b=2\n\n"), {"signal_tokens": "equation"}, (1, 2, 4, 5)),
        (candidate("ab\n\n"), {"signal_tokens": "equation"}, (0, 1, 2)),
        (candidate("ab1+b=2\n\n"), {"signal_tokens": "setup"}, (0, 2, 3, 5, 6)),
        (candidate("ab\n\n"), {"signal_tokens": "setup"}, (0,)),
    ],
)
def test_tokens_that_count(one, knobs, counted):
    assert counted_tokens(one, configured(**knobs), PIECES) == counted


def test_a_digit_in_the_boundary_token_does_not_count():
    pieces = {0: b"so ", 1: b"2\n\n"}
    one = candidate("ab", stop="step_limit")
    tokens = tuple(replace(token, token_id=i) for i, token in enumerate(one.tokens))
    one = replace(one, tokens=tokens, stop="delimiter")
    assert counted_tokens(one, configured(signal_tokens="numeric"), pieces) == (0,)
    both = configured(signal_tokens="numeric", include_boundary_token=True)
    assert counted_tokens(one, both, pieces) == (1,)


def test_only_ascii_digits_are_digits():
    pieces = {0: "²".encode(), 1: "٣".encode(), 2: b"7"}
    one = candidate("abc", stop="step_limit")
    tokens = tuple(replace(token, token_id=i) for i, token in enumerate(one.tokens))
    one = replace(one, tokens=tokens)
    assert counted_tokens(one, configured(signal_tokens="numeric"), pieces) == (2,)


def test_the_boundary_is_the_last_token_of_a_step_that_ended_by_itself():
    assert boundary_index(candidate("ab.\n\n")) == 2
    assert boundary_index(candidate("ab")) == 2
    assert boundary_index(candidate("ab", stop="step_limit")) is None
    assert boundary_index(candidate("ab", stop="context_limit")) is None


@given(
    st.lists(LOGPROB, min_size=4, max_size=4),
    st.sampled_from(["all", "numeric", "equation", "setup"]),
)
def test_a_reading_is_the_least_value_over_the_counted_tokens(logprobs, signal_tokens):
    one = candidate("a1b2", logprobs, stop="step_limit")
    config = configured(signal_tokens=signal_tokens)
    value, weakest = measure("confidence", one, config, PIECES)
    counted = counted_tokens(one, config, PIECES)
    assert value == min(logprobs[i] for i in counted)
    assert weakest == min(i for i in counted if logprobs[i] == value)


def test_the_boundary_token_decides_only_where_it_is_asked_to():
    one = candidate("ab\n\n", (-0.5, -1.0, -0.1, -9.0), grounding=(0.9, 0.8, 0.7, None))
    assert measure("confidence", one, configured(), PIECES) == (-1.0, 1)
    assert measure("grounding", one, configured(), PIECES) == (0.7, 2)
    asked = configured(include_boundary_token=True)
    assert measure("confidence", one, asked, PIECES) == (-9.0, 3)
    assert measure("grounding", one, asked, PIECES) is None  # it was never a query


def test_grounding_is_the_sum_over_all_segments():
    one = candidate("ab", stop="step_limit")
    tokens = (
        replace(one.tokens[0], attribution=(0.25, 0.5, 0.125)),
        replace(one.tokens[1], attribution=(0.5, 0.0, 0.125)),
    )
    assert measure("grounding", replace(one, tokens=tokens), configured(), PIECES) == (0.625, 1)


def test_a_token_with_no_value_leaves_the_step_unmeasured_though_others_have_one():
    one = candidate("abc\n\n", grounding=(0.9, None, 0.9, 0.9, 0.9))
    assert measure("grounding", one, configured(), PIECES) is None
    numeric = candidate("a1b\n\n", grounding=(None, 0.4, None, None, None))
    assert measure("grounding", numeric, configured(signal_tokens="numeric"), PIECES) == (0.4, 1)


def test_agreement_is_no_minimum_over_tokens():
    assert measure("agreement", candidate("ab"), configured(), PIECES) is None

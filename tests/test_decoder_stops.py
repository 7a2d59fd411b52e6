"""Where a step ends and why a run ends: each stop by hand, and no budget is ever passed."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core.backends.scripted import EOS
from specguard_core.decoder.step import start
from specguard_core.decoder.stops import cut
from specguard_core.errors import ProblemError
from specguard_core.text import MAX_PROBLEM_CHARACTERS
from tests.builders import PAIR_STRATEGIES, PROBLEM, configured, pair, recited, run, scripted

# Strategies that make one step after the other from the same script.
STRATEGIES = [
    pytest.param({"strategy": "specguard", "threshold": 0.0}, id="specguard accepts"),
    pytest.param({"strategy": "specguard", "threshold": 1.01}, id="specguard refuses"),
    pytest.param({"strategy": "draft_only"}, id="draft_only"),
    pytest.param({"strategy": "target_only"}, id="target_only"),
]
EIGHT = (*(f"{n} + 1 = {n + 1}.\n\n" for n in range(7)), "The answer is \\boxed{8}.")


def reciting(*texts, context_length=4096):
    """A pair that recites the same steps, whoever writes."""
    script = recited(*texts)
    return pair(
        scripted(script, "draft", context_length=context_length),
        scripted(script, "target", context_length=context_length),
    )


def prompt_length(config=None):
    return len(start(PROBLEM, pair(), config).trace.prompt_ids)


# Steps


@pytest.mark.case(21)
@pytest.mark.parametrize("knobs", STRATEGIES)
def test_a_problem_of_eight_steps_yields_eight_steps(knobs):
    trace = run(reciting(*EIGHT), configured(**knobs))
    assert len(trace.units) == 8
    assert (trace.finish.reason, trace.finish.answer) == ("eos", "8")


@pytest.mark.case(18)
@pytest.mark.parametrize("knobs", STRATEGIES)
@pytest.mark.parametrize(
    "texts",
    [
        ("3 apples.\n\n", "So 4.\n\n", "\\boxed{4}"),  # ".\n\n" is one token
        ("3 apples\n\n", "So 4\n\n", "\\boxed{4}"),  # "\n" and "\n" are two
        ("\n\n3 apples.\n\n", "\n\nSo 4\n\n", "\n \\boxed{4}"),  # a delimiter before any text
    ],
    ids=["merged", "split", "leading"],
)
def test_a_step_ends_at_its_delimiter_and_no_text_is_lost(knobs, texts):
    trace = run(reciting(*texts), configured(**knobs))
    assert [step.output.stop for step in trace.units] == ["delimiter", "delimiter", "eos"]
    assert [len(step.output.tokens) > 0 for step in trace.units] == [True] * 3
    assert trace.text.startswith("".join(texts))


def test_a_step_may_be_ended_by_another_delimiter():
    trace = run(reciting("a\n\nb#", "c"), configured(delimiter="#", threshold=0.0))
    assert [step.output.stop for step in trace.units] == ["delimiter", "eos"]


@pytest.mark.case(18)
def test_a_draw_that_stops_early_leaves_the_others_going():
    script = {"": [s for t in ("1.\n\n", "12.\n\n", "123.\n\n") for s in recited(t)[""]]}
    trace = run(pair(script), configured(n_candidates=3, max_steps=1, threshold=0.0))
    assert sorted(len(one.tokens) for one in trace.units[0].candidates) == [2, 3, 4]
    assert all(one.stop == "delimiter" for one in trace.units[0].candidates)


@pytest.mark.parametrize("knobs", STRATEGIES)
def test_max_step_tokens_ends_the_step_and_not_the_run(knobs):
    trace = run(reciting("abcdef", "gh.\n\n"), configured(max_step_tokens=4, max_steps=3, **knobs))
    assert trace.units[0].output.stop == "step_limit"
    assert len(trace.units[0].output.tokens) == 4
    assert trace.text.startswith("abcd")
    assert len(trace.units) == 3


# Runs


@pytest.mark.parametrize("knobs", STRATEGIES)
def test_eos_ends_a_run_even_where_no_answer_stands(knobs):
    trace = run(reciting("no more."), configured(**knobs))
    assert trace.units[-1].output.token_ids[-1] == EOS
    assert (trace.finish.reason, trace.finish.answer) == ("eos", None)


@pytest.mark.parametrize("knobs", STRATEGIES)
def test_a_closed_box_ends_a_run_at_the_end_of_its_step(knobs):
    trace = run(reciting("So \\boxed{4} it is.\n\n", "More.\n\n"), configured(**knobs))
    assert trace.text == "So \\boxed{4} it is.\n\n"
    assert (trace.finish.reason, trace.finish.answer) == ("answer", "4")


def test_an_open_box_ends_nothing_until_it_is_closed():
    trace = run(
        reciting("So \\boxed{\n\n", "\\frac{1}{2}.\n\n", "}.\n\n", "no.\n\n"),
        configured(threshold=0.0),
    )
    assert len(trace.units) == 3
    assert trace.finish.reason == "answer"


def test_a_box_in_the_problem_is_no_answer():
    problem = "Write \\boxed{4}. How many?"
    script = recited("five.\n\n", "\\boxed{5}.\n\n")
    trace = run(pair(script), configured(threshold=0.0), problem=problem)
    assert (len(trace.units), trace.finish.answer) == (2, "5")


def test_eos_outranks_the_answer_that_stands_before_it():
    assert run(reciting("\\boxed{4}"), configured(threshold=0.0)).finish.reason == "eos"


def test_the_answer_outranks_the_limits_reached_with_it():
    text = "\\boxed{4}.\n\n"
    length = len(run(reciting(text), configured(threshold=0.0)).units[0].output.tokens)
    config = configured(threshold=0.0, max_steps=1, max_new_tokens=length)
    assert run(reciting(text), config).finish.reason == "answer"


@pytest.mark.parametrize("knobs", STRATEGIES)
def test_max_steps_ends_the_run(knobs):
    trace = run(reciting(*EIGHT), configured(max_steps=3, **knobs))
    assert (len(trace.units), trace.finish.reason) == (3, "max_steps")


@pytest.mark.parametrize("knobs", STRATEGIES)
@pytest.mark.parametrize("limit", range(1, 30, 4))
def test_max_new_tokens_is_met_exactly(knobs, limit):
    trace = run(reciting(*EIGHT), configured(max_new_tokens=limit, **knobs))
    assert sum(len(step.output.tokens) for step in trace.units) == limit
    assert trace.finish.reason == "max_new_tokens"
    assert trace.units[-1].output.stop in ("step_limit", "delimiter")


@pytest.mark.case(19)
@pytest.mark.parametrize("knobs", STRATEGIES)
@pytest.mark.parametrize("room", range(1, 30, 4))
def test_the_context_is_filled_to_its_limit_and_never_past_it(knobs, room):
    config = configured(**knobs)
    context_length = prompt_length(config) + room
    trace = run(reciting(*EIGHT, context_length=context_length), config)
    assert len(trace.context_ids) == context_length
    assert trace.finish.reason == "context_limit"


def test_a_step_cut_by_the_context_says_so():
    config = configured(threshold=0.0)
    trace = run(reciting("abcdefgh.\n\n", context_length=prompt_length(config) + 5), config)
    assert [step.output.stop for step in trace.units] == ["context_limit"]
    assert {one.stop for one in trace.units[0].candidates} == {"context_limit"}


def test_a_step_that_needs_the_whole_room_is_not_cut():
    config = configured(threshold=0.0)
    length = len(run(reciting("abc.\n\n"), configured(max_steps=1)).units[0].output.tokens)
    trace = run(reciting("abc.\n\n", context_length=prompt_length(config) + length), config)
    assert trace.units[0].output.stop == "delimiter"
    assert trace.finish.reason == "context_limit"


@pytest.mark.parametrize("threshold", [0.0, 1.01])
def test_a_pair_is_held_to_the_shorter_of_its_contexts(threshold):
    config = configured(threshold=threshold)
    short = prompt_length(config) + 9
    for lengths in ((short, 4096), (4096, short)):
        models = pair(
            scripted(recited(*EIGHT), "draft", context_length=lengths[0]),
            scripted(recited(*EIGHT), "target", context_length=lengths[1]),
        )
        trace = run(models, config)
        assert (len(trace.context_ids), trace.finish.reason) == (short, "context_limit")


def test_a_strategy_is_held_to_no_model_it_does_not_call():
    config = configured(strategy="draft_only")
    models = pair(recited(*EIGHT), scripted({}, "target", context_length=1))
    assert run(models, config).finish.reason == "eos"


@pytest.mark.parametrize("knobs", STRATEGIES)
@pytest.mark.parametrize("repeat_limit", [2, 3, 5])
def test_equal_steps_in_a_row_end_the_run(knobs, repeat_limit):
    texts = ("one.\n\n", *("again.\n\n",) * 6)
    trace = run(reciting(*texts), configured(repeat_limit=repeat_limit, **knobs))
    assert (len(trace.units), trace.finish.reason) == (1 + repeat_limit, "repeated_steps")


def test_equal_steps_that_are_not_in_a_row_end_nothing():
    trace = run(reciting("a.\n\n", "b.\n\n", "a.\n\n", "b.\n\n", "a."), configured(repeat_limit=2))
    assert (len(trace.units), trace.finish.reason) == (5, "eos")


def test_limits_reached_together_are_named_in_one_order():
    text = "abc.\n\n"
    length = len(run(reciting(text), configured(max_steps=1)).units[0].output.tokens)
    everything = {"max_new_tokens": 2 * length, "max_steps": 2, "repeat_limit": 2}
    full = prompt_length() + 2 * length
    models = reciting(text, text, context_length=full)
    reasons = [run(models, configured(**everything)).finish.reason]
    for name in ("max_new_tokens", "max_steps", "repeat_limit"):
        reasons.append(run(reciting(text, text), configured(**everything)).finish.reason)
        del everything[name]
    assert reasons == ["context_limit", "max_new_tokens", "max_steps", "repeated_steps"]


@given(
    st.fixed_dictionaries(
        {
            "strategy": st.sampled_from(PAIR_STRATEGIES),
            "seed": st.integers(0, 1000),
            "max_steps": st.integers(1, 5),
            "max_step_tokens": st.integers(1, 12),
            "max_new_tokens": st.integers(1, 30),
            "repeat_limit": st.integers(2, 4),
        }
    ),
    st.integers(1, 40),
)
@settings(max_examples=40)
def test_no_budget_is_ever_passed(knobs, room):
    config = configured(threshold=0.6, **knobs)
    context_length = prompt_length(config) + room
    models = pair(
        scripted({}, "draft", context_length=context_length),
        scripted({}, "target", context_length=context_length),
    )
    trace = run(models, config)
    lengths = [len(step.output.tokens) for step in trace.units]
    assert len(lengths) <= config.max_steps
    assert max(lengths) <= config.max_step_tokens
    assert sum(lengths) <= min(config.max_new_tokens, room)
    used = sum(lengths)
    reached = {
        "eos": trace.units[-1].output.stop == "eos",
        "context_limit": used == room,
        "max_new_tokens": used == config.max_new_tokens,
        "max_steps": len(lengths) == config.max_steps,
        "repeated_steps": len({s.output.token_ids for s in trace.units[-config.repeat_limit :]})
        == 1,
        "answer": "\\boxed{" in trace.text,
    }
    assert reached[trace.finish.reason]


@given(
    st.integers(1, 5),
    st.integers(1, 12),
    st.integers(1, 40),
    st.integers(2, 4),
    st.integers(1, 50),
    st.integers(0, 50),
)
@settings(max_examples=40)
def test_tokens_written_without_regard_to_steps_are_cut_where_steps_would_have_ended(
    max_steps, max_step_tokens, max_new_tokens, repeat_limit, room, n_known
):
    config = configured(
        strategy="target_only",
        max_steps=max_steps,
        max_step_tokens=max_step_tokens,
        max_new_tokens=max_new_tokens,
        repeat_limit=repeat_limit,
    )
    limit = prompt_length(config) + room
    models = pair(target=scripted({}, "target", context_length=limit))
    whole = run(models, config)
    ids = whole.context_ids[len(whole.prompt_ids) :]
    begun = replace(start(PROBLEM, models, config).trace, pieces=whole.pieces)
    assert cut(begun, (*ids, ids[0], ids[0]), limit, {EOS}) == (len(ids), whole.finish.reason)
    n_known = min(n_known, len(ids) - 1)
    assert cut(begun, ids[:n_known], limit, {EOS}) == (n_known, None)


# Problems


@pytest.mark.parametrize("nothing", ["", "  \n", "\x00\x07", "\ud800"])
def test_a_problem_with_no_text_starts_nothing(nothing):
    with pytest.raises(ProblemError, match="write a question"):
        start(nothing, pair())


def test_a_problem_too_long_for_anyone_is_refused_in_one_sentence():
    with pytest.raises(ProblemError, match="100,000: shorten it"):
        start("x" * 100_000, pair())


def test_a_problem_too_long_for_the_models_is_refused_before_any_call():
    models = pair()
    with pytest.raises(ProblemError, match=r"leaves room in a context of 4,096 tokens"):
        start("x" * MAX_PROBLEM_CHARACTERS, models)
    assert models.draft.n_calls == models.target.n_calls == 0


def test_a_prompt_that_fills_the_context_wholly_is_refused_and_one_token_less_is_not():
    full = prompt_length()
    with pytest.raises(ProblemError, match="shorten the problem"):
        start(PROBLEM, reciting(*EIGHT, context_length=full))
    trace = run(reciting(*EIGHT, context_length=full + 1), configured(threshold=0.0))
    assert (len(trace.units), trace.finish.reason) == (1, "context_limit")


def test_control_characters_reach_no_model_and_no_trace():
    trace = start("Tom\x00 has\x1b 3\ud800 pens.", pair()).trace
    assert trace.problem == "Tom has 3 pens."


def test_any_other_character_survives_into_the_prompt():
    question = "👩\u200d👧 שלום ${1+1} <b>é</b>?"
    trace = start(question, pair(), configured(system_prompt="")).trace
    segments = [s for s in trace.prompt_segments if s.kind == "question"]
    ids = [i for s in segments for i in s.token_ids]
    assert b"".join(trace.pieces[i] for i in ids).decode() == question


def test_a_problem_without_a_name_is_named_by_its_text():
    names = {start(text, pair()).trace.problem_id for text in ("a", "b", "a ")}
    assert len(names) == 2
    assert start("a", pair(), problem_id="mine").trace.problem_id == "mine"

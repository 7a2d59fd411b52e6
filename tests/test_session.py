"""A session is a value: where one looks never changes what happened, and nothing is lost."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_traces import coin_trace

from specguard_core.backends.scripted import (
    ScriptedModel,
    ScriptedStep,
    ScriptedVocabulary,
    scripted_info,
)
from specguard_core.config import DecodeConfig
from specguard_core.decoder.step import Finished, advance, start
from specguard_core.lm import Models
from viz_app.driving import drive
from viz_app.pace import STEPS
from viz_app.requests import looked, set_up
from viz_app.session import (
    WRITTEN,
    Look,
    Problem,
    Session,
    asked,
    configured,
    grown,
    history_of,
    is_left,
    moved,
    opened,
    place,
)
from viz_app.sight import sight, steps_in_sight
from viz_app.work import Loaded, Pair, Room

SCRIPT = {
    "": [ScriptedStep("4 * 6 = 24.\n\n", -0.2, 0.9)] * 2,
    "4 * 6 = 24.\n\n": [ScriptedStep("23 + 24 = \\boxed{47}.", -0.2, 0.9)] * 2,
}
CONFIG = DecodeConfig(n_candidates=2, threshold=0.5, weights=(("confidence", 1.0),))


def models() -> Models:
    return Models(
        ScriptedVocabulary(),
        ScriptedModel(SCRIPT, info=scripted_info("draft")),
        ScriptedModel(SCRIPT, info=scripted_info("target")),
    )


def run_by_hand(pair: Models) -> Session:
    session = Session(Problem("How many?", "47"), CONFIG)
    session = grown(session, start("How many?", pair, CONFIG, gold="47"))
    while not session.finished:
        state, _ = advance(session.history[-1], pair)
        session = grown(session, state)
    return session


def test_a_run_is_left_once_no_branch_of_it_is_there():
    session = run_by_hand(models())
    named = replace(session.lines[0], name="other", parent="main", forked_at=0)
    both = replace(session, lines=(*session.lines, named))
    assert is_left(session, asked(session, Problem("Another?")))
    assert is_left(session, run_by_hand(models()))
    assert not is_left(session, both)
    assert not is_left(both, replace(both, lines=(named,), current="other"))
    assert not is_left(session, session)
    assert not is_left(Session(), session)


def pair_of(loaded: Models) -> Pair:
    return Pair(lambda: Loaded(loaded, None), ("draft", "target"))


@given(st.lists(st.sampled_from(["first", "back", "back phase", "step", "phase", "run"])))
def test_no_way_of_looking_leaves_the_history(moves):
    session = opened(Session(), coin_trace())
    look = Look()
    for move in moves:
        look = looked(session, look, {"move": move})
        assert 0 <= place(session, look) < len(session.history)


def test_a_look_at_the_head_follows_it():
    session = opened(Session(), coin_trace())
    last = len(session.history) - 1
    assert moved(session, Look(3), last) == Look(None)
    assert moved(session, Look(), last - 1) == Look(last - 1)


def test_the_history_of_a_trace_is_the_one_its_run_had():
    session = run_by_hand(models())
    again = history_of(session.trace)
    assert len(again) == len(session.history)
    for before, after in zip(session.history, again, strict=True):
        assert type(before) is type(after)
        assert before.trace.units == after.trace.units
    for cursor in range(1, len(again)):
        one = sight(session, Look(cursor))
        other = sight(opened(Session(), session.trace), Look(cursor))
        assert (one.candidates, one.selection, one.verdict, one.written) == (
            other.candidates,
            other.selection,
            other.verdict,
            other.written,
        )


def test_a_phase_shows_what_was_known_then_and_no_more():
    session = opened(Session(), coin_trace())
    known = {phase: sight(session, Look(STEPS.cursor_at(2, phase))) for phase in STEPS.phases}
    assert known["sample"].selection is None
    assert known["select"].selection is not None
    assert known["select"].verdict is None
    assert known["verify"].verdict is not None
    assert known["verify"].written is None
    assert known["commit"].written is not None
    assert known["commit"].candidate(WRITTEN) is known["commit"].written


def test_nothing_is_in_sight_before_the_first_step():
    assert sight(Session(), Look()) is None
    assert sight(opened(Session(), coin_trace()), Look(0)) is None
    assert steps_in_sight(Session()) == ()


def test_a_new_problem_or_new_knobs_begin_afresh():
    session = opened(Session(), coin_trace())
    assert asked(session, Problem("Why?")).history == ()
    assert configured(session, CONFIG).config == CONFIG
    assert set_up(session, {"seed": 3}, ()).config.seed == 3
    assert set_up(session, {"preset": "paper"}, ()).config.n_candidates == 16
    assert set_up(session, {"question": "Why?"}, ()).problem == Problem("Why?")


@pytest.mark.parametrize("data", [{"preset": "none"}, {"seed": -1}, {"seed": 1.5}])
def test_a_setting_that_cannot_be_is_refused_in_a_sentence(data):
    from specguard_core.errors import ConfigError

    with pytest.raises(ConfigError, match="expected"):
        set_up(Session(), data, ())


def test_driving_step_by_step_gives_what_the_decoder_gives():
    loaded = models()
    by_hand = run_by_hand(models())
    session = Session(Problem("How many?", "47"), CONFIG)
    moves = 0
    while not session.finished:
        *_, last = drive(session, "step", pair_of(loaded), Room())
        session = last.session
        moves += 1
    assert moves == 2
    assert session.trace == by_hand.trace
    assert isinstance(session.head, Finished)


def test_one_phase_is_one_transition():
    *_, last = drive(Session(Problem("How many?"), CONFIG), "phase", pair_of(models()), Room())
    assert len(last.session.history) == 2


@pytest.mark.case(22)
def test_a_stop_keeps_the_last_whole_state_and_the_next_run_goes_on():
    loaded = models()
    room = Room()
    session = Session(Problem("How many?", "47"), CONFIG)
    for frame in drive(session, "run", pair_of(loaded), room):
        session = frame.session
        if len(session.history) == 3 and room.job is not None:
            room.job.stop.set()
    assert not session.finished
    assert room.job is None
    *_, last = drive(session, "run", pair_of(loaded), room)
    assert last.session.trace == run_by_hand(models()).trace


def test_a_failure_is_one_sentence_and_the_steps_stand():
    strict = ScriptedModel({"": SCRIPT[""]}, info=scripted_info("draft"), strict=True)
    loaded = Models(ScriptedVocabulary(), strict, strict)
    *_, last = drive(Session(Problem("How many?"), CONFIG), "run", pair_of(loaded), Room())
    assert "expected a scripted step" in last.session.notice
    assert len(last.session.trace.units) == 1
    assert last.progress is None


def test_an_empty_problem_is_answered_with_a_sentence():
    *_, last = drive(Session(Problem("  "), CONFIG), "step", pair_of(models()), Room())
    assert "write a question" in last.session.notice
    assert last.session.history == ()

"""A person's text as a step: tokens once, one delimiter, and the models carry on from it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core.backends.scripted import EOS, ScriptedVocabulary
from specguard_core.decoder.editing import MAX_STEP_CHARACTERS, edited_step
from specguard_core.errors import UsageError
from specguard_core.text import join_pieces
from specguard_core.types import Outcome
from tests.test_session import models, pair_of, run_by_hand
from viz_app.branches import edited
from viz_app.driving import Edit, drive
from viz_app.files import from_file, to_file
from viz_app.session import Look, Session
from viz_app.sight import sight
from viz_app.work import Room

VOCABULARY = ScriptedVocabulary()
words = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="<"), min_size=1)


def text_of(step, vocabulary=VOCABULARY):
    return b"".join(map(vocabulary.piece, step.token_ids)).decode()


@settings(max_examples=40)
@given(words.filter(str.strip))
def test_a_text_is_kept_to_the_letter_and_ended_by_one_delimiter(text):
    step = edited_step(text, "\n\n", VOCABULARY)
    assert text_of(step) == text.rstrip() + "\n\n"
    assert (step.origin, step.stop, step.draws) == ("retokenised", "delimiter", ())
    assert all(token.logprob is None for token in step.tokens)


@settings(max_examples=40)
@given(words.filter(str.strip))
def test_a_delimiter_that_is_there_already_changes_nothing(text):
    bare = edited_step(text, "\n\n", VOCABULARY)
    assert edited_step(text_of(bare), "\n\n", VOCABULARY) == bare
    assert edited_step(text + ";;", ";;", VOCABULARY) == edited_step(text, ";;", VOCABULARY)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "write something"),
        (" \n\n ", "write something"),
        ("one.\n\ntwo.", "edit one at a time"),
        ("half \ud83d of one", "write it again"),
        ("x" * (MAX_STEP_CHARACTERS + 1), "shorten it"),
    ],
)
def test_a_text_that_is_no_step_is_one_sentence(text, sentence):
    with pytest.raises(UsageError, match=sentence):
        edited_step(text, "\n\n", VOCABULARY)


class Lossy(ScriptedVocabulary):
    """Knows no character beyond ASCII."""

    def encode(self, text):
        return super().encode(text.encode("ascii", "replace").decode())


class Ending(ScriptedVocabulary):
    """Reads a mark in a text as the end of the sequence."""

    def encode(self, text):
        return (*super().encode(text), EOS)


@pytest.mark.parametrize(
    ("vocabulary", "sentence"), [(Lossy(), "use others"), (Ending(), "take it out")]
)
def test_what_the_tokenizer_would_change_is_refused(vocabulary, sentence):
    with pytest.raises(UsageError, match=sentence):
        edited_step("5 \U0001f34e", "\n\n", vocabulary)


def test_the_models_carry_on_from_an_edited_step():
    session = run_by_hand(models())
    frames = list(drive(session, Edit(0, "4 * 6 = 25 \U0001f34e."), pair_of(models()), Room()))
    branch = frames[-1].session
    step = branch.trace.units[0]
    assert step.outcome == Outcome("edited", forced=True)
    assert join_pieces(step.token_ids, branch.trace.pieces) == "4 * 6 = 25 \U0001f34e.\n\n"
    assert step.verdict == session.trace.units[0].verdict
    assert branch.lines[0] == session.lines[0]
    assert branch.current == "edit 1"
    *_, last = drive(branch, "step", pair_of(models()), Room())
    assert last.session.trace.units[:1] == (step,)
    assert len(last.session.trace.units) == 2


def test_an_edited_step_is_in_sight_before_and_after_it_is_kept_and_in_the_file():
    session = run_by_hand(models())
    *_, last = drive(session, Edit(1, "So \\boxed{1}."), pair_of(models()), Room())
    again = from_file(to_file(last.session))
    for one in (last.session, again):
        assert one.trace.finish.answer == "1"
        for cursor in (7, 8):
            seen = sight(one, Look(cursor))
            assert seen.written.origin == "retokenised"
            assert seen.outcome.source == "edited"


@pytest.mark.parametrize(
    ("text", "sentence"), [("4 * 6 = 24.", "got the same"), ("", "write something")]
)
def test_an_edit_that_is_none_leaves_the_run_and_says_so(text, sentence):
    session = run_by_hand(models())
    *_, last = drive(session, Edit(0, text), pair_of(models()), Room())
    assert sentence in last.session.notice
    assert last.session.lines == session.lines


def test_only_a_judged_step_can_be_edited():
    with pytest.raises(UsageError, match="step to it first"):
        edited(Session(), 0, "x", VOCABULARY)

"""Names, notes, breakpoints and looks with the target: kept beside the runs, never in them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core.errors import TraceFileError, UsageError
from specguard_core.sessions import MAX_BRANCH_NAME, MAX_NOTE_CHARACTERS, Note
from tests.test_session import models, pair_of, run_by_hand
from tests.test_views import DESK
from viz_app.branches import dropped, redrawn, renamed
from viz_app.driving import AskTarget, drive
from viz_app.files import from_file, to_file
from viz_app.notes import note_on, noted
from viz_app.requests import departed, set_up
from viz_app.session import MAIN, Look, Session
from viz_app.sight import sight
from viz_app.target_views import seen_by_target
from viz_app.views.notes import notes_view
from viz_app.views.timeline import timeline_view
from viz_app.views.top import status_view, top_view
from viz_app.work import Room

RUN = run_by_hand(models())


def with_branch() -> Session:
    return redrawn(RUN, 1)


def test_a_renamed_branch_takes_its_children_and_notes_along():
    session = noted(with_branch(), 0, "look here")
    session = redrawn(session, 0)
    named = renamed(session, "redraw 2", "  the   other way ")
    assert [line.name for line in named.lines] == [MAIN, "the other way", "redraw 1"]
    assert named.lines[2].parent == "the other way"
    assert named.notes == (Note("the other way", 0, "look here"),)
    assert from_file(to_file(named)).notes == named.notes


def test_the_branch_on_the_page_stays_on_it_under_its_new_name():
    named = renamed(with_branch(), "redraw 2", "b")
    assert named.current == "b"
    assert named.history == with_branch().history


@pytest.mark.parametrize("name", ["", "  \n", MAIN, "x" * (MAX_BRANCH_NAME + 1)])
def test_a_name_that_cannot_be_is_one_sentence(name):
    with pytest.raises(UsageError, match=r"expected a name .*: choose"):
        renamed(with_branch(), "redraw 2", name)


@settings(max_examples=25)
@given(st.text())
def test_any_name_that_is_taken_can_be_saved(name):
    try:
        named = renamed(with_branch(), "redraw 2", name)
    except UsageError:
        return
    assert from_file(to_file(named)).current == named.current


@settings(max_examples=25)
@given(st.text(max_size=300))
def test_a_note_comes_back_from_the_file_and_an_empty_one_is_none(text):
    session = noted(RUN, 1, text)
    again = from_file(to_file(session))
    assert note_on(again, 1) == note_on(session, 1)
    assert noted(session, 1, " ").notes == ()


def test_a_note_is_one_per_step_and_shown_where_it_stands():
    session = noted(noted(RUN, 0, "first"), 0, "second")
    assert [note.text for note in session.notes] == ["second"]
    assert [block.get("note") for block in timeline_view(session, Look())["blocks"]] == [
        "second",
        None,
    ]
    view = notes_view(session, Look(4))
    assert (view["text"], view["rows"][0]["about"]) == ("second", "4 * 6 = 24.")
    assert dropped(noted(redrawn(session, 1), 0, "x"), "redraw 2").notes == session.notes


@pytest.mark.parametrize(
    ("step", "text"), [(2, "x"), (-1, "x"), (0, "x" * (MAX_NOTE_CHARACTERS + 1))]
)
def test_a_note_that_cannot_be_is_one_sentence(step, text):
    with pytest.raises(UsageError, match="expected"):
        noted(RUN, step, text)


def test_a_file_with_a_note_on_no_step_is_refused():
    text = to_file(noted(RUN, 0, "x"))
    with pytest.raises(TraceFileError, match="notes on steps there are"):
        from_file(text.replace('"step_index": 0', '"step_index": 7'))


def test_a_breakpoint_is_turned_off_and_on_and_saved_so():
    session = set_up(RUN, {"breakpoint": "answer"}, ())
    off = set_up(session, {"arm": 0}, ())
    assert [point.enabled for point in off.breakpoints] == [False]
    assert [point.enabled for point in from_file(to_file(off)).breakpoints] == [False]
    assert top_view(session, Look(0), DESK)["next_hit"] == 8
    assert top_view(off, Look(0), DESK)["next_hit"] is None
    assert set_up(off, {"breakpoint": "answer"}, ()).breakpoints == ()


def test_run_to_a_step_pauses_there_and_the_end_passes_breakpoints():
    fresh = set_up(Session(RUN.problem, RUN.config), {"breakpoint": "step", "value": 1}, ())
    _, to_first = departed(fresh, Look(), {"move": "run to", "step": 0})
    *_, paused = drive(fresh, to_first, pair_of(models()), Room())
    assert (len(paused.session.trace.units), paused.session.pause) == (1, "step 1 reached")
    with pytest.raises(UsageError, match="2 or a later one"):
        departed(paused.session, Look(), {"move": "run to", "step": 0})
    _, to_end = departed(fresh, Look(), {"move": "end"})
    *_, ended = drive(fresh, to_end, pair_of(models()), Room())
    assert ended.session.finished


def test_the_targets_view_is_seen_kept_and_no_part_of_the_run():
    session = RUN
    look = Look(4)
    session, move = departed(session, look, {"move": "target view", "step": 0})
    assert isinstance(move, AskTarget)
    *_, last = drive(session, move, pair_of(models()), Room())
    asked = last.session
    assert asked.trace == session.trace
    for one in (asked, from_file(to_file(asked))):
        seen = seen_by_target(one, sight(one, look))
        tokens = seen.candidate(None).tokens
        assert all(token.target_logprob == pytest.approx(-0.2) for token in tokens[:-1])
        assert one.trace.units[0].candidates[0].tokens[0].target_logprob is None
    assert "1 target pass to look" in " ".join(status_view(asked, look, DESK)["facts"])


def test_nothing_is_asked_of_the_target_where_nothing_is_written():
    *_, last = drive(Session(), AskTarget(Look()), pair_of(models()), Room())
    assert "step first" in last.session.notice

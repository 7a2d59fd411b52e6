"""The runs that ship: their index is whole, and each opens by its name with its evidence."""

import json
import shutil

import pytest

from specguard_core.bundled import EXAMPLE, RECORDINGS
from specguard_core.errors import TraceFileError
from specguard_core.evidence import context_before
from specguard_core.trace_io import evidence_path
from viz_app.files import from_file
from viz_app.page import PANELS, draw
from viz_app.recordings import Recording, read_index, recording_named
from viz_app.session import Look, Session
from viz_app.views.top import Desk, top_view

SHIPPED = read_index(RECORDINGS)
MOST_BYTES = 1_200_000
"""Of a trace and its evidence together: a page opens it while a person waits."""


def index_of(folder, rows) -> tuple[Recording, ...]:
    (folder / "index.json").write_text(json.dumps(rows), "utf-8")
    return read_index(folder / "index.json")


def test_the_index_names_every_run_that_ships_and_no_other():
    named = [row["file"] for row in json.loads(RECORDINGS.read_text("utf-8"))]
    assert sorted(named) == sorted(
        path.name for path in RECORDINGS.parent.glob("*.json") if path != RECORDINGS
    )
    assert [recording.path.name for recording in SHIPPED] == named
    assert EXAMPLE.name in named


@pytest.mark.parametrize("recording", SHIPPED, ids=lambda recording: recording.name)
def test_a_run_that_ships_opens_with_its_evidence_and_every_panel_draws_it(recording):
    text, evidence = recording.open()
    session = from_file(text)
    trace = session.trace
    assert trace.status == "finished"
    assert trace.gold is not None
    for step in trace.steps:
        if step.chosen is not None:
            context = context_before(trace, step.index)
            assert evidence.rows(context, step.chosen.token_ids) is not None
    for cursor in range(len(session.history)):
        desk = Desk(("a", "b"), "not loaded", recordings=SHIPPED)
        assert set(draw(session, Look(cursor), desk, evidence=evidence)) == set(PANELS)
    size = recording.path.stat().st_size + evidence_path(recording.path).stat().st_size
    assert size < MOST_BYTES


def test_the_bar_names_the_models_of_the_run_and_not_those_of_the_page():
    desk = Desk(("abacus-draft", "abacus-target"), "not loaded", recordings=SHIPPED)
    view = top_view(from_file(SHIPPED[0].open()[0]), Look(), desk)
    assert (view["draft"], view["target"]) == ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
    assert top_view(Session(), Look(), desk)["draft"] == "abacus-draft"
    own = next(recording for recording in SHIPPED if recording.path == EXAMPLE)
    assert top_view(from_file(own.open()[0]), Look(), desk)["target"] == "abacus-target"


def test_titles_differ_and_what_is_said_of_each_is_one_sentence():
    assert len({recording.title for recording in SHIPPED}) == len(SHIPPED)
    for recording in SHIPPED:
        assert 0 < len(recording.title) <= 60
        assert recording.sentence.endswith(".")
        assert ". " not in recording.sentence
        assert "\n" not in recording.sentence


def test_the_page_says_what_the_index_says_in_its_order(tmp_path):
    rows = [{"file": f"{n}.json", "title": f"Run {n}", "sentence": f"Was {n}."} for n in (2, 1)]
    for row in rows:
        shutil.copy(EXAMPLE, tmp_path / row["file"])
    found = index_of(tmp_path, rows)
    view = top_view(Session(), Look(), Desk(("a", "b"), "idle", recordings=found))
    assert view["recordings"] == [
        {"name": "2", "title": "Run 2", "text": "Was 2."},
        {"name": "1", "title": "Run 1", "text": "Was 1."},
    ]
    assert recording_named(found, "").name == "2"
    assert recording_named(found, "1").name == "1"
    assert recording_named(found, "3") is None
    assert found[0].open()[1].size_bytes == 0


def test_a_run_that_is_not_there_is_not_offered_and_no_index_offers_none(tmp_path):
    rows = [{"file": "../../secret.json", "title": "Away", "sentence": "Is not here."}]
    assert index_of(tmp_path, rows) == ()
    assert read_index(tmp_path / "other.json") == ()
    assert recording_named((), "") is None


@pytest.mark.parametrize("text", ["{", "[1]", '[{"file": "a.json"}]', "null", '{"file": "a"}'])
def test_a_broken_index_is_one_sentence(text, tmp_path):
    (tmp_path / "index.json").write_text(text, "utf-8")
    with pytest.raises(TraceFileError, match="expected rows of file, title and sentence"):
        read_index(tmp_path / "index.json")

"""What the page calls a model, and that no password is among it."""

import pytest

from viz_app.names import full_name, short_name
from viz_app.session import Look, Session
from viz_app.views.top import Desk, top_view


@pytest.mark.parametrize(
    ("source", "short"),
    [
        ("assets/models/abacus-draft", "abacus-draft"),
        ("/srv/models/abacus-draft/", "abacus-draft"),
        ("Qwen/Qwen2.5-Math-7B-Instruct", "Qwen2.5-Math-7B-Instruct"),
        ("model.gguf", "model.gguf"),
        ("http://ana:secret@host:8000/v1?model=org/name", "name"),
        ("https://ana:secret@host:8000/v1", "host:8000"),
        ("/", "/"),
    ],
)
def test_the_last_part_of_a_source_is_its_short_name(source, short):
    assert short_name(source) == short


def test_the_full_name_is_the_source_without_a_login():
    assert full_name("org/name") == "org/name"
    address = full_name("http://ana:secret@host:8000/v1?model=org/name")
    assert address == "http://host:8000/v1?model=org/name"


def test_the_bar_says_where_models_come_from_only_where_it_may():
    named = Desk(("a", "b"), "idle", sources=("org/a", "org/b"))
    assert top_view(Session(), Look(), named)["sources"] == ["org/a", "org/b"]
    assert top_view(Session(), Look(), Desk(("a", "b"), "idle"))["sources"] == ["a", "b"]

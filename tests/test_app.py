"""The flags of the page: what they allow, and what they refuse before anything is served."""

import json

import pytest
from serving import RECITING, served

import app
from specguard_core import bundled
from specguard_core.trace_io import evidence_path
from viz_app.files import open_file
from viz_app.limits import IDLE_SECONDS, PUBLIC_TOKENS, Limits
from viz_app.turns import MOST_WAITING
from viz_app.work import Rooms


def limits(*flags: str) -> Limits:
    return app.limits_of(app.parser().parse_args(flags))


def test_without_flags_nothing_is_bounded_but_the_queue_and_idle_sessions():
    assert limits() == Limits(None, False, False, MOST_WAITING, IDLE_SECONDS)


def test_each_flag_sets_its_limit():
    assert limits("--max-tokens", "50").max_tokens == 50
    assert limits("--read-only").locked
    assert limits("--queue", "3", "--idle", "60") == Limits(waiting=3, idle_seconds=60)


def test_a_public_page_bounds_its_runs_unless_it_is_told_how():
    assert limits("--public") == Limits(PUBLIC_TOKENS, public=True)
    assert limits("--public", "--max-tokens", "9").max_tokens == 9


def test_a_login_is_a_user_and_a_password_that_may_hold_colons():
    assert app.parser().parse_args(["--auth", "ana:a:b"]).auth == ("ana", "a:b")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--max-tokens", "0"], "a whole number from 1"),
        (["--max-tokens", "many"], "a whole number from 1"),
        (["--auth", "ana"], "USER:PASSWORD"),
        (["--auth", ":secret"], "USER:PASSWORD"),
    ],
)
def test_a_flag_that_cannot_be_is_refused(flags, sentence, capsys):
    with pytest.raises(SystemExit) as refused:
        app.parser().parse_args(flags)
    assert refused.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [(None, "no such file"), ("{", "expected a JSON file"), ("{}", "it is from elsewhere")],
)
def test_a_trace_that_cannot_be_opened_is_one_sentence_before_serving(
    text, sentence, tmp_path, capsys
):
    path = tmp_path / "trace.json"
    if text is not None:
        path.write_text(text, "utf-8")
    assert app.main(["--trace", str(path)]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_a_trace_is_opened_with_the_evidence_beside_it_for_each_visitor_anew(tmp_path):
    session, rows = open_file(bundled.EXAMPLE)
    assert session.trace is not None
    rooms = Rooms(lambda: 0.0, 60, rows.copy)
    first, second = rooms.room("first").evidence, rooms.room("second").evidence
    assert first is not second
    assert first.size_bytes == second.size_bytes == rows.size_bytes > 0
    alone = tmp_path / "alone.json"
    alone.write_bytes(bundled.EXAMPLE.read_bytes())
    assert open_file(alone)[1].size_bytes == 0


def test_evidence_that_is_broken_is_one_sentence_before_serving(tmp_path, capsys):
    path = tmp_path / "trace.json"
    path.write_bytes(bundled.EXAMPLE.read_bytes())
    evidence_path(path).write_bytes(b"no archive")
    assert app.main(["--trace", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_tools_for_agents_need_their_library_and_say_so(monkeypatch, capsys):
    monkeypatch.setattr(app, "find_spec", lambda name: None)
    assert app.main(["--mcp"]) == 2
    assert "gradio[mcp]" in capsys.readouterr().err


def test_a_page_behind_a_login_and_a_proxy_shows_nothing_to_strangers():
    import httpx

    flags = ("--auth", "ana:secret", "--root-path", "/tool")
    with served(RECITING, *flags) as server, httpx.Client(base_url=server.address) as client:
        assert client.get("/config").status_code == 401
        assert client.get("/gradio_api/info").status_code == 401
        wrong = client.post("/login", data={"username": "ana", "password": "guess"})
        assert wrong.status_code == 400
        right = client.post("/login", data={"username": "ana", "password": "secret"})
        assert right.status_code == 200
        config = client.get("/config")
        assert config.status_code == 200
        assert json.loads(config.text)["root"].endswith("/tool")

"""What stands between a request and the page: what may come in, and what goes out packed."""

import asyncio
import gzip

import pytest

from viz_app.guard import BodyLimit, Packing

LONG = b"the same again, " * 400


def answered(guard, path, content_type, pieces, headers=()):
    """The messages that a guarded app sends for a request of `path`."""

    async def app(scope, receive, send):
        del scope, receive
        kind = [(b"content-type", content_type)]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    sent = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [(b"accept-encoding", b"gzip"), *headers],
    }
    asyncio.run(guard(app)(scope, receive, send))
    return sent


def test_the_answer_to_an_event_is_packed_and_says_the_same():
    start, *bodies = answered(Packing, "/gradio_api/run/predict", b"application/json", [LONG])
    data = b"".join(body["body"] for body in bodies)
    assert (b"content-encoding", b"gzip") in start["headers"]
    assert len(data) < len(LONG) / 10
    assert gzip.decompress(data) == LONG


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/gradio_api/queue/data", b"text/event-stream"),
        ("/gradio_api/run/predict", b"text/event-stream"),
        ("/assets/index.js", b"text/javascript"),
    ],
)
def test_streams_and_files_go_out_as_they_are_piece_by_piece(path, content_type):
    start, *bodies = answered(Packing, path, content_type, [LONG, b"more"])
    assert not any(name == b"content-encoding" for name, _ in start["headers"])
    assert [body["body"] for body in bodies] == [LONG, b"more", b""]


def test_a_request_that_says_it_is_too_large_is_refused_in_one_sentence():
    declared = [(b"content-length", str(2**40).encode())]
    start, body = answered(BodyLimit, "/gradio_api/run/predict", b"", [], declared)
    assert start["status"] == 413
    assert b"expected a request of at most 128 MiB" in body["body"]

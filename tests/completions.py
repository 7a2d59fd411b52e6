"""A server of the OpenAI kind that does what a test tells it, in a thread of its own."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "some/model"
Script = Callable[[dict[str, Any], "Exchange"], None]


@dataclass(slots=True)
class Served:
    """What a server was asked. left: a client went away in the middle of a stream."""

    address: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)


class Exchange:
    """One request being answered."""

    def __init__(self, handler: BaseHTTPRequestHandler, served: Served) -> None:
        self._handler = handler
        self.served = served

    def status(self, code: int, text: str = "") -> None:
        self._handler.send_response(code)
        self._handler.send_header("Content-Length", str(len(text.encode())))
        self._handler.end_headers()
        self._handler.wfile.write(text.encode())

    def json(self, value: Any) -> None:
        self.status(200, json.dumps(value))

    def stream(self, pieces: list[str], reason: str | None = "stop") -> None:
        """Pieces as a stream; without a reason it breaks off."""
        self._handler.send_response(200)
        self._handler.send_header("Content-Type", "text/event-stream")
        self._handler.end_headers()
        for piece in pieces:
            self.say(piece)
        if reason is not None:
            self.say("", reason)
            self._write("data: [DONE]\n\n")

    def say(self, piece: str, reason: str | None = None) -> None:
        choice = {"index": 0, "text": piece, "finish_reason": reason}
        self._write(f"data: {json.dumps({'choices': [choice]})}\n\n")

    def _write(self, text: str) -> None:
        try:
            self._handler.wfile.write(text.encode())
            self._handler.wfile.flush()
        except OSError:
            self.served.left.set()


@contextmanager
def completions(
    script: Script, models: tuple[dict[str, Any], ...] = ({"id": MODEL},), port: int = 0
) -> Iterator[Served]:
    """A server whose completions are what `script` makes of them."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.keys.append(self.headers.get("Authorization"))
            Exchange(self, served).json({"object": "list", "data": list(models)})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.bodies.append(body)
            served.keys.append(self.headers.get("Authorization"))
            script(body, Exchange(self, served))

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    served = Served(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

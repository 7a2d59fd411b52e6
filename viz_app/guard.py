"""What stands between a request and the page: a bound on what it may carry, and the packing of what
goes back. Speaks ASGI; knows no gradio.

ASGI       a server calls `app(scope, receive, send)`; `receive` gives the body piece by piece
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.middleware.gzip import GZipMiddleware

MOST_BODY_BYTES = 128 * 2**20
_ANSWERS = "/run/"
"""In the path of an event that is answered at once; a stream is told piece by piece as it comes."""
_LEAST_BYTES = 1_000
_LEVEL = 5
"""Takes about a millisecond for the 200 kB of a step's views."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class Packing:
    """An app whose answers to events are compressed; files and streams go as they are."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._packed = GZipMiddleware(app, minimum_size=_LEAST_BYTES, compresslevel=_LEVEL)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        is_answer = scope["type"] == "http" and _ANSWERS in scope["path"]
        await (self._packed if is_answer else self._app)(scope, receive, send)


class BodyLimit:
    """An app that answers 413 and one sentence to a body that is too large."""

    def __init__(self, app: App, most_bytes: int = MOST_BODY_BYTES) -> None:
        self._app = app
        self._most = most_bytes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._most:
            await self._refuse(send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            # A body without a declared length is cut: what is left of it cannot be read as JSON.
            return {"type": "http.disconnect"} if seen > self._most else message

        await self._app(scope, counted, send)

    async def _refuse(self, send: Send) -> None:
        limit = f"{self._most / 2**20:.0f} MiB"
        body = json.dumps({"error": f"expected a request of at most {limit}: it was not read"})
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": body.encode()})

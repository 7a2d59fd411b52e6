"""A bound on what a request may carry, before anything reads it. Speaks ASGI; knows no gradio.

ASGI       a server calls `app(scope, receive, send)`; `receive` gives the body piece by piece
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

MOST_BODY_BYTES = 128 * 2**20

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


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

"""A target behind an OpenAI-compatible server: it writes steps and grades them, and is never read.

Served by vLLM, SGLang, TGI, llama.cpp or `transformers serve`; spoken to by `/v1/completions`, as
text: what comes back is tokenised once with the pair's own tokenizer. Knows no torch.

as ids     the prompt as token ids, which most servers take and which leaves no doubt about BOS
as text    the prompt as text, for a server that takes nothing else; its tokenizer adds BOS itself
asking     one completion, streamed; cut at the delimiter here, whatever a server does with `stop`
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

import httpx
import numpy as np

from specguard_core.backends.server import (
    CONNECT_SECONDS,
    Broken,
    NoIds,
    Server,
    find_server,
    parsed,
    refuse,
)
from specguard_core.errors import Cancelled, ModelError, NotMeasured
from specguard_core.lm import (
    ChoiceReading,
    ChoiceRequest,
    Draw,
    DrawBatch,
    DrawStop,
    OnToken,
    ReadRequest,
    SampleRequest,
    ShouldStop,
    StepReading,
    TokenIds,
    Vocabulary,
)
from specguard_core.text import StepWatch
from specguard_core.types import ModelInfo

Answer = TypeVar("Answer")

ATTEMPTS = 4
"""Tries of one request; a pause doubles from FIRST_PAUSE_SECONDS after each that failed."""
FIRST_PAUSE_SECONDS = 0.5
SILENCE_SECONDS = 120.0
"""The longest wait for the next piece of a stream, the first included."""
_POLL_SECONDS = 0.05
_MARK = "("
_TOP_CHOICES = 20
# Further down than any probability that could matter, and still a number.
_NOT_CHOSEN = -100.0


def connect(
    address: str,
    vocabulary: Vocabulary,
    *,
    key: str | None = None,
    context_length: int,
    bos_token_id: int | None = None,
) -> RemoteModel:
    """The model at an address, once the server has answered.

    context_length   the limit where the server names none, in tokens
    bos_token_id     a first token that the server's tokenizer adds by itself; None: it adds none

    Raises:
        UsageError, ModelError: as `find_server`.
    """
    server = find_server(address, key)
    info = _info(server, server.context_length or context_length)
    return RemoteModel(server, vocabulary, info, bos_token_id)


class RemoteModel:
    """A StepModel and ChoiceModel over a server. It gives text: no probabilities, no attention."""

    def __init__(
        self, server: Server, vocabulary: Vocabulary, info: ModelInfo, bos_token_id: int | None
    ) -> None:
        self.info = info
        self._server = server
        self._vocabulary = vocabulary
        self._bos = bos_token_id
        self._as_ids = True

    def sample_steps(
        self,
        requests: Sequence[SampleRequest],
        *,
        on_token: OnToken | None = None,
        should_stop: ShouldStop | None = None,
    ) -> list[DrawBatch]:
        """All draws of all requests at once; the server decides how it batches them.

        passes and positions are the tokens written, as the pair's tokenizer counts them: what a
        server reads anew of a prefix it does not say.

        Raises:
            Cancelled: should_stop said so; the connections are closed.
            ModelError: the server failed, or fell silent, ATTEMPTS times.
        """
        counted: dict[tuple[int, int], int] = {}

        async def batch(place: int, request: SampleRequest) -> DrawBatch:
            began = time.perf_counter()

            def count(slot: int, n_pieces: int) -> None:
                counted[place, slot] = n_pieces
                if on_token is not None:
                    on_token(max(counted.values()))

            draws = await asyncio.gather(
                *(
                    self._draw(client, request, seed, partial(count, slot))
                    for slot, seed in enumerate(request.seeds)
                )
            )
            written = sum(len(draw.token_ids) for draw in draws)
            return DrawBatch(tuple(draws), written, written, (time.perf_counter() - began) * 1000)

        client = self._client()
        return self._run(
            client, [batch(place, request) for place, request in enumerate(requests)], should_stop
        )

    def read_steps(
        self, requests: Sequence[ReadRequest], *, should_stop: ShouldStop | None = None
    ) -> list[StepReading]:
        """
        Raises:
            NotMeasured: always.
        """
        raise NotMeasured(
            f"expected a target that can read a step, {self.info.name} is behind a server that "
            "only writes: give target_confidence and target_grounding no weight"
        )

    def read_choices(
        self, requests: Sequence[ChoiceRequest], *, should_stop: ShouldStop | None = None
    ) -> list[ChoiceReading]:
        """What the server makes of a question; where it gives no probabilities, its one answer.

        Raises:
            Cancelled, ModelError: as `sample_steps`.
        """
        client = self._client()
        asked = [self._choose(client, request) for request in requests]
        return self._run(client, asked, should_stop)

    def _client(self) -> httpx.AsyncClient:
        limits = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        return httpx.AsyncClient(headers=self._server.headers, timeout=limits)

    def _run(
        self,
        client: httpx.AsyncClient,
        asked: Sequence[Coroutine[Any, Any, Answer]],
        should_stop: ShouldStop | None,
    ) -> list[Answer]:
        """The answers, in order; a request to stop closes every connection at once."""

        async def together() -> list[Answer]:
            async with client:
                work = asyncio.ensure_future(asyncio.gather(*asked))
                while not work.done():
                    await asyncio.wait([work], timeout=_POLL_SECONDS)
                    if not work.done() and should_stop is not None and should_stop():
                        work.cancel()
                        await asyncio.wait([work])
                        raise Cancelled
                return list(work.result())

        return asyncio.run(together())

    async def _draw(
        self, client: httpx.AsyncClient, request: SampleRequest, seed: int, count: OnToken
    ) -> Draw:
        wanted = {
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": seed,
        }
        if request.top_k > 0:
            wanted["top_k"] = request.top_k
        return await self._tried(lambda: self._written(client, request, wanted, count))

    async def _written(
        self,
        client: httpx.AsyncClient,
        request: SampleRequest,
        wanted: dict[str, Any],
        count: OnToken,
    ) -> Draw:
        watch = StepWatch(request.delimiter.encode(), map(self._vocabulary.piece, request.begun))
        text, n_pieces, reason = "", 0, None
        stream = self._stream(client, request.prefix, wanted)
        async for piece, ended in stream:
            n_pieces += bool(piece)
            count(n_pieces)
            reason = ended or reason
            for character in piece:
                text += character
                if watch.feed(character.encode("utf-8", "replace")):
                    await stream.aclose()
                    return self._as_draw(text, request, "delimiter")
        if reason is None:
            raise Broken("the stream ended before the answer did")
        return self._as_draw(text, request, "limit" if reason == "length" else "eos")

    def _as_draw(self, text: str, request: SampleRequest, stop: DrawStop) -> Draw:
        ids = self._encoded(text, goes_on=request.n_begun > 0)
        if stop == "eos":
            ids = (*ids, min(self._vocabulary.eos_token_ids))
        if len(ids) > request.max_tokens or not ids:
            ids, stop = ids[: request.max_tokens], "limit"
        if not ids:
            raise Broken("the answer was empty")
        nothing: tuple[tuple[int, float], ...] = ()
        return Draw(ids, None, None, None, (nothing,) * len(ids), None, None, stop)

    def _encoded(self, text: str, *, goes_on: bool) -> TokenIds:
        """The tokens of a text; one that goes on from another gets no space before it, which some
        tokenizers put at the beginning of whatever they are given."""
        ids = self._vocabulary.encode(text)
        if not goes_on or self._text(ids) == text:
            return ids
        after_mark = self._vocabulary.encode(_MARK + text)
        for start in range(1, len(after_mark)):
            if self._text(after_mark[start:]) == text:
                return after_mark[start:]
        return ids

    async def _stream(
        self, client: httpx.AsyncClient, prefix: TokenIds, wanted: dict[str, Any]
    ) -> AsyncGenerator[tuple[str, str | None], None]:
        """Pieces of text, and why it ended with the last one."""
        body = self._body(prefix, wanted) | {"stream": True}
        async with client.stream("POST", f"{self._server.base}/completions", json=body) as answer:
            if answer.status_code != httpx.codes.OK:
                await answer.aread()
                refuse(answer, self.info.name, as_ids=isinstance(body["prompt"], list))
            async for line in answer.aiter_lines():
                if not line.startswith("data:"):
                    continue
                data = line.removeprefix("data:").strip()
                if data == "[DONE]":
                    return
                for choice in parsed(data).get("choices", []):
                    yield choice.get("text") or "", choice.get("finish_reason")

    async def _choose(self, client: httpx.AsyncClient, request: ChoiceRequest) -> ChoiceReading:
        began = time.perf_counter()
        wanted = {"max_tokens": 1, "temperature": 0, "logprobs": _TOP_CHOICES}
        names = [self._text([choice]).strip() for choice in request.choices]

        async def asked() -> tuple[dict[str, float], bool]:
            body = self._body((*request.prefix, *request.question), wanted)
            answer = await client.post(f"{self._server.base}/completions", json=body)
            if answer.status_code != httpx.codes.OK:
                refuse(answer, self.info.name, as_ids=isinstance(body["prompt"], list))
            choices = parsed(answer.text).get("choices") or [{}]
            given = (choices[0].get("logprobs") or {}).get("top_logprobs") or []
            if given and given[0]:
                found = {str(token).strip(): float(chance) for token, chance in given[0].items()}
                return found, False
            return {str(choices[0].get("text") or "").strip(): 0.0}, True

        found, answer_only = await self._tried(asked)
        chances = np.array([found.get(name, _NOT_CHOSEN) for name in names], np.float32)
        spent = (time.perf_counter() - began) * 1000
        return ChoiceReading(chances, 1, 1, spent, answer_only)

    async def _tried(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer of `ask`, which is asked anew after a fault that may pass."""
        pause = FIRST_PAUSE_SECONDS
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await ask()
            except NoIds:
                self._as_ids = False
            except (Broken, httpx.TransportError) as error:
                if attempt == ATTEMPTS:
                    told = str(error) or type(error).__name__
                    raise ModelError(
                        f"expected the server of {self.info.name} to write, it failed "
                        f"{ATTEMPTS} times ({told}): see that it runs, then go on"
                    ) from error
                await asyncio.sleep(pause)
                pause *= 2
        raise ModelError(f"expected {self.info.name} to take a prompt as text, it does not")

    def _body(self, prefix: Sequence[int], wanted: dict[str, Any]) -> dict[str, Any]:
        prompt: Any = list(prefix)
        if not self._as_ids:
            prompt = self._text(prefix[prefix[:1] == (self._bos,) :])
        return {"model": self._server.model, "prompt": prompt, **wanted}

    def _text(self, token_ids: Sequence[int]) -> str:
        pieces = b"".join(self._vocabulary.piece(token_id) for token_id in token_ids)
        return pieces.decode("utf-8", "replace")


def _info(server: Server, limit: int) -> ModelInfo:
    return ModelInfo(
        name=server.short_name,
        source=server.named,
        revision=None,
        architecture="remote",
        n_parameters=0,
        n_layers=0,
        vocabulary_size=0,
        context_length=limit,
        dtype="unknown",
        device="remote",
        grounding="a server gives no attention: it writes and grades only",
        rollback="re-prefill",
    )

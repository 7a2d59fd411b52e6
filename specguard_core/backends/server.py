"""Where a remote model is served, and how such a server is spoken to. Knows no decoder.

address    http://host:port/v1?model=NAME; without a name, the only model the server offers
"""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import httpx

from specguard_core.errors import ModelError, UsageError

CONNECT_SECONDS = 10.0
_WORTH_ANOTHER_TRY = frozenset({408, 409, 429, 500, 502, 503, 504})
_TAKES_NO_IDS = frozenset({400, 415, 422})


class Broken(Exception):
    """A fault that may pass."""


class NoIds(Exception):
    """The server takes no prompt of token ids."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where a model is served.

    key              sent as a bearer token and recorded nowhere
    context_length   tokens, None where the server does not say
    """

    base: str
    model: str
    key: str | None = None
    context_length: int | None = None

    @property
    def named(self) -> str:
        """As a trace records it: without user, password or key."""
        return f"{_without_login(self.base)}?model={self.short_name}"

    @property
    def short_name(self) -> str:
        """The model without the folders before it."""
        return self.model.rstrip("/").rpartition("/")[2]

    @property
    def headers(self) -> dict[str, str]:
        return _login(self.key)


def is_address(source: object) -> bool:
    """Whether a person named a server rather than a folder, a file or a hub id."""
    return str(source).lower().startswith(("http://", "https://"))


def find_server(address: str, key: str | None = None) -> Server:
    """The server of an address, once it has answered.

    Raises:
        UsageError: the address is none.
        ModelError: no server answers there, or it offers no such model.
    """
    parts = urlsplit(address)
    if not parts.hostname:
        raise UsageError(
            f"expected an address such as http://host:8000/v1?model=NAME, got {address!r}"
        )
    base = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    wanted = parse_qs(parts.query).get("model", [None])[0]
    offered = _offered(base, key)
    names = [str(entry["id"]) for entry in offered]
    if wanted is None and len(names) == 1:
        wanted = names[0]
    if wanted is None or (names and wanted not in names):
        menu = ", ".join(names) or "none"
        said = "none named" if wanted is None else repr(wanted)
        raise ModelError(
            f"expected ?model= one of those at {_without_login(base)} ({menu}), got {said}: "
            "add it to the address"
        )
    entry = next((entry for entry in offered if entry["id"] == wanted), {})
    limit = entry.get("max_model_len") or entry.get("context_length")
    return Server(base, wanted, key, limit if isinstance(limit, int) else None)


def refuse(answer: httpx.Response, name: str, *, as_ids: bool) -> None:
    """What a status other than 200 means; as_ids: the prompt was sent as token ids.

    Raises:
        NoIds, Broken: the request is worth another try, as text or as it is.
        ModelError: it can never work.
    """
    if answer.status_code in _TAKES_NO_IDS and as_ids:
        raise NoIds
    if answer.status_code in _WORTH_ANOTHER_TRY:
        raise Broken(f"status {answer.status_code}")
    raise ModelError(
        f"expected {name} to answer, its server refused with status {answer.status_code} "
        f"({_reason(answer)}): check the address, the model and the key"
    )


def parsed(text: str) -> dict[str, Any]:
    """A JSON object that a server sent.

    Raises:
        Broken: it is none, or it tells of an error.
    """
    try:
        found = json.loads(text)
    except ValueError:
        raise Broken("the answer is no JSON") from None
    if not isinstance(found, dict):
        raise Broken("the answer is no JSON object")
    if "error" in found:
        raise Broken(f"the server says: {found['error']}"[:200])
    return found


def _offered(base: str, key: str | None) -> list[dict[str, Any]]:
    """The models a server lists."""
    place = _without_login(base)
    try:
        answer = httpx.get(f"{base}/models", headers=_login(key), timeout=CONNECT_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        told = str(error) or type(error).__name__
        raise ModelError(
            f"expected a server at {place}, none answers ({told}): start it, or check the address"
        ) from error
    if answer.status_code != httpx.codes.OK:
        raise ModelError(
            f"expected a list of models at {place}/models, got status {answer.status_code} "
            f"({_reason(answer)}): check the address and the key"
        )
    try:
        listed = parsed(answer.text).get("data") or []
    except Broken as error:
        raise ModelError(f"expected an OpenAI-compatible server at {place}: {error}") from error
    return [entry for entry in listed if isinstance(entry, dict) and "id" in entry]


def _reason(answer: httpx.Response) -> str:
    return " ".join(answer.text.split())[:200] or answer.reason_phrase


def _login(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _without_login(base: str) -> str:
    parts = urlsplit(base)
    place = parts.hostname or ""
    place = f"{place}:{parts.port}" if parts.port else place
    return urlunsplit((parts.scheme, place, parts.path, "", ""))

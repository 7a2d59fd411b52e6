"""What the page calls a model: short in the bar, in full where one hovers. Pure."""

from pathlib import PurePath
from urllib.parse import parse_qs, urlsplit, urlunsplit


def short_name(source: str) -> str:
    """The last part of a folder or a hub id; of a server's address, the model it names."""
    parts = urlsplit(source)
    if parts.scheme in ("http", "https"):
        named = parse_qs(parts.query).get("model", [""])[0]
        return named.rstrip("/").rpartition("/")[2] or _place(source)
    return PurePath(source).name or source


def full_name(source: str) -> str:
    """The source as it was given; an address without its user and password."""
    parts = urlsplit(source)
    if parts.scheme not in ("http", "https"):
        return source
    return urlunsplit((parts.scheme, _place(source), parts.path, parts.query, ""))


def _place(address: str) -> str:
    """Host and port."""
    return urlsplit(address).netloc.rpartition("@")[2]

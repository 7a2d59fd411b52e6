"""Tokens as text on the page: bytes that make a character together stand together, white space is
seen.

chip       one or more tokens that make whole characters; [start, stop) into the step's tokens
"""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from specguard_core.text import display_groups, join_pieces
from specguard_core.types import Candidate

SPACE, NEWLINE, TAB = "\u00b7", "\u21b5", "\u21e5"
_SEEN = str.maketrans({" ": SPACE, "\n": NEWLINE, "\t": TAB, "\r": "\u240d"})


def visible(text: str) -> str:
    """The text with white space and control characters that can be seen."""
    seen = text.translate(_SEEN)
    return "".join(
        f"\u27e8{ord(c):02x}\u27e9" if unicodedata.category(c) == "Cc" else c for c in seen
    )


def chips(token_ids: Sequence[int], pieces: Mapping[int, bytes]) -> list[dict[str, Any]]:
    """The tokens as chips, white space visible."""
    return [
        {"start": start, "stop": stop, "text": visible(text)}
        for start, stop, text in display_groups(token_ids, pieces)
    ]


def token_text(token_id: int, pieces: Mapping[int, bytes]) -> str:
    """One token by itself; bytes that make no character alone are written as hex."""
    piece = pieces[token_id]
    try:
        return visible(piece.decode("utf-8"))
    except UnicodeDecodeError:
        return f"\u27e8{piece.hex(' ')}\u27e9"


def hex_bytes(token_id: int, pieces: Mapping[int, bytes]) -> str:
    """The bytes of a token as hex pairs."""
    return pieces[token_id].hex(" ")


def plain_text(candidate: Candidate, pieces: Mapping[int, bytes]) -> str:
    """A step's own text, its delimiter or end mark cut."""
    ids = candidate.token_ids[:-1] if candidate.stop == "eos" else candidate.token_ids
    return join_pieces(ids, pieces).strip()


def step_text(candidate: Candidate, pieces: Mapping[int, bytes], most: int | None = None) -> str:
    """A step as one line, its delimiter or end mark cut, inner line breaks visible.

    most: characters after which it is cut; None shows all of it.
    """
    text = plain_text(candidate, pieces).replace("\n", NEWLINE)
    return text if most is None or len(text) <= most else text[: most - 1] + "…"

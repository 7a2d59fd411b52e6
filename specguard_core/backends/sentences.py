"""Sentence embeddings of whole steps: the optional `sentence-transformers` extra, never online.

An encoder reads at most `max_seq_length` tokens and drops the rest without a word, so a longer text
is cut into pieces it can read and the pieces' embeddings are averaged, weighted by their tokens.

piece   a stretch of a text that the encoder reads whole
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from specguard_core.errors import ModelError

ENCODER_NAME = "sentence-transformers/all-MiniLM-L6-v2"
"""A small general encoder; 256 tokens at a time."""


class SentenceEncoder(Protocol):
    """The part of `sentence_transformers.SentenceTransformer` that is used."""

    @property
    def max_seq_length(self) -> int | None: ...

    @property
    def tokenizer(self) -> Any: ...

    def encode(self, sentences: list[str], *, show_progress_bar: bool) -> Any: ...


def embed_locally(texts: Sequence[str]) -> NDArray[np.float64]:
    """[d, width] embeddings of whole texts, by the encoder on this machine.

    Raises:
        ModelError: the package is not installed, or the weights are not here.
    """
    return embed(texts, load_encoder(ENCODER_NAME))


@lru_cache(maxsize=1)
def load_encoder(name: str) -> SentenceEncoder:
    """The encoder of that folder or hub id, from this machine only.

    Raises:
        ModelError: the package is not installed, or the weights are not here.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ModelError(
            "expected the sentence-transformers package for this similarity method, got none: run "
            "pip install sentence-transformers, or choose lexical or numeric"
        ) from error
    try:
        encoder: SentenceEncoder = SentenceTransformer(name, device="cpu", local_files_only=True)
    except Exception as error:  # whatever the library raises, the weights are of no use
        raise ModelError(
            f"expected the weights of {name} on this machine, and they would not load: download "
            f"them once with `hf download {name}`, or choose lexical or numeric"
        ) from error
    return encoder


def embed(texts: Sequence[str], encoder: SentenceEncoder) -> NDArray[np.float64]:
    """[d, width] embeddings; each text counts to its last token, however long it is.

    Raises:
        ModelError: a piece that cannot be cut small enough to be read whole.
    """
    pieces: list[str] = []
    weights: list[int] = []
    owners: list[int] = []
    for owner, text in enumerate(texts):
        for piece, n_tokens in _pieces(text, encoder):
            pieces.append(piece)
            weights.append(n_tokens)
            owners.append(owner)
    encoded = np.asarray(encoder.encode(pieces, show_progress_bar=False), dtype=np.float64)
    norms = np.linalg.norm(encoded, axis=1, keepdims=True)
    unit = np.divide(encoded, norms, out=np.zeros_like(encoded), where=norms > 0)
    pooled = np.zeros((len(texts), unit.shape[1]))
    np.add.at(pooled, owners, unit * np.asarray(weights)[:, None])
    return pooled


def _pieces(text: str, encoder: SentenceEncoder) -> list[tuple[str, int]]:
    """The text in order as (piece, tokens), each piece short enough to be read whole."""
    limit = encoder.max_seq_length
    found: list[tuple[str, int]] = []
    waiting = [text]
    while waiting:
        piece = waiting.pop()
        n_tokens = _count_tokens(piece, encoder)
        if limit is None or n_tokens <= limit:
            found.append((piece, n_tokens))
            continue
        if len(piece) < 2:
            raise ModelError(
                f"expected an encoder that reads one character whole, got one that reads {limit} "
                "tokens: choose another similarity method"
            )
        cut = _middle(piece)
        waiting += [piece[cut:], piece[:cut]]
    return found


def _count_tokens(text: str, encoder: SentenceEncoder) -> int:
    """Tokens the encoder would need for the whole text, its special tokens included."""
    return len(encoder.tokenizer(text, truncation=False, verbose=False)["input_ids"])


def _middle(text: str) -> int:
    """Where to cut: at the white space nearest below the middle, else above, else in the middle."""
    half = len(text) // 2
    below = text.rfind(" ", 1, half + 1)
    above = text.find(" ", half)
    if below > 0:
        return below
    return above if above > 0 else half

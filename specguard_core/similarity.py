"""How alike two candidate steps are, by several methods in one typed table. Knows no UI.

lexical                 cosine of TF-IDF weighted character n-grams, over the draws
numeric                 Jaccard of the multisets of equations; lexical where neither step has any
hidden                  cosine of the draft's mean last hidden states, centred over the draws
sentence-transformers   cosine of sentence embeddings: the paper's method, an optional extra

To add one: a function of Draws, a row in SIMILARITY_METHODS, its name in config.SelectionMethod, a
law in the tests. The first two need nothing but text, so every decode records them.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specguard_core.config import SelectionMethod
from specguard_core.equations import equations
from specguard_core.errors import UsageError

FloatArray = NDArray[np.float64]
Matrix = tuple[tuple[float, ...], ...]

NGRAM_SIZES = (2, 3, 4)
_SAME_VECTOR = 1e-6
"""Centred vectors shorter than this share of the longest vector differ by rounding only."""


@dataclass(frozen=True, slots=True)
class Draws:
    """What a similarity may be computed from: d distinct texts, and how often each was drawn."""

    texts: tuple[str, ...]
    counts: tuple[int, ...]


def lexical_similarity(draws: Draws) -> FloatArray:
    """Cosine of TF-IDF character n-grams, [d, d] in [0, 1].

    Case and runs of white space do not count. idf = ln((1 + k) / (1 + draws with it)) + 1, over
    the k draws and not the d texts.
    """
    grams = [_ngrams(text) for text in draws.texts]
    frequency: Counter[str] = Counter()
    for counted, draw_count in zip(grams, draws.counts, strict=True):
        for gram in counted:
            frequency[gram] += draw_count
    n_draws = sum(draws.counts)
    idf = [
        (gram, math.log((1 + n_draws) / (1 + n_with)) + 1)
        for gram, n_with in sorted(frequency.items())
    ]
    weighted = [[counted.get(gram, 0) * weight for gram, weight in idf] for counted in grams]
    return _similarity(_cosine(np.array(weighted).reshape(len(grams), len(idf))))


def numeric_similarity(draws: Draws) -> FloatArray:
    """Jaccard of the multisets of equations, [d, d]; the lexical value where neither has one."""
    found = [equations(text) for text in draws.texts]
    without = [index for index, counted in enumerate(found) if not counted]
    alike = np.zeros((len(found), len(found)))
    for i, left in enumerate(found):
        for j, right in enumerate(found[: i + 1]):
            union = (left | right).total()
            alike[i, j] = alike[j, i] = (left & right).total() / union if union else 0.0
    if len(without) > 1:
        pairs = np.ix_(without, without)
        alike[pairs] = lexical_similarity(draws)[pairs]
    return _similarity(alike)


def sentence_similarity(draws: Draws) -> FloatArray:
    """Cosine of sentence embeddings, clipped to [0, 1].

    Raises:
        ModelError: the package is not installed, or its weights are not on this machine.
    """
    from specguard_core.backends.sentences import embed_locally

    return _similarity(_cosine(embed_locally(draws.texts)))


def hidden_similarity(vectors: ArrayLike, counts: Sequence[int]) -> Matrix:
    """Cosine of mean hidden states, centred over the draws and mapped from [-1, 1] to [0, 1].

    Centring takes away what all steps of this context share. It leaves two different vectors
    opposite, whatever they are, so two candidates are either the same (1) or not (0).

    Args:
        vectors: [d, width], one mean hidden state per candidate.
        counts: [d] draws of each.

    Raises:
        UsageError: another shape, or vectors that are not finite.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != len(counts) or not np.isfinite(rows).all():
        raise UsageError(
            f"expected one finite hidden vector for each of {len(counts)} candidates, got shape "
            f"{list(rows.shape)}: the model's hidden states are damaged"
        )
    largest = float(np.linalg.norm(rows, axis=1).max(initial=0.0))
    centred = rows - np.average(rows, axis=0, weights=counts)
    same_as_mean = np.linalg.norm(centred, axis=1) <= _SAME_VECTOR * largest
    centred[same_as_mean] = 0.0
    mapped = (1.0 + _cosine(centred)) / 2.0
    mapped[np.ix_(same_as_mean, same_as_mean)] = 1.0
    return as_matrix(_similarity(mapped))


SIMILARITY_METHODS: Mapping[SelectionMethod, Callable[[Draws], FloatArray] | None] = {
    "lexical": lexical_similarity,
    "numeric": numeric_similarity,
    "hidden": None,
    "sentence-transformers": sentence_similarity,
}
"""None: only the model that drew the steps can give it, so it comes recorded."""

ALWAYS_RECORDED: tuple[SelectionMethod, ...] = ("lexical", "numeric")


def measured_similarity(
    texts: Sequence[str],
    counts: Sequence[int],
    *,
    method: SelectionMethod,
    recorded: Mapping[SelectionMethod, Matrix],
) -> dict[SelectionMethod, Matrix]:
    """The matrix of every method available: the recorded ones, those of text, and the chosen one.

    Raises:
        ModelError: the chosen method needs a package or weights that are not on this machine.
    """
    draws = Draws(tuple(texts), tuple(counts))
    wanted = dict.fromkeys((*ALWAYS_RECORDED, *recorded, method))
    measured: dict[SelectionMethod, Matrix] = {}
    for name in wanted:
        compute = SIMILARITY_METHODS.get(name)
        if name in recorded:
            measured[name] = recorded[name]
        elif len(texts) == 1:
            measured[name] = ((1.0,),)
        elif compute is not None:
            measured[name] = as_matrix(compute(draws))
    return measured


def as_matrix(similarity: FloatArray) -> Matrix:
    """The array as nested tuples of floats, as a Selection holds it."""
    return tuple(tuple(row) for row in similarity.tolist())


def _ngrams(text: str) -> Counter[str]:
    # A space at either end, so that a text of one character has n-grams too.
    padded = f" {' '.join(text.lower().split())} "
    return Counter(
        padded[start : start + size]
        for size in NGRAM_SIZES
        for start in range(len(padded) - size + 1)
    )


def _cosine(rows: ArrayLike) -> FloatArray:
    """[d, d] in [-1, 1]; 0 with a vector of zeros."""
    vectors = np.asarray(rows, dtype=np.float64)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return np.asarray(unit @ unit.T, dtype=np.float64)


def _similarity(alike: FloatArray) -> FloatArray:
    """Clipped to [0, 1], exactly symmetric, exactly 1 on the diagonal."""
    clipped = np.clip((alike + alike.T) / 2, 0.0, 1.0)
    np.fill_diagonal(clipped, 1.0)
    return clipped

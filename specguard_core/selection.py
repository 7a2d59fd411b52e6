"""Which of the draft's draws stands for all of them: self-consistency, and clusters of alike ones.

Knows no model and no UI. Candidates are distinct; a count says how many draws each stands for, and
every rule here gives what it would give were each draw a point of its own.

k            draws in all;  d  distinct candidates among them
similarity   symmetric [d, d] in [0, 1], diagonal 1
consistency  a candidate's mean similarity to the other k - 1 draws, in [0, 1]; higher is better
medoid       the candidate of highest consistency
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specguard_core.config import SelectionMethod
from specguard_core.errors import NotMeasured, UsageError
from specguard_core.similarity import Matrix, hidden_similarity, measured_similarity
from specguard_core.types import Selection

__all__ = ["clusters", "consistency", "hidden_similarity", "medoid", "reselect", "select"]

TIE = 1e-9
"""Scores, and similarities against the cut, this close are equal."""


def select(
    texts: Sequence[str],
    counts: Sequence[int],
    mean_logprobs: Sequence[float],
    *,
    method: SelectionMethod,
    cluster_similarity: float,
    recorded: Mapping[SelectionMethod, Matrix] | None = None,
) -> Selection:
    """The medoid of some draws, with the matrix of every method that is available now.

    Args:
        texts: [d] candidate steps.
        counts: [d] draws of each, at least 1, at least 2 in all: a single draw needs no selection.
        mean_logprobs: [d] nats, which break ties.
        method: the similarity that decides.
        cluster_similarity: cut of the clusters, in [0, 1].
        recorded: matrices that a model gave, such as `hidden_similarity`.

    Raises:
        UsageError: lengths that differ, or fewer than two draws.
        NotMeasured: the method has no data here; the sentence names those that have.
    """
    if len(texts) != len(counts):
        raise UsageError(f"expected a text for each of {len(counts)} counts, got {len(texts)}")
    similarity = measured_similarity(texts, counts, method=method, recorded=recorded or {})
    return _selection(similarity, counts, mean_logprobs, method, cluster_similarity)


def reselect(
    recorded: Selection,
    counts: Sequence[int],
    mean_logprobs: Sequence[float],
    *,
    method: SelectionMethod,
    cluster_similarity: float,
) -> Selection:
    """The same draws selected by another method or cut, from the matrices that were recorded.

    Raises:
        NotMeasured: the method was not recorded; the sentence names those that were.
    """
    similarity = dict(recorded.similarity)
    if len(counts) == 1:
        similarity.setdefault(method, ((1.0,),))
    return _selection(similarity, counts, mean_logprobs, method, cluster_similarity)


def consistency(similarity: ArrayLike, counts: Sequence[int]) -> NDArray[np.float64]:
    """Mean similarity of each candidate to the other k - 1 draws, [d] in [0, 1].

    Equal draws count 1 each: ((c_j - 1) + sum over i != j of c_i S_ij) / (k - 1).
    """
    matrix, weights = _checked(similarity, counts)
    to_others = (matrix @ weights - 1.0) / (weights.sum() - 1.0)
    return np.asarray(np.clip(to_others, 0.0, 1.0))


def medoid(scores: Sequence[float], mean_logprobs: Sequence[float]) -> int:
    """Index of the highest score; ties go to the higher mean log-probability, then lower index."""
    highest = max(scores)
    tied = [index for index, score in enumerate(scores) if highest - score <= TIE]
    return max(tied, key=lambda index: (mean_logprobs[index], -index))


def clusters(similarity: ArrayLike, counts: Sequence[int], cut: float) -> tuple[int, ...]:
    """Cluster index per candidate: agglomerative, average linkage over draws, cut at a similarity.

    The two clusters of highest mean similarity between their draws are joined while that mean is
    at least `cut`. Cluster 0 has the most draws; equal ones are in order of their first candidate.
    """
    matrix, weights = _checked(similarity, counts)
    members = [[index] for index in range(len(weights))]
    between = matrix.copy()
    np.fill_diagonal(between, -1.0)
    while len(members) > 1:
        first, second = divmod(int(np.argmax(between)), len(members))
        if between[first, second] < cut - TIE:
            break
        # Lance-Williams update of average linkage: sizes are draws, not candidates.
        total = weights[first] + weights[second]
        joined = (weights[first] * between[first] + weights[second] * between[second]) / total
        between[first] = between[:, first] = joined
        between[first, first] = -1.0
        weights[first] = total
        members[first] += members[second]
        between = np.delete(np.delete(between, second, axis=0), second, axis=1)
        weights = np.delete(weights, second)
        del members[second]
    order = sorted(range(len(members)), key=lambda c: (-weights[c], min(members[c])))
    labels = {index: label for label, c in enumerate(order) for index in members[c]}
    return tuple(labels[index] for index in range(len(labels)))


def _selection(
    similarity: Mapping[SelectionMethod, Matrix],
    counts: Sequence[int],
    mean_logprobs: Sequence[float],
    method: SelectionMethod,
    cut: float,
) -> Selection:
    if method not in similarity:
        raise NotMeasured(
            f"expected a similarity that was recorded for these draws, got {method!r}: choose out "
            f"of {', '.join(similarity)}, or decode again with a model that gives it"
        )
    if len(mean_logprobs) != len(counts):
        raise UsageError(
            f"expected a mean log-probability for each of {len(counts)} candidates, "
            f"got {len(mean_logprobs)}"
        )
    matrix = similarity[method]
    scores = consistency(matrix, counts).tolist()
    return Selection(
        similarity=similarity,
        clusters=clusters(matrix, counts, cut),
        consistency=tuple(scores),
        chosen=medoid(scores, mean_logprobs),
        method=method,
    )


def _checked(
    similarity: ArrayLike, counts: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if min(counts, default=0) < 1 or sum(counts) < 2:
        raise UsageError(
            f"expected at least two draws, each candidate with one or more, got counts "
            f"{list(counts)}: a single draw needs no selection"
        )
    matrix = np.asarray(similarity, dtype=np.float64)
    if matrix.shape != (len(counts), len(counts)):
        raise UsageError(
            f"expected a similarity of {len(counts)} x {len(counts)} for {len(counts)} candidates, "
            f"got shape {list(matrix.shape)}"
        )
    return matrix, np.array(counts, dtype=np.float64)

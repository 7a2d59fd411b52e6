"""Laws of selection: similarity, consistency, ties, clusters, and what is recorded of them."""

import itertools
import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.cluster import AgglomerativeClustering
from sklearn.feature_extraction.text import TfidfVectorizer

from specguard_core.backends.sentences import embed, load_encoder
from specguard_core.errors import ModelError, NotMeasured, UsageError
from specguard_core.selection import (
    clusters,
    consistency,
    hidden_similarity,
    medoid,
    reselect,
    select,
)
from specguard_core.similarity import Draws, lexical_similarity, numeric_similarity

WORDS = st.sampled_from(["Tom", "has", "12 + 8 = 20", "12 - 8 = 4", "apples", "so", "now", "é漢"])
TEXTS = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)


@st.composite
def drawn(draw, min_size=1):
    """(texts, counts, mean log-probs) of at least two draws, texts and log-probs all distinct."""
    texts = draw(st.lists(TEXTS, min_size=min_size, max_size=6, unique_by=str.lower))
    counts = draw(st.lists(st.integers(1, 4), min_size=len(texts), max_size=len(texts)))
    assume(sum(counts) > 1)
    logprobs = draw(st.permutations([-0.5 * (index + 1) for index in range(len(texts))]))
    return texts, counts, list(logprobs)


@st.composite
def similar(draw):
    """(similarity, counts) with a random symmetric matrix."""
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    assume(sum(counts) > 1)
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    upper = np.triu(generator.uniform(size=(len(counts), len(counts))), 1)
    return upper + upper.T + np.eye(len(counts)), counts


def as_points(counts):
    """Index of the candidate of each draw."""
    return [index for index, count in enumerate(counts) for _ in range(count)]


@given(drawn(), st.sampled_from(["lexical", "numeric"]))
def test_similarity_is_symmetric_in_the_unit_interval_with_ones_on_the_diagonal(draws, method):
    texts, counts, logprobs = draws
    chosen = select(texts, counts, logprobs, method=method, cluster_similarity=0.8)
    for matrix in map(np.array, chosen.similarity.values()):
        np.testing.assert_array_equal(matrix, matrix.T)
        assert np.all(np.diag(matrix) == 1)
        assert np.all((matrix >= 0) & (matrix <= 1))


@given(drawn(), st.sampled_from(["lexical", "numeric"]), st.data())
def test_permuting_candidates_permutes_the_similarity_and_keeps_the_chosen_text(
    draws, method, data
):
    texts, counts, logprobs = draws
    order = data.draw(st.permutations(range(len(texts))))
    before = select(texts, counts, logprobs, method=method, cluster_similarity=0.8)
    after = select(
        [texts[i] for i in order],
        [counts[i] for i in order],
        [logprobs[i] for i in order],
        method=method,
        cluster_similarity=0.8,
    )
    assert texts[order[after.chosen]] == texts[before.chosen]
    moved = np.array(before.similarity[method])[np.ix_(order, order)]
    np.testing.assert_allclose(after.similarity[method], moved, atol=1e-12)


@given(drawn(), st.sampled_from(["lexical", "numeric"]))
def test_counts_equal_duplicates_as_points(draws, method):
    texts, counts, logprobs = draws
    points = as_points(counts)
    by_count = select(texts, counts, logprobs, method=method, cluster_similarity=0.8)
    by_point = select(
        [texts[i] for i in points],
        [1] * len(points),
        [logprobs[i] for i in points],
        method=method,
        cluster_similarity=0.8,
    )
    assert points[by_point.chosen] == by_count.chosen
    np.testing.assert_allclose(
        by_point.consistency, [by_count.consistency[i] for i in points], atol=1e-9
    )


@given(similar(), st.floats(0, 1))
def test_clusters_are_average_linkage_with_each_draw_a_point(similarity_and_counts, cut):
    similarity, counts = similarity_and_counts
    points = as_points(counts)
    distance = 1 - similarity[np.ix_(points, points)]
    reference = AgglomerativeClustering(
        n_clusters=None, metric="precomputed", linkage="average", distance_threshold=1 - cut + 1e-9
    ).fit_predict(distance)
    ours = clusters(similarity, counts, cut)
    for (a, i), (b, j) in itertools.combinations(enumerate(points), 2):
        assert (reference[a] == reference[b]) == (ours[i] == ours[j])


@given(similar(), st.floats(0, 1))
def test_cluster_numbers_go_from_most_draws_to_fewest(similarity_and_counts, cut):
    similarity, counts = similarity_and_counts
    labels = clusters(similarity, counts, cut)
    assert set(labels) == set(range(max(labels) + 1))
    sizes = [
        sum(c for c, owner in zip(counts, labels, strict=True) if owner == label)
        for label in range(max(labels) + 1)
    ]
    ranks = [(-size, labels.index(label)) for label, size in enumerate(sizes)]
    assert ranks == sorted(ranks)


@given(similar(), st.floats(0, 1), st.floats(0, 1))
def test_a_lower_cut_never_makes_more_clusters(similarity_and_counts, one_cut, other_cut):
    similarity, counts = similarity_and_counts
    low, high = sorted((one_cut, other_cut))
    assert max(clusters(similarity, counts, low)) <= max(clusters(similarity, counts, high))


@given(drawn(min_size=2))
def test_lexical_similarity_is_the_cosine_of_scikit_learns_tf_idf_over_the_draws(draws):
    texts, counts, _ = draws
    padded = [f" {' '.join(text.split())} " for text in texts]
    vectoriser = TfidfVectorizer(analyzer="char", ngram_range=(2, 4))
    vectoriser.fit([padded[i] for i in as_points(counts)])
    vectors = vectoriser.transform(padded)
    expected = (vectors @ vectors.T).toarray()
    ours = lexical_similarity(Draws(tuple(texts), tuple(counts)))
    np.testing.assert_allclose(ours, expected, atol=1e-9)


def test_consistency_worked_by_hand():
    # k = 4: A twice, B, C. A: (1 + 0.6 + 0.2) / 3, B: (2 * 0.6 + 0.5) / 3, C: (2 * 0.2 + 0.5) / 3
    similarity = [[1, 0.6, 0.2], [0.6, 1, 0.5], [0.2, 0.5, 1]]
    np.testing.assert_allclose(consistency(similarity, [2, 1, 1]), [0.6, 1.7 / 3, 0.3])


def test_equal_scores_go_to_the_higher_log_probability_then_to_the_lower_index():
    assert medoid([0.5, 0.7, 0.7], [-1, -2, -1]) == 2
    assert medoid([0.7, 0.7 + 1e-12], [-1, -1]) == 0
    assert medoid([0.7, 0.7 + 1e-6], [-1, -9]) == 1
    assert medoid([0.7, 0.7], [float("-inf"), -50]) == 1


def test_average_linkage_counts_draws():
    # A and B join first. To C, their mean is 0.5 by candidate but 0.66 by draw: (4 * 0.7 + 0.5) / 5
    similarity = [[1, 0.9, 0.7], [0.9, 1, 0.5], [0.7, 0.5, 1]]
    assert clusters(similarity, [4, 1, 1], 0.65) == (0, 0, 0)
    assert clusters(similarity, [1, 4, 1], 0.65) == (0, 0, 1)


def test_cluster_zero_has_the_most_draws_and_ties_go_to_the_lower_index():
    apart = np.eye(3)
    assert clusters(apart, [1, 3, 1], 0.8) == (1, 0, 2)
    assert clusters(apart, [2, 2, 2], 0.8) == (0, 1, 2)


def test_candidates_exactly_at_the_cut_share_a_cluster():
    assert clusters([[1, 0.8], [0.8, 1]], [1, 1], 0.8) == (0, 0)
    assert clusters([[1, 0.79], [0.79, 1]], [1, 1], 0.8) == (0, 1)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("So 12 + 8 = 20 apples.", "In all, 8 + 12 = 20.", 1.0),
        ("So 12 + 8 = 20 apples.", "So 12 + 8 = 21 apples.", 0.0),
        ("1 + 1 = 2, 2 + 2 = 4", "1 + 1 = 2, 3 + 3 = 6", 1 / 3),
        ("1 + 1 = 2, 1 + 1 = 2", "1 + 1 = 2", 0.5),
        ("So 12 + 8 = 20 apples.", "So there are apples.", 0.0),
    ],
)
def test_numeric_similarity_compares_multisets_of_equations(left, right, expected):
    assert numeric_similarity(Draws((left, right), (1, 1)))[0, 1] == pytest.approx(expected)


def test_numeric_similarity_is_lexical_where_neither_step_has_an_equation():
    draws = Draws(("So Tom has apples.", "So Tom has pears.", "1 + 1 = 2"), (1, 2, 1))
    numeric, lexical = numeric_similarity(draws), lexical_similarity(draws)
    assert 0 < numeric[0, 1] == lexical[0, 1]
    assert numeric[0, 2] == numeric[1, 2] == 0


def test_lexical_similarity_tells_no_space_or_case_apart_and_bears_empty_texts():
    similarity = lexical_similarity(Draws(("Tom has 8.\n\n", "tom  has 8.", "", "7"), (1, 1, 1, 1)))
    assert similarity[0, 1] == pytest.approx(1)
    assert similarity[2].tolist() == [0, 0, 1, 0]


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_hidden_similarity_ignores_what_all_draws_share_and_their_scale(n_candidates, seed):
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(n_candidates, 16))
    counts = generator.integers(1, 4, size=n_candidates).tolist()
    moved = 3 * vectors + 5 * generator.normal(size=16)
    similarity = np.array(hidden_similarity(vectors, counts))
    np.testing.assert_allclose(hidden_similarity(moved, counts), similarity, atol=1e-8)
    assert np.all((similarity >= 0) & (similarity <= 1))


def test_hidden_similarity_is_centred_over_the_draws_by_hand():
    # Centred over [1, 0] twice and [0, 1], [-1, 0]: the mean is [0.25, 0.25].
    similarity = np.array(hidden_similarity([[1, 0], [0, 1], [-1, 0]], [2, 1, 1]))
    a, b = np.array([0.75, -0.25]), np.array([-0.25, 0.75])
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert similarity[0, 1] == pytest.approx((1 + cosine) / 2)


def test_hidden_similarity_of_two_is_the_same_or_not():
    assert hidden_similarity([[1.0, 2.0], [1.0, 3.0]], [1, 3])[0][1] == pytest.approx(0)
    same = np.array([[1.0, 2.0], [1.0, 2.0]])
    assert hidden_similarity(same, [1, 3]) == ((1, 1), (1, 1))
    assert hidden_similarity(same + np.array([[0, 0], [0, 1e-9]]), [1, 3]) == ((1, 1), (1, 1))
    assert hidden_similarity(np.zeros((3, 2)), [1, 1, 1]) == ((1, 1, 1),) * 3


def test_damaged_hidden_vectors_are_refused():
    with pytest.raises(UsageError, match="finite hidden vector"):
        hidden_similarity([[1.0, float("nan")]], [2])
    with pytest.raises(UsageError, match="finite hidden vector"):
        hidden_similarity([1.0, 2.0], [1, 1])


def test_every_method_available_records_its_matrix():
    hidden = hidden_similarity([[1.0, 0.0], [0.0, 1.0]], [1, 1])
    chosen = select(
        ["1 + 1 = 2", "2"],
        [1, 1],
        [-1, -2],
        method="hidden",
        cluster_similarity=0.8,
        recorded={"hidden": hidden},
    )
    assert list(chosen.similarity) == ["lexical", "numeric", "hidden"]
    assert (chosen.method, chosen.similarity["hidden"]) == ("hidden", hidden)


@pytest.mark.parametrize("method", ["lexical", "numeric", "hidden", "sentence-transformers"])
def test_equal_draws_only_are_one_cluster_by_any_method(method):
    chosen = select(["1 + 1 = 2"], [4], [-1], method=method, cluster_similarity=0.8)
    assert (chosen.chosen, chosen.clusters, chosen.consistency) == (0, (0,), (1.0,))
    assert chosen.similarity[method] == ((1.0,),)
    again = reselect(chosen, [4], [-1], method="hidden", cluster_similarity=0.8)
    assert (again.chosen, again.method) == (0, "hidden")


@given(drawn(), st.sampled_from(["lexical", "numeric"]), st.floats(0, 1))
def test_reselecting_recorded_draws_equals_selecting_them(draws, method, cut):
    texts, counts, logprobs = draws
    recorded = select(texts, counts, logprobs, method="lexical", cluster_similarity=0.8)
    again = reselect(recorded, counts, logprobs, method=method, cluster_similarity=cut)
    assert again == select(texts, counts, logprobs, method=method, cluster_similarity=cut)


def test_a_method_that_was_not_recorded_is_answered_with_the_menu():
    recorded = select(["a", "b"], [1, 1], [-1, -2], method="lexical", cluster_similarity=0.8)
    with pytest.raises(NotMeasured, match="'hidden': choose out of lexical, numeric"):
        reselect(recorded, [1, 1], [-1, -2], method="hidden", cluster_similarity=0.8)
    with pytest.raises(NotMeasured, match="'hidden': choose out of lexical, numeric"):
        select(["a", "b"], [1, 1], [-1, -2], method="hidden", cluster_similarity=0.8)


@pytest.mark.parametrize(
    ("texts", "counts", "logprobs", "expected"),
    [
        (["a"], [1], [-1], "single draw"),
        ([], [], [], "two draws"),
        (["a", "b"], [1, 0], [-1, -1], "one or more"),
        (["a", "b"], [1], [-1], "a text for each"),
        (["a", "b"], [1, 1], [-1], "log-probability for each"),
    ],
)
def test_what_cannot_be_selected_from_is_refused(texts, counts, logprobs, expected):
    with pytest.raises(UsageError, match=expected):
        select(texts, counts, logprobs, method="lexical", cluster_similarity=0.8)


def test_a_matrix_of_another_size_is_refused():
    with pytest.raises(UsageError, match="similarity of 3 x 3"):
        clusters(np.eye(2), [1, 1, 1], 0.8)


class TruncatingEncoder:
    """Reads 256 tokens, its two special ones included, and drops the rest without a word."""

    max_seq_length = 256

    def __init__(self) -> None:
        self.longest = 0

    def tokenizer(self, text, *, truncation, verbose):
        assert truncation is False
        return {"input_ids": [0, *range(len(text.split())), 1]}

    def encode(self, sentences, *, show_progress_bar):
        vectors = np.zeros((len(sentences), 64))
        for row, sentence in zip(vectors, sentences, strict=True):
            words = sentence.split()
            self.longest = max(self.longest, len(words) + 2)
            for word in words[: self.max_seq_length - 2]:
                row[sum(word.encode()) % 64] += 1
        return vectors


@pytest.mark.case(15)
def test_long_steps_equal_in_their_first_256_tokens_are_not_called_identical():
    start = [f"w{i % 7}" for i in range(256)]
    first = " ".join(start + [f"apples{i % 5}" for i in range(344)])
    second = " ".join(start + [f"pears{i % 3}" for i in range(344)])
    encoder = TruncatingEncoder()
    raw = encoder.encode([first, second], show_progress_bar=False)
    np.testing.assert_array_equal(raw[0], raw[1])  # the fault that others shipped
    encoder.longest = 0
    whole, other = embed([first, second], encoder)
    assert encoder.longest <= encoder.max_seq_length
    assert whole @ other < 0.95 * np.linalg.norm(whole) * np.linalg.norm(other)


def test_a_short_step_is_embedded_as_the_encoder_does_it():
    encoder = TruncatingEncoder()
    (ours,) = embed(["Tom has apples"], encoder)
    (theirs,) = encoder.encode(["Tom has apples"], show_progress_bar=False)
    np.testing.assert_allclose(ours / np.linalg.norm(ours), theirs / np.linalg.norm(theirs))


def test_an_encoder_that_can_read_nothing_is_refused():
    encoder = TruncatingEncoder()
    encoder.max_seq_length = 2
    with pytest.raises(ModelError, match="one character"):
        embed(["Tom"], encoder)


def test_sentence_transformers_without_the_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    load_encoder.cache_clear()
    with pytest.raises(ModelError, match=r"pip install .*, or choose lexical or numeric"):
        select(["a", "b"], [1, 1], [-1, -2], method="sentence-transformers", cluster_similarity=0.8)


def test_sentence_transformers_without_weights_says_where_to_get_them(monkeypatch):
    class Missing:
        def __init__(self, name, **options):
            assert options["local_files_only"] is True
            raise OSError("not a local folder")

    module = type(sys)("sentence_transformers")
    module.SentenceTransformer = Missing
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    load_encoder.cache_clear()
    with pytest.raises(ModelError, match=r"expected the weights of .* on this machine"):
        select(["a", "b"], [1, 1], [-1, -2], method="sentence-transformers", cluster_similarity=0.8)


def test_sentence_transformers_records_its_matrix_where_it_is_chosen(monkeypatch):
    module = type(sys)("sentence_transformers")
    module.SentenceTransformer = lambda name, **options: TruncatingEncoder()
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    load_encoder.cache_clear()
    chosen = select(
        ["Tom has apples", "Tom has pears", "Tom has apples too"],
        [1, 1, 1],
        [-1, -2, -3],
        method="sentence-transformers",
        cluster_similarity=0.8,
    )
    load_encoder.cache_clear()
    assert list(chosen.similarity) == ["lexical", "numeric", "sentence-transformers"]
    assert chosen.chosen == 0

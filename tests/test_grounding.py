"""Laws and hand-worked cases of grounding: mass on the context, found from step rows only."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core.errors import UsageError
from specguard_core.grounding import (
    entry_attribution,
    grounding_ceiling,
    quantise_rows,
    restore_rows,
    segment_attribution,
    token_grounding,
)

PLAIN = {"sparsify": 0.0, "renormalise": True, "residual": False, "sink_tokens": 0}
SIZES = st.tuples(
    st.integers(1, 3), st.integers(1, 6), st.integers(0, 9), st.integers(0, 2**32 - 1)
)
OPTIONS = [
    {"sparsify": sparsify, "renormalise": renormalise, "residual": residual, "sink_tokens": sinks}
    for sparsify, renormalise, residual, sinks in itertools.product(
        (0.0, 0.01, 0.2, 0.9), (True, False), (True, False), (0, 1, 3, 50)
    )
]


def random_causal(layers: int, size: int, seed: int) -> np.ndarray:
    """[layers, size, size] float32: causal, rows sum to 1, some of them peaked."""
    generator = np.random.default_rng(seed)
    sharpness = generator.uniform(0.5, 8, size=(layers, size, 1))
    scores = np.exp(sharpness * generator.normal(size=(layers, size, size)))
    scores *= np.tril(np.ones((size, size)))
    return (scores / scores.sum(axis=-1, keepdims=True)).astype(np.float32)


def plain_loop(attention, n_context, *, sparsify, renormalise, residual, sink_tokens):
    """The definition of DESIGN section 5, one number at a time."""
    entered = None
    for layer in attention:
        rows = []
        for t, given_row in enumerate(layer):
            row = [float(value) for value in given_row]
            if sink_tokens and sum(row[sink_tokens:]) > 0:
                rest = sum(row[sink_tokens:])
                row = [0.0 if j < sink_tokens else value / rest for j, value in enumerate(row)]
            thinned = [0.0 if value < np.float32(sparsify) else value for value in row]
            if any(thinned):
                row = [value / sum(thinned) for value in thinned] if renormalise else thinned
            if residual:
                row = [0.5 * value + 0.5 * (j == n_context + t) for j, value in enumerate(row)]
            rows.append(row)
        below = entered
        entered = [
            [
                row[j]
                + (
                    0.0
                    if below is None
                    else sum(row[n_context + s] * below[s][j] for s in range(len(rows)))
                )
                for j in range(n_context)
            ]
            for row in rows
        ]
    return np.array(entered).reshape(len(attention[0]), n_context)


@given(SIZES, st.booleans())
def test_grounding_is_the_mass_on_the_context_of_the_full_rollout(sizes, residual):
    layers, n_step, n_context, seed = sizes
    full = random_causal(layers, n_context + n_step, seed)
    rollout = np.eye(n_context + n_step)
    for layer in full.astype(np.float64):
        rows = layer / layer.sum(axis=1, keepdims=True)
        rollout = (0.5 * rows + 0.5 * np.eye(len(rows)) if residual else rows) @ rollout
    entered = entry_attribution(full[:, n_context:], n_context, **{**PLAIN, "residual": residual})
    mass = rollout[n_context:, :n_context].sum(axis=1)
    np.testing.assert_allclose(token_grounding(entered), mass, atol=1e-6)


@given(SIZES, st.sampled_from((0.0, 0.01, 0.05)), st.booleans())
def test_grounding_is_one_minus_the_mass_that_stays_in_the_step(sizes, sparsify, residual):
    layers, n_step, n_context, seed = sizes
    rows = random_causal(layers, n_context + n_step, seed)[:, n_context:]
    options = {**PLAIN, "sparsify": sparsify, "residual": residual}
    stays = np.ones(n_step)
    for layer in rows:
        kept = np.where(layer < np.float32(sparsify), 0.0, layer.astype(np.float64))
        kept /= kept.sum(axis=1, keepdims=True)
        to_step = kept[:, n_context:]
        stays = (0.5 * to_step + 0.5 * np.eye(n_step) if residual else to_step) @ stays
    grounding = token_grounding(entry_attribution(rows, n_context, **options))
    np.testing.assert_allclose(grounding, 1 - stays, atol=1e-6)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@settings(max_examples=6)
@given(sizes=SIZES)
def test_every_combination_of_options_equals_a_plain_loop_over_the_definition(options, sizes):
    layers, n_step, n_context, seed = sizes
    rows = random_causal(layers, n_context + n_step, seed)[:, n_context:]
    if seed % 3 == 0:
        rows[:, 0] = 0.0  # nothing in the window at all
    if seed % 3 == 1:
        rows[:, -1] = np.float32(0.004)  # nothing above any bound
    expected = plain_loop(rows, n_context, **options)
    np.testing.assert_allclose(
        entry_attribution(rows, n_context, **options), expected, rtol=1e-9, atol=1e-12
    )


@given(SIZES, st.sampled_from(OPTIONS))
def test_grounding_lies_between_zero_and_its_ceiling(sizes, options):
    layers, n_step, n_context, seed = sizes
    rows = random_causal(layers, n_context + n_step, seed)[:, n_context:]
    grounding = token_grounding(entry_attribution(rows, n_context, **options))
    assert np.all(grounding >= 0)
    assert np.all(grounding <= grounding_ceiling(layers, options["residual"]) + 1e-6)


@given(SIZES, st.sampled_from(OPTIONS))
def test_reordering_context_positions_reorders_the_attribution(sizes, options):
    layers, n_step, n_context, seed = sizes
    options = {**options, "sink_tokens": 0}
    rows = random_causal(layers, n_context + n_step, seed)[:, n_context:]
    order = np.random.default_rng(seed).permutation(n_context)
    keys = np.concatenate([order, np.arange(n_context, n_context + n_step)])
    moved = entry_attribution(rows[:, :, keys], n_context, **options)
    whole = entry_attribution(rows, n_context, **options)
    np.testing.assert_allclose(moved, whole[:, order], atol=1e-9)


@given(SIZES, st.sampled_from(OPTIONS))
def test_later_step_tokens_do_not_change_earlier_ones(sizes, options):
    layers, n_step, n_context, seed = sizes
    rows = random_causal(layers, n_context + n_step, seed)[:, n_context:]
    whole = entry_attribution(rows, n_context, **options)
    for stop in range(1, n_step + 1):
        part = entry_attribution(rows[:, :stop, : n_context + stop], n_context, **options)
        np.testing.assert_allclose(part, whole[:stop], atol=1e-9)


def test_a_case_worked_by_hand_with_two_layers():
    # n = 2, m = 2. E_1 = [[.5, .25], [.2, .1]]
    # E_2 row 0 = [.4, .4] + .2 E_1[0] = [.5, .45]
    # E_2 row 1 = [0, .5] + .25 E_1[0] + .25 E_1[1] = [.175, .5875]
    attention = [
        [[0.5, 0.25, 0.25, 0.0], [0.2, 0.1, 0.3, 0.4]],
        [[0.4, 0.4, 0.2, 0.0], [0.0, 0.5, 0.25, 0.25]],
    ]
    entered = entry_attribution(attention, 2, **PLAIN)
    np.testing.assert_allclose(entered, [[0.5, 0.45], [0.175, 0.5875]])
    np.testing.assert_allclose(token_grounding(entered), [0.95, 0.7625])


def test_the_residual_path_keeps_half_of_each_row_on_its_own_position():
    entered = entry_attribution([[[0.6, 0.4]]], 1, **{**PLAIN, "residual": True})
    np.testing.assert_allclose(entered, [[0.3]])


def test_dropped_entries_are_shared_out_again_only_when_renormalised():
    rows = np.array([[[0.5, 0.005, 0.495]]], dtype=np.float32)
    dropped = entry_attribution(
        rows, 2, sparsify=0.01, renormalise=False, residual=False, sink_tokens=0
    )
    shared = entry_attribution(
        rows, 2, sparsify=0.01, renormalise=True, residual=False, sink_tokens=0
    )
    np.testing.assert_allclose(dropped, [[0.5, 0.0]], atol=1e-7)
    np.testing.assert_allclose(shared, [[0.5 / 0.995, 0.0]], atol=1e-7)


def test_an_entry_equal_to_the_bound_is_kept():
    rows = np.array([[[0.01, 0.99]]], dtype=np.float32)
    options = {"sparsify": 0.01, "renormalise": True, "residual": False, "sink_tokens": 0}
    np.testing.assert_allclose(entry_attribution(rows, 1, **options), [[0.01]], rtol=1e-6)


def test_a_row_that_sparsifying_would_empty_stays_as_it_was():
    rows = np.full((1, 1, 4), 0.25, dtype=np.float32)
    options = {"sparsify": 0.5, "renormalise": True, "residual": False, "sink_tokens": 0}
    np.testing.assert_allclose(entry_attribution(rows, 3, **options), [[0.25, 0.25, 0.25]])


def test_sinks_are_dropped_and_the_rest_sums_to_one_even_without_renormalising():
    rows = np.array([[[0.6, 0.3, 0.1]]], dtype=np.float32)
    options = {"sparsify": 0.0, "renormalise": False, "residual": False, "sink_tokens": 1}
    np.testing.assert_allclose(entry_attribution(rows, 2, **options), [[0.0, 0.75]], rtol=1e-6)


def test_a_row_with_nothing_but_sinks_keeps_them():
    rows = np.array([[[0.7, 0.3, 0.0]]], dtype=np.float32)
    options = {"sparsify": 0.0, "renormalise": True, "residual": False, "sink_tokens": 2}
    np.testing.assert_allclose(entry_attribution(rows, 2, **options), [[0.7, 0.3]], rtol=1e-6)


def test_the_ceiling_halves_its_distance_to_one_with_each_residual_layer():
    assert [grounding_ceiling(layers, True) for layers in (1, 2, 3)] == [0.5, 0.75, 0.875]
    assert grounding_ceiling(3, False) == 1.0


def test_no_context_grounds_nothing():
    entered = entry_attribution(np.ones((2, 1, 1)), 0, **PLAIN)
    assert entered.shape == (1, 0)
    assert token_grounding(entered).tolist() == [0.0]


@given(SIZES, st.data())
def test_segments_share_out_all_of_a_tokens_grounding(sizes, data):
    layers, n_step, n_context, seed = sizes
    rows = random_causal(layers, n_context + n_step, seed)[:, n_context:]
    entered = entry_attribution(rows, n_context, **PLAIN)
    cuts = sorted(data.draw(st.lists(st.integers(0, n_context), max_size=4)))
    lengths = np.diff([0, *cuts, n_context]).tolist()
    shares = segment_attribution(entered, lengths)
    assert shares.shape == (n_step, len(lengths))
    np.testing.assert_allclose(shares.sum(axis=1), token_grounding(entered), atol=1e-12)


def test_segments_worked_by_hand():
    entered = np.array([[0.1, 0.2, 0.3, 0.05]])
    np.testing.assert_allclose(segment_attribution(entered, [2, 0, 2]), [[0.3, 0.0, 0.35]])


@given(SIZES)
def test_a_heatmap_is_off_by_at_most_half_a_level_of_its_row(sizes):
    layers, n_step, n_context, seed = sizes
    rows = random_causal(layers, n_context + n_step, seed)[:, n_context:]
    entered = entry_attribution(rows, n_context, **PLAIN)
    heatmap = quantise_rows(entered)
    assert (heatmap.n_context, len(heatmap.scales)) == (n_context, n_step)
    off = np.abs(restore_rows(heatmap) - entered)
    assert np.all(off <= np.array(heatmap.scales)[:, None] / 510 * (1 + 1e-9))


def test_a_heatmap_row_of_zeros_comes_back_as_zeros():
    assert restore_rows(quantise_rows(np.zeros((2, 3)))).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(
    ("attention", "n_context", "expected"),
    [
        (np.ones((2, 3)), 1, "shape"),
        (np.ones((0, 1, 2)), 1, "at least one layer"),
        (np.ones((1, 0, 2)), 2, "at least one layer"),
        (np.ones((1, 2, 4)), 3, "context of 3"),
        (np.ones((1, 2, 1)), -1, "context of -1"),
        (np.full((1, 1, 2), np.nan), 1, "finite"),
        (np.full((1, 1, 2), np.inf), 1, "finite"),
        (np.full((1, 1, 2), -0.1), 1, "at least 0"),
        ([[[1.0, 0.0], [1.0]]], 1, "one array"),
    ],
)
def test_damaged_attention_is_refused_in_one_sentence(attention, n_context, expected):
    with pytest.raises(UsageError, match=expected):
        entry_attribution(attention, n_context, **PLAIN)


def test_options_out_of_range_are_refused():
    rows = np.full((1, 1, 2), 0.5)
    with pytest.raises(UsageError, match="sparsify"):
        entry_attribution(rows, 1, **{**PLAIN, "sparsify": 1.5})
    with pytest.raises(UsageError, match="sink_tokens"):
        entry_attribution(rows, 1, **{**PLAIN, "sink_tokens": -1})
    with pytest.raises(UsageError, match="rollout layer"):
        grounding_ceiling(0, True)
    with pytest.raises(UsageError, match="add up"):
        segment_attribution(np.zeros((1, 3)), [1, 1])


def test_the_rows_given_are_not_altered():
    rows = random_causal(2, 6, seed=1)[:, 4:]
    before = rows.copy()
    entry_attribution(rows, 4, sparsify=0.2, renormalise=True, residual=True, sink_tokens=1)
    np.testing.assert_array_equal(rows, before)


def test_extra_memory_grows_with_step_times_context_not_with_context_squared():
    n_step, n_context = 32, 4000
    rows = np.full((3, n_step, n_context + n_step), 1 / 4032, dtype=np.float32)
    tracemalloc.start()
    try:
        entry_attribution(
            rows, n_context, sparsify=0.0001, renormalise=True, residual=True, sink_tokens=4
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * 8 * n_step * (n_context + n_step)

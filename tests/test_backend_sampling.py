"""From logits to tokens: what is sampled is the nucleus that a sort would give, at every size."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from specguard_core.backends.sampling import describe, nucleus_edge, pick, top_values
from specguard_core.errors import ModelError


def sorted_nucleus(logits: torch.Tensor, temperature: float, top_p: float) -> np.ndarray:
    """[vocabulary] probabilities by the textbook: softmax, sort, cut, renormalise; ties kept."""
    probabilities = (logits.double() / temperature).softmax(-1).numpy()
    order = np.argsort(-probabilities, kind="stable")
    before = np.cumsum(probabilities[order]) - probabilities[order]
    least = probabilities[order][before < top_p - 1e-12].min(initial=probabilities.max())
    kept = np.where(probabilities >= least, probabilities, 0)
    return kept / kept.sum()


def uniform_grid(count: int) -> list[float]:
    return [(index + 0.5) / count for index in range(count)]


@pytest.mark.parametrize("size", [7, 300, 20_000])
@pytest.mark.parametrize("spread", [0.3, 4.0])
@pytest.mark.parametrize("top_p", [0.3, 0.8, 1.0])
def test_sampled_tokens_follow_the_sorted_nucleus(size, spread, top_p):
    generator = torch.Generator().manual_seed(size)
    logits = torch.randn(1, size, generator=generator) * spread
    expected = sorted_nucleus(logits[0], 0.7, top_p)
    draws = 1_000 if size > 1_000 else 4_000
    seen = np.zeros(size)
    # Evenly spaced uniforms: the counts are the distribution's own, up to one each.
    for start in range(0, draws, 500):
        grid = uniform_grid(draws)[start : start + 500]
        picked = pick(logits.expand(500, -1), grid, temperature=0.7, top_p=top_p, top_k=0)
        np.add.at(seen, picked.token_ids, 1)
        for token_id, logprob in zip(picked.token_ids[:5], picked.logprobs[:5], strict=True):
            assert logprob == pytest.approx(np.log(expected[token_id]), abs=1e-4)
    assert not seen[expected == 0].any()
    # Rare tokens share a bin, as the test wants at least five expected in each.
    often = expected * draws >= 5
    observed = [*seen[often], seen[~often].sum()]
    wanted = np.array([*expected[often], expected[~often].sum()]) * draws
    if wanted[-1] < 1e-9:
        observed, wanted = observed[:-1], wanted[:-1]
    if len(wanted) > 1:
        assert chisquare(observed, wanted).pvalue > 0.01


def test_random_uniforms_pass_a_chi_square_against_the_sorted_nucleus():
    generator = np.random.default_rng(3)
    logits = torch.randn(1, 50, generator=torch.Generator().manual_seed(5)) * 2
    expected = sorted_nucleus(logits[0], 1.0, 0.9)
    uniforms = generator.random(20_000).tolist()
    picked = pick(logits.expand(20_000, -1), uniforms, temperature=1.0, top_p=0.9, top_k=0)
    seen = np.bincount(picked.token_ids, minlength=50)
    assert chisquare(seen[expected > 0], expected[expected > 0] * 20_000).pvalue > 1e-3


@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=200),
    st.floats(0, 1),
    st.floats(0, 1, exclude_max=True),
)
def test_ties_at_the_edge_belong_to_the_nucleus(levels, top_p, uniform):
    logits = torch.tensor([levels], dtype=torch.float32)
    expected = sorted_nucleus(logits[0], 1.0, top_p)
    picked = pick(logits, [uniform], temperature=1.0, top_p=top_p, top_k=0)
    # A top_p on the very border of two tokens may fall on either side of it.
    near = sorted_nucleus(logits[0], 1.0, min(1.0, top_p + 1e-6))
    assert expected[picked.token_ids[0]] > 0 or near[picked.token_ids[0]] > 0
    assert picked.logprobs[0] <= 0


@settings(max_examples=30)
@given(st.integers(0, 1000), st.floats(0.05, 0.99), st.sampled_from([0.01, 0.5, 3.0]))
def test_the_edge_found_without_a_sort_is_the_sorted_one(seed, top_p, spread):
    logits = torch.randn(3_000, generator=torch.Generator().manual_seed(seed)) * spread
    weights = logits.softmax(-1)
    edge = nucleus_edge(weights, top_p)
    mass_above = float(weights[weights > edge].double().sum())
    mass_with = float(weights[weights >= edge].double().sum())
    assert mass_above < top_p + 1e-6
    assert mass_with >= top_p - 1e-6


@pytest.mark.parametrize("size", [40, 5_000, 40_001])
def test_the_largest_are_found_without_a_sort(size):
    values = torch.randn(3, size, generator=torch.Generator().manual_seed(size))
    for count in (1, 5, 30):
        found, places = top_values(values, count)
        assert torch.equal(found, values.topk(count).values)
        assert torch.equal(values.gather(-1, places), found)


def test_top_k_keeps_only_the_k_likeliest():
    logits = torch.tensor([[0.0, 3.0, 2.0, 1.0]])
    grid = uniform_grid(200)
    picked = pick(logits.expand(200, -1), grid, temperature=1.0, top_p=1.0, top_k=2)
    assert set(picked.token_ids) == {1, 2}
    assert picked.logprobs[0] == pytest.approx(-np.log(1 + np.exp(-1)), abs=1e-6)
    one = pick(logits, [0.99], temperature=1.0, top_p=1.0, top_k=1)
    assert (one.token_ids, one.logprobs) == ([1], [0.0])


@pytest.mark.case(17)
@pytest.mark.parametrize("temperature", [0.0, 1e-30, 1e-4, 1.0])
@pytest.mark.parametrize("top_p", [0.0, 1e-4, 1.0])
def test_extreme_settings_on_half_precision_logits_stay_finite(temperature, top_p):
    logits = (torch.randn(4, 400, generator=torch.Generator().manual_seed(1)) * 300).half().float()
    picked = pick(logits, [0.0, 0.3, 0.6, 0.999], temperature=temperature, top_p=top_p, top_k=0)
    assert np.isfinite(picked.logprobs).all()
    if temperature < 1e-3 or top_p < 1e-3:
        assert picked.token_ids == logits.argmax(-1).tolist()
        assert picked.logprobs == [0.0] * 4


def test_greedy_takes_the_first_of_equals_and_is_certain():
    picked = pick(torch.tensor([[1.0, 5.0, 5.0]]), [0.9], temperature=0, top_p=0.1, top_k=1)
    assert (picked.token_ids, picked.logprobs) == ([1], [0.0])


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_broken_logits_are_refused(temperature, bad):
    logits = torch.zeros(1, 10)
    logits[0, 3] = bad
    with pytest.raises(ModelError, match="finite logits"):
        pick(logits, [0.5], temperature=temperature, top_p=0.8, top_k=0)


def test_what_is_recorded_is_of_the_raw_softmax():
    logits = torch.tensor([[2.0, 0.0, 0.0, -1e30], [1.0, 1.0, 1.0, 1.0]])
    recorded = describe(logits, torch.tensor([1, 3]), 2)
    probabilities = logits.softmax(-1)
    assert recorded.logprobs.tolist() == pytest.approx(
        [float(probabilities[0, 1].log()), -np.log(4)]
    )
    entropy = -(probabilities * probabilities.clamp_min(1e-38).log()).sum(-1)
    assert recorded.entropies.tolist() == pytest.approx(entropy.tolist(), abs=1e-6)
    assert recorded.other_ids[0, 0] == 0
    assert recorded.other_logprobs.shape == (2, 2)

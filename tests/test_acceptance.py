"""Acceptance of drafted tokens: every rule by hand on four tokens, and the law they serve."""

import math
import random
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core.acceptance import ACCEPTANCE, Doubt, accept_block, accept_greedy, draw, residual
from specguard_core.backends.distributions import entropies, overlaps, processed, top_ids
from specguard_core.block_requests import Sampling
from specguard_core.blocks import EasdRule
from specguard_core.config import BLOCK_STRATEGY_NAMES
from specguard_core.errors import ModelError

Q = (0.5, 0.25, 0.25, 0.0)
P = (0.25, 0.5, 0.0, 0.25)
BONUS = (0.1, 0.2, 0.3, 0.4)
EASD = EasdRule(top_n=2, draft_entropy=1.0, target_entropy=1.0, overlap=0.5)
UNIFORMS = st.floats(0, 1, exclude_max=True)


def judged(tokens, uniforms, correction=0.0, q=Q, p=P, **options):
    """accept_block of tokens that were all drafted from q where the target says p, then BONUS."""
    draft = torch.tensor([q] * len(tokens)).reshape(-1, 4)
    target = torch.tensor([*([p] * len(tokens)), BONUS])
    return accept_block(draft, target, tokens, uniforms, correction, **options)


def outcomes(block):
    return [decision.outcome for decision in block.decisions]


# speculative


@pytest.mark.parametrize(
    ("token", "uniform", "outcome"),
    [
        (0, 0.49, "accepted"),  # ratio 0.25 / 0.5
        (0, 0.5, "rejected"),
        (1, 0.999, "accepted"),  # ratio 0.5 / 0.25, at most 1
        (2, 0.0, "rejected"),  # p = 0: not even u = 0 accepts it
        (3, 0.999, "accepted"),  # q = 0, p > 0
    ],
)
def test_a_token_is_accepted_where_u_is_below_p_over_q(token, uniform, outcome):
    block = judged([token], [uniform])
    assert outcomes(block) == [outcome]
    assert (block.correction.kind == "bonus") == (outcome == "accepted")


def test_a_token_neither_model_would_say_is_rejected():
    assert outcomes(judged([0], [0.0], q=(0.0, 1, 0, 0), p=(0.0, 1, 0, 0))) == ["rejected"]


def test_a_decision_says_p_q_their_ratio_and_u():
    decision = judged([0], [0.3]).decisions[0]
    assert (decision.draft_prob, decision.target_prob) == (0.5, 0.25)
    assert (decision.ratio, decision.uniform) == (0.5, 0.3)
    assert (decision.draft_entropy, decision.target_entropy, decision.overlap) == (None,) * 3


@pytest.mark.parametrize(("uniform", "token"), [(0.0, 1), (0.49, 1), (0.5, 3), (0.999, 3)])
def test_a_correction_is_drawn_from_what_the_target_says_more_often(uniform, token):
    # max(0, p - q) = (0, 0.25, 0, 0.25)
    correction = judged([0], [0.9], uniform).correction
    assert (correction.token_id, correction.kind) == (token, "corrected")
    assert correction.target_prob == P[token]


@pytest.mark.parametrize(
    ("uniform", "token"), [(0.0, 0), (0.09, 0), (0.11, 1), (0.31, 2), (0.7, 3)]
)
def test_a_whole_block_earns_a_bonus_from_the_next_row(uniform, token):
    block = judged([1, 1], [0.9, 0.9], uniform)
    assert outcomes(block) == ["accepted", "accepted"]
    assert (block.correction.token_id, block.correction.kind) == (token, "bonus")


def test_nothing_is_judged_after_a_rejection():
    assert outcomes(judged([1, 0, 1, 1], [0.0, 0.9, 0.0, 0.0])) == ["accepted", "rejected"]


def test_a_block_of_no_tokens_is_the_targets_own_draw():
    block = accept_block(torch.zeros(0, 4), torch.tensor([BONUS]), [], [], 0.25)
    assert (block.decisions, block.correction.token_id) == ((), 1)


def test_where_p_is_q_every_token_is_accepted_and_the_residual_is_p():
    for token in (0, 1, 3):
        assert outcomes(judged([token], [0.999999], q=P, p=P)) == ["accepted"]
    assert residual(torch.tensor(P), torch.tensor(P)).tolist() == list(P)


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), UNIFORMS, UNIFORMS)
def test_greedy_is_the_rule_on_one_hot_rows(drafted, chosen, bonus, uniform, correction):
    rows = torch.eye(4)
    block = accept_block(rows[[drafted]], rows[[chosen, bonus]], [drafted], [uniform], correction)
    greedy = accept_greedy([drafted], [chosen, bonus], None)
    assert (outcomes(block), block.correction) == (outcomes(greedy), greedy.correction)
    assert block.decisions[0].ratio == greedy.decisions[0].ratio == float(drafted == chosen)


WEIGHTS = st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4).filter(
    lambda weights: sum(weights) > 1e-3
)


@given(WEIGHTS, WEIGHTS)
@settings(max_examples=60)
def test_accepted_and_corrected_mass_together_are_the_targets(q_weights, p_weights):
    q, p = (torch.tensor(w, dtype=torch.float64) for w in (q_weights, p_weights))
    q, p = q / q.sum(), p / p.sum()
    kept = torch.minimum(p, q)
    left = residual(p, q)
    total = kept + (1 - kept.sum()) * left / left.sum()
    assert torch.allclose(total, p, atol=1e-9)


@given(WEIGHTS, UNIFORMS)
def test_a_draw_never_gives_a_token_of_weight_0(weights, uniform):
    assert weights[draw(torch.tensor(weights), uniform)] > 0


# easd

UNSURE = Doubt([1.0], [1.0], [0.5])


def test_the_table_names_the_block_strategies():
    assert tuple(ACCEPTANCE) == BLOCK_STRATEGY_NAMES
    assert all(row.sentence for row in ACCEPTANCE.values())


@pytest.mark.parametrize(("uniform", "token"), [(0.0, 0), (0.49, 0), (0.5, 3)])
def test_a_doubtful_token_is_drawn_again_from_p_without_it(uniform, token):
    # p without token 1: (0.25, 0, 0, 0.25)
    block = judged([1], [0.0], uniform, rule="easd", easd=EASD, doubt=UNSURE)
    assert outcomes(block) == ["overridden"]
    assert (block.correction.token_id, block.correction.kind) == (token, "corrected")


@pytest.mark.parametrize(
    "doubt",
    [Doubt([0.99], [1.0], [0.5]), Doubt([1.0], [0.99], [0.5]), Doubt([1.0], [1.0], [0.49])],
    ids=["draft sure", "target sure", "apart"],
)
def test_a_token_is_doubtful_only_where_both_are_unsure_among_the_same_tokens(doubt):
    assert outcomes(judged([1], [0.0], rule="easd", easd=EASD, doubt=doubt)) == ["accepted"]


def test_only_tokens_that_pass_the_ordinary_test_can_be_overridden():
    block = judged([0], [0.9], rule="easd", easd=EASD, doubt=UNSURE)
    assert outcomes(block) == ["rejected"]
    assert block.correction == judged([0], [0.9]).correction


def test_a_one_hot_target_keeps_its_token_however_doubtful():
    block = judged([1], [0.0], p=(0.0, 1.0, 0, 0), rule="easd", easd=EASD, doubt=UNSURE)
    assert outcomes(block) == ["accepted"]


def test_what_easd_looks_at_is_recorded_and_speculative_ignores_it():
    for rule, outcome in (("easd", "overridden"), ("speculative", "accepted")):
        decision = judged([1], [0.0], rule=rule, easd=EASD, doubt=UNSURE).decisions[0]
        seen = (decision.draft_entropy, decision.target_entropy, decision.overlap)
        assert (seen, decision.outcome) == ((1.0, 1.0, 0.5), outcome)


def test_easd_without_entropies_is_refused():
    with pytest.raises(ValueError, match="entropies"):
        judged([1], [0.0], rule="easd")


# What is sampled from

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0], [0.0, 0.0, 0.0, 0.0]])


def test_temperature_then_top_k_then_the_nucleus():
    plain = processed(LOGITS[:1], Sampling(1.0, 1.0, 0))
    assert torch.allclose(plain, LOGITS[:1].softmax(-1))
    assert torch.allclose(
        processed(LOGITS[:1], Sampling(2.0, 1.0, 0)), (LOGITS[:1] / 2).softmax(-1)
    )
    two = processed(LOGITS[:1], Sampling(1.0, 1.0, 2))[0]
    assert two.tolist() == pytest.approx([math.e / (1 + math.e), 1 / (1 + math.e), 0, 0])
    # Of all, the likeliest has 0.64; of the two likeliest 0.73: the nucleus is taken after top-k.
    assert processed(LOGITS[:1], Sampling(1.0, 0.7, 0))[0].count_nonzero() == 2
    assert processed(LOGITS[:1], Sampling(1.0, 0.7, 2))[0].tolist() == [1, 0, 0, 0]


def test_ties_at_the_edge_of_the_nucleus_all_belong_to_it():
    assert processed(LOGITS[1:], Sampling(1.0, 0.3, 0)).tolist() == [[0.25] * 4]


@pytest.mark.parametrize(
    "sampling", [Sampling(0.0, 1.0, 0), Sampling(1.0, 0.0, 0), Sampling(1.0, 1.0, 1)]
)
def test_temperature_0_top_p_0_and_top_k_1_are_greedy(sampling):
    assert processed(LOGITS[:1], sampling).tolist() == [[1.0, 0, 0, 0]]


@pytest.mark.case(17)
@pytest.mark.parametrize("temperature", [1e-4, 1e-10, 1e-300])
@pytest.mark.parametrize("top_p", [1e-4, 1.0])
def test_extreme_settings_give_finite_probabilities(temperature, top_p):
    half = LOGITS[:1].half().float()
    assert processed(half, Sampling(temperature, top_p, 0)).tolist() == [[1.0, 0, 0, 0]]


def test_a_flat_nucleus_of_many_tokens_is_searched_as_a_whole():
    logits = torch.zeros(1, 1000)
    logits[0, :300] = 0.01
    kept = processed(logits, Sampling(1.0, 0.2, 0))[0]
    assert kept.count_nonzero() == 300
    assert float(kept.sum()) == pytest.approx(1, abs=1e-5)


def test_logits_that_are_no_numbers_are_refused():
    with pytest.raises(ModelError, match="NaN"):
        processed(torch.tensor([[0.0, math.nan]]), Sampling(1.0, 1.0, 0))


def test_entropy_is_in_nats_of_the_raw_softmax_and_overlap_a_share():
    assert entropies(LOGITS)[1].item() == pytest.approx(math.log(4))
    assert entropies(torch.tensor([[0.0, -1e30]])).tolist() == [0.0]
    assert sorted(top_ids(LOGITS[:1], 2)[0].tolist()) == [0, 1]
    assert overlaps(torch.tensor([[0, 1]]), torch.tensor([[1, 2]])).tolist() == [0.5]


# The law

GAMMA = 6


def bigrams(seed, spread):
    """Logits of the next of four tokens after each of four."""
    return torch.randn(4, 4, generator=torch.Generator().manual_seed(seed)) * spread


def decoded(generator, draft, target, n_tokens):
    """Token 0 and the speculative decode after it, from rows of next-token probabilities."""
    said, rows = [0], draft.tolist()
    while len(said) <= n_tokens:
        tokens = [said[-1]]
        for _ in range(GAMMA):
            tokens += generator.choices(range(4), rows[tokens[-1]])
        uniforms = [generator.random() for _ in range(GAMMA)]
        block = accept_block(
            draft[tokens[:-1]], target[tokens], tokens[1:], uniforms, generator.random()
        )
        said += [*tokens[1 : outcomes(block).count("accepted") + 1], block.correction.token_id]
    return said


def chi_square_999(n_degrees):
    """0.999 quantile of the chi-square distribution (Wilson and Hilferty 1931)."""
    part = 2 / (9 * n_degrees)
    return n_degrees * (1 - part + 3.0902 * part**0.5) ** 3


@pytest.mark.case(14)
@pytest.mark.parametrize(
    "sampling",
    [Sampling(0.5, 1.0, 0), Sampling(1.0, 0.9, 0), Sampling(1.5, 1.0, 3)],
    ids=["cold", "warm, nucleus", "hot, top-k"],
)
def test_two_tokens_are_distributed_as_the_targets(sampling):
    """Chi-square of 20,000 two-token samples, each given the token before it."""
    logits = bigrams(2, 1.5)
    target = processed(logits, sampling)
    draft = processed(logits + bigrams(1, 0.7), sampling)
    n_samples = 20_000
    said = decoded(random.Random(7), draft, target, 2 * n_samples)
    samples = zip(said[0::2], said[1::2], said[2::2], strict=False)
    seen = Counter(list(samples)[:n_samples])
    n_before = Counter()
    for (before, _, _), count in seen.items():
        n_before[before] += count
    statistic, n_degrees = 0.0, 0
    for before, n in n_before.items():
        chances = (target[before][:, None] * target).flatten().tolist()
        for place, chance in enumerate(chances):
            count = seen[before, place // 4, place % 4]
            assert chance > 0 or count == 0
            statistic += (count - n * chance) ** 2 / (n * chance) if chance > 0 else 0
        n_degrees += sum(chance > 0 for chance in chances) - 1
    assert statistic < chi_square_999(n_degrees)

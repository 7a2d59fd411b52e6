"""Which drafted tokens of a block are kept, and what the target says instead. Knows no model.

p, q        the target's and the draft's processed distributions, those really sampled from, [V]
ratio       min(1, p(x) / q(x)), the chance that a drafted token x is accepted
residual    max(0, p - q), normalised: what the target would say more often than the draft
bonus       a token drawn from p after a block that was accepted as a whole
override    a further rule on tokens that passed: under `easd` both models are unsure among much
            the same tokens, and the target draws again, without that token

With min(1, p / q) and the residual the kept tokens are distributed as the target's
(Leviathan et al. 2023, arXiv:2211.17192; Chen et al. 2023, arXiv:2302.01318).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specguard_core.blocks import (
    Correction,
    CorrectionKind,
    Decision,
    DecisionOutcome,
    EasdRule,
)
from specguard_core.config import BlockStrategyName


@dataclass(frozen=True, slots=True)
class Doubt:
    """How sure the models were at each drafted token; every list has g entries.

    draft_entropies, target_entropies   nats, of the raw softmax
    overlaps                            in [0, 1], share of the top-N sets that both models name
    """

    draft_entropies: Sequence[float]
    target_entropies: Sequence[float]
    overlaps: Sequence[float]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One row: whether a token that passed the ordinary test is taken back all the same."""

    sentence: str
    overrides: Callable[[float, float, float, EasdRule], bool] | None


def _is_doubtful(
    draft_entropy: float, target_entropy: float, overlap: float, easd: EasdRule
) -> bool:
    both_unsure = draft_entropy >= easd.draft_entropy and target_entropy >= easd.target_entropy
    return both_unsure and overlap >= easd.overlap


ACCEPTANCE: dict[BlockStrategyName, Acceptance] = {
    "speculative": Acceptance(
        sentence="accept with chance min(1, p / q), else draw from the residual",
        overrides=None,
    ),
    "easd": Acceptance(
        sentence="as speculative, but draw again where both models are unsure in the same way",
        overrides=_is_doubtful,
    ),
}


@dataclass(frozen=True, slots=True)
class Judged:
    """Decisions up to the first token that was not accepted, and the target's own token."""

    decisions: tuple[Decision, ...]
    correction: Correction


def accept_block(
    draft_probs: Tensor,
    target_probs: Tensor,
    tokens: Sequence[int],
    uniforms: Sequence[float],
    correction_uniform: float,
    *,
    rule: BlockStrategyName = "speculative",
    easd: EasdRule | None = None,
    doubt: Doubt | None = None,
) -> Judged:
    """Judge g drafted tokens, g >= 0.

    draft_probs          [g, V] rows q; each sums to 1
    target_probs         [g + 1, V] rows p; the last one is for the bonus
    tokens               [g] the drafted ids
    uniforms             [g] in [0, 1), one per token; accepted where it is below the ratio
    correction_uniform   in [0, 1), for the token the target adds
    easd, doubt          what the override of the rule looks at; recorded wherever given

    Raises:
        ValueError: a rule with an override, and no bounds or no doubt to apply it to.
    """
    overrides = ACCEPTANCE[rule].overrides
    if overrides is not None and (easd is None or doubt is None):
        raise ValueError(f"expected bounds and entropies for the rule {rule}, got none")
    g = len(tokens)
    chosen = torch.tensor(tokens, dtype=torch.long, device=target_probs.device)[:, None]
    both = torch.stack([draft_probs.gather(1, chosen), target_probs[:g].gather(1, chosen)])
    draft_chances, target_chances = both.squeeze(-1).tolist() if g else ([], [])
    decisions: list[Decision] = []
    for index, (q, p) in enumerate(zip(draft_chances, target_chances, strict=True)):
        ratio = _ratio(q, p)
        outcome: DecisionOutcome = "accepted" if uniforms[index] < ratio else "rejected"
        unsure = None if doubt is None else _at(doubt, index)
        doubtful = overrides is not None and unsure and easd and overrides(*unsure, easd)
        # A one-hot p has nothing else to draw: the token stays.
        if outcome == "accepted" and doubtful and int(target_probs[index].count_nonzero()) > 1:
            outcome = "overridden"
        decisions.append(Decision(q, p, ratio, uniforms[index], outcome, *(unsure or ())))
        if outcome != "accepted":
            break
    last = decisions[-1].outcome if decisions else "accepted"
    kept = len(decisions) - (last != "accepted")
    p_row = target_probs[kept]
    kind: CorrectionKind = "corrected" if last != "accepted" else "bonus"
    if last == "rejected":
        weights = residual(p_row, draft_probs[kept])
    elif last == "overridden":
        weights = p_row.clone()
        weights[tokens[kept]] = 0
    else:
        weights = p_row
    return Judged(tuple(decisions), _correction(weights, p_row, correction_uniform, kind))


def accept_greedy(tokens: Sequence[int], choices: Sequence[int], doubt: Doubt | None) -> Judged:
    """What accept_block says of one-hot rows, told from their places alone.

    tokens    [g] drafted ids, each the draft's likeliest
    choices   [g + 1] the target's likeliest id at each place
    """
    decisions: list[Decision] = []
    for index, token_id in enumerate(tokens):
        same = token_id == choices[index]
        unsure = () if doubt is None else _at(doubt, index)
        outcome: DecisionOutcome = "accepted" if same else "rejected"
        decisions.append(Decision(1.0, float(same), float(same), None, outcome, *unsure))
        if not same:
            return Judged(tuple(decisions), Correction(choices[index], "corrected", 1.0))
    return Judged(tuple(decisions), Correction(choices[len(tokens)], "bonus", 1.0))


def residual(target_probs: Tensor, draft_probs: Tensor) -> Tensor:
    """[V] weights max(0, p - q), not normalised; p itself where nothing is left (p == q)."""
    left = (target_probs - draft_probs).clamp_min(0)
    return left if bool(left.any()) else target_probs


def draw(weights: Tensor, uniform: float) -> int:
    """An index of weights [V] >= 0 by the inverse of their cumulative sum; never one of weight 0.

    uniform is in [0, 1); the weights need not sum to 1.
    """
    sums = weights.cumsum(0, dtype=torch.float64)
    place = int(torch.searchsorted(sums, uniform * sums[-1], right=True))
    # Rounding may point past the last weight above 0.
    if place >= len(weights) or not weights[place] > 0:
        place = int(weights.nonzero()[-1])
    return place


def _ratio(draft_prob: float, target_prob: float) -> float:
    if draft_prob > 0:
        return min(1.0, target_prob / draft_prob)
    return 1.0 if target_prob > 0 else 0.0


def _at(doubt: Doubt, index: int) -> tuple[float, float, float]:
    return doubt.draft_entropies[index], doubt.target_entropies[index], doubt.overlaps[index]


def _correction(
    weights: Tensor, target_probs: Tensor, uniform: float, kind: CorrectionKind
) -> Correction:
    token_id = draw(weights, uniform)
    return Correction(token_id, kind, min(1.0, float(target_probs[token_id])))

"""A block of drafted tokens and what became of each. Frozen, JSON-able. Knows no model.

block       gamma drafted tokens, judged one after the other until one is not accepted
accepted    passed the acceptance rule and was kept
rejected    failed it: the target's correction stands in its place, later ones are not judged
overridden  passed it, but a further rule (`easd`) replaced it; then as rejected
dropped     stands after a token that ended the run, so that nothing became of it
correction  the one token the target adds: after a rejection from the residual distribution, after
            a block accepted as a whole the bonus from its own
"""

from dataclasses import dataclass, field
from typing import Literal

from specguard_core.costs import Cost

DecisionOutcome = Literal["accepted", "rejected", "overridden", "dropped"]
CorrectionKind = Literal["corrected", "bonus"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The rule's word on one drafted token x. None: not measured.

    draft_prob, target_prob   in [0, 1], q(x) and p(x) of the processed distributions, those really
                              sampled from; one-hot at temperature 0
    ratio                     min(1, p / q), in [0, 1]: the chance of acceptance
    uniform                   in [0, 1), the number drawn; accepted where it is below the ratio.
                              None at temperature 0, where nothing is drawn
    draft_entropy, target_entropy   nats, >= 0, of the raw softmax
    overlap                   in [0, 1], share of the two top-N sets that they have in common
    """

    draft_prob: float
    target_prob: float
    ratio: float
    uniform: float | None
    outcome: DecisionOutcome
    draft_entropy: float | None = None
    target_entropy: float | None = None
    overlap: float | None = None


@dataclass(frozen=True, slots=True)
class EasdRule:
    """What `easd` looks at: a token is doubtful where both entropies and the overlap reach these.

    top_n                           likeliest tokens of each model, whose overlap is taken
    draft_entropy, target_entropy   nats, of the raw softmax
    overlap                         in [0, 1]; above 1 nothing is ever doubtful
    """

    top_n: int
    draft_entropy: float
    target_entropy: float
    overlap: float


@dataclass(frozen=True, slots=True)
class Correction:
    """The target's own token after the accepted ones; its probability under p, in [0, 1]."""

    token_id: int
    kind: CorrectionKind
    target_prob: float


@dataclass(frozen=True, slots=True)
class Block:
    """One round: what was drafted, what the rule said, what was kept.

    drafted        all drafted token ids; the first `len(decisions)` of them were judged
    correction     None where the run ended on a drafted token
    ended_by_eos   whether the last kept token is an end of sequence
    attempt        how often the block was redrawn
    """

    index: int
    drafted: tuple[int, ...]
    decisions: tuple[Decision, ...]
    correction: Correction | None
    ended_by_eos: bool
    cost: Cost = field(default_factory=Cost)
    attempt: int = 0

    def __post_init__(self) -> None:
        if len(self.decisions) > len(self.drafted):
            raise ValueError(
                f"expected at most {len(self.drafted)} decisions, got {len(self.decisions)}"
            )
        later = [decision.outcome for decision in self.decisions[self.n_accepted :]]
        whole = later in ([], ["rejected"], ["overridden"]) or set(later) == {"dropped"}
        if not whole:
            raise ValueError("expected nothing to be judged after a token that was not accepted")
        if self.correction is None:
            if self.n_accepted == 0 or later not in ([], ["dropped"] * len(later)):
                raise ValueError("expected a correction where no drafted token ended the block")
        elif "dropped" in later:
            raise ValueError("expected no correction after a token that ended the run")

    @property
    def n_accepted(self) -> int:
        """Drafted tokens that were kept."""
        outcomes = [decision.outcome for decision in self.decisions]
        return next((i for i, word in enumerate(outcomes) if word != "accepted"), len(outcomes))

    @property
    def n_judged(self) -> int:
        """Drafted tokens that the rule spoke of and that count in an acceptance rate."""
        return sum(decision.outcome != "dropped" for decision in self.decisions)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens kept: the accepted ones, then the correction or bonus."""
        accepted = self.drafted[: self.n_accepted]
        return accepted if self.correction is None else (*accepted, self.correction.token_id)

"""What both models of a block strategy are asked, and what they answer. Knows no model.

drafted    tokens the draft sampled after a prefix, with what the target needs to judge them
judged     the acceptance rule's word on each, and the one token that the target adds
"""

from dataclasses import dataclass

from specguard_core.blocks import Correction, Decision, EasdRule
from specguard_core.config import BlockStrategyName


@dataclass(frozen=True, slots=True)
class Sampling:
    """How both models of a block strategy sample: temperature, then top-k, then the nucleus."""

    temperature: float
    top_p: float
    top_k: int


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """Draft `n_tokens` >= 1 tokens after a prefix, fewer where one is an end of sequence.

    seed    of the block; a token depends on it, its place and the prefix, on nothing else
    top_n   likeliest tokens to remember for each place; 0: neither they nor entropies are wanted
    """

    prefix: tuple[int, ...]
    n_tokens: int
    seed: int
    sampling: Sampling
    top_n: int


@dataclass(frozen=True, slots=True)
class DraftedBlock:
    """A drafted block. `state` is what the target needs to judge it, and its backend's own affair:
    the processed distributions the tokens were drawn from stay where they were computed."""

    token_ids: tuple[int, ...]
    state: object
    milliseconds: float


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """Judge a block that stands after a prefix, and add one token to what is accepted.

    drafted   None where nothing was drafted: the target then only adds its token
    easd      None where the ordinary rule alone holds
    """

    prefix: tuple[int, ...]
    drafted: DraftedBlock | None
    seed: int
    sampling: Sampling
    rule: BlockStrategyName
    easd: EasdRule | None


@dataclass(frozen=True, slots=True)
class JudgedBlock:
    """Decisions up to the first token that was not accepted, and the target's own token.

    passes, positions   of the target; one pass for a whole block
    """

    decisions: tuple[Decision, ...]
    correction: Correction
    passes: int
    positions: int
    milliseconds: float

"""The tables of strategies: what is proposed and what judges it. A strategy is one row.

Two decoders, each with its own kind of row:

step       propose steps, select one, judge it: keep it, or let the target write the step
block      draft a block of tokens, the target judges each, and adds one of its own

propose    how many candidate steps the draft samples for each step
judge      signals: the weighted readings against the threshold; grade: the target's grade, 0 to 9;
           reward: a reward model's word on the step; always / never: no check is made
votes      whether `n_chains` chains run beside each other and vote on the answer
knobs      fields of DecodeConfig that the row reads; `knobs_of` adds those that all runs share

Ablations of `specguard` need no row: n_candidates=1 is without the selector, and weights on
confidence or on grounding alone are the judge without the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from specguard_core.config import (
    BLOCK_STRATEGY_NAMES,
    STEP_STRATEGY_NAMES,
    BlockStrategyName,
    DecodeConfig,
    StepStrategyName,
    StrategyName,
)

Judge = Literal["signals", "grade", "reward", "always", "never"]


@dataclass(frozen=True, slots=True)
class StepStrategy:
    """One row: `n_proposed` candidates from the draft at `draft_temperature`, then `judge`."""

    sentence: str
    n_proposed: Callable[[DecodeConfig], int]
    draft_temperature: Callable[[DecodeConfig], float]
    judge: Judge
    needs_target: bool
    knobs: tuple[str, ...] = ()
    votes: bool = False

    def drafts(self, config: DecodeConfig) -> bool:
        """Whether the draft model is called at all."""
        return self.n_proposed(config) > 0


@dataclass(frozen=True, slots=True)
class BlockStrategy:
    """One row: gamma drafted tokens, judged by the rule of that name in acceptance.py.

    reads_entropies   whether entropies and the overlap of the top-N sets are measured
    """

    sentence: str
    rule: BlockStrategyName
    reads_entropies: bool
    knobs: tuple[str, ...]
    needs_target: bool = True

    def drafts(self, config: DecodeConfig) -> bool:
        """Whether the draft model is called at all."""
        return config.gamma > 0


Strategy = StepStrategy | BlockStrategy

_DRAFT_SAMPLING = ("draft_temperature", "draft_top_p", "draft_top_k")
_SELECTION = ("n_candidates", "selection_method", "cluster_similarity")
_SIGNALS = (
    "weights",
    "threshold",
    "normalisation",
    "logprob_floor",
    "signal_tokens",
    "grounding_correction",
    "include_boundary_token",
    "rollout_layers",
    "sparsify",
    "renormalise",
    "residual",
    "sink_tokens",
)
_FALLBACK = ("target_temperature", "target_top_p", "target_top_k", "target_samples")
# Only a signal of tokens says at which of them a step went wrong.
_TAKE_OVER = ("fallback_from",)
_BLOCKS = ("gamma", "adaptive_gamma", "target_temperature", "target_top_p", "target_top_k")
_EASD = (
    "easd_top_n",
    "easd_overlap",
    "easd_bounds",
    "easd_draft_entropy",
    "easd_target_entropy",
)
_ALL_STEPS = ("n_alternatives",)
# A text that was written in blocks ends where it would have ended step by step.
_ALL_RUNS = (
    "strategy",
    "max_new_tokens",
    "system_prompt",
    "enable_thinking",
    "seed",
    "delimiter",
    "max_steps",
    "max_step_tokens",
    "repeat_limit",
)

_STEP: dict[StepStrategyName, StepStrategy] = {
    "specguard": StepStrategy(
        sentence="k draft samples, the medoid is kept where its signals score enough",
        n_proposed=lambda config: config.n_candidates,
        draft_temperature=lambda config: config.draft_temperature,
        judge="signals",
        needs_target=True,
        knobs=(*_SELECTION, *_DRAFT_SAMPLING, *_SIGNALS, *_FALLBACK, *_TAKE_OVER),
    ),
    "draft_only": StepStrategy(
        sentence="the draft writes every step, greedily, unchecked",
        n_proposed=lambda config: 1,
        draft_temperature=lambda config: 0.0,
        judge="always",
        needs_target=False,
    ),
    "target_only": StepStrategy(
        sentence="the target writes every step; the draft is never called",
        n_proposed=lambda config: 0,
        draft_temperature=lambda config: 0.0,
        judge="never",
        needs_target=True,
        knobs=_FALLBACK,
    ),
    "specreason": StepStrategy(
        sentence="one greedy draft step, kept where the target grades it high enough, 0 to 9",
        n_proposed=lambda config: 1,
        draft_temperature=lambda config: 0.0,
        judge="grade",
        needs_target=True,
        knobs=("grade_threshold", "grade_method", "grade_prompt", *_FALLBACK),
    ),
    "rsd": StepStrategy(
        sentence="one greedy draft step, kept where a reward model gives it enough, 0 to 1",
        n_proposed=lambda config: 1,
        draft_temperature=lambda config: 0.0,
        judge="reward",
        needs_target=True,
        knobs=("reward_threshold", *_FALLBACK),
    ),
    "rsd_majority": StepStrategy(
        sentence="n chains as rsd, but sampled; the answer that most of them give is taken",
        n_proposed=lambda config: 1,
        # Greedy chains would all be the same one.
        draft_temperature=lambda config: config.draft_temperature,
        judge="reward",
        needs_target=True,
        knobs=("reward_threshold", "n_chains", *_DRAFT_SAMPLING, *_FALLBACK),
        votes=True,
    ),
}

_BLOCK: dict[BlockStrategyName, BlockStrategy] = {
    "speculative": BlockStrategy(
        sentence="gamma drafted tokens, accepted so that the text is distributed as the target's",
        rule="speculative",
        reads_entropies=False,
        knobs=_BLOCKS,
    ),
    "easd": BlockStrategy(
        sentence="as speculative, but the target draws again where both models are unsure",
        rule="easd",
        reads_entropies=True,
        knobs=(*_BLOCKS, *_EASD),
    ),
}

STRATEGIES: dict[StrategyName, Strategy] = {
    **{name: _STEP[name] for name in STEP_STRATEGY_NAMES},
    **{name: _BLOCK[name] for name in BLOCK_STRATEGY_NAMES},
}


def knobs_of(name: StrategyName) -> frozenset[str]:
    """Every knob that a run of the strategy reads; turning another changes nothing in it."""
    row = STRATEGIES[name]
    of_steps = () if isinstance(row, BlockStrategy) else _ALL_STEPS
    return frozenset((*row.knobs, *of_steps, *_ALL_RUNS))


def step_strategy(config: DecodeConfig) -> StepStrategy:
    """The row of a step strategy; the step decoder never sees another."""
    for name, row in _STEP.items():
        if name == config.strategy:
            return row
    raise ValueError(f"expected a strategy of the step decoder, got {config.strategy}")


def block_strategy(config: DecodeConfig) -> BlockStrategy:
    """The row of a block strategy; the block decoder never sees another."""
    for name, row in _BLOCK.items():
        if name == config.strategy:
            return row
    raise ValueError(f"expected a strategy of the block decoder, got {config.strategy}")

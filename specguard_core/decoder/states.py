"""The decoders' states: frozen, so undo is keeping an old one and a branch is advancing it.

step    AwaitingDraft -> AwaitingSelection -> AwaitingVerdict -> AwaitingCommit
                      -> AwaitingDraft | Finished
block   AwaitingBlock -> AwaitingBlock | Finished
vote    AwaitingChains (of step states) -> AwaitingChains | Finished

plan       the outcome a commit will carry out: the verdict's, or one that a person forced
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from specguard_core.config import DecodeConfig, SelectionMethod
from specguard_core.decoder.grading import check_grading
from specguard_core.errors import NotMeasured, ProblemError
from specguard_core.lm import Models, StepModel
from specguard_core.presets import preset
from specguard_core.readings import SIGNALS, require_expectations
from specguard_core.similarity import Matrix
from specguard_core.strategies import STRATEGIES, BlockStrategy, StepStrategy, Strategy
from specguard_core.text import clean_problem
from specguard_core.types import (
    Calibration,
    Candidate,
    Chain,
    Cost,
    Outcome,
    Selection,
    Status,
    Trace,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class AwaitingDraft:
    """Nothing of the next step exists. attempt: how often the step was redrawn."""

    trace: Trace
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class AwaitingSelection:
    """Candidates exist (none where the target writes). similarity: matrices the model gave."""

    trace: Trace
    attempt: int
    candidates: tuple[Candidate, ...]
    similarity: Mapping[SelectionMethod, Matrix]
    cost: Cost


@dataclass(frozen=True, slots=True)
class AwaitingVerdict:
    """One candidate stands for the draws; selection is None where there was nothing to select."""

    trace: Trace
    attempt: int
    candidates: tuple[Candidate, ...]
    selection: Selection | None
    cost: Cost


@dataclass(frozen=True, slots=True)
class AwaitingCommit:
    """The rule has spoken. `written` is a person's step where the plan is an edit."""

    trace: Trace
    attempt: int
    candidates: tuple[Candidate, ...]
    selection: Selection | None
    verdict: Verdict | None
    plan: Outcome
    cost: Cost
    written: Candidate | None = field(default=None)


@dataclass(frozen=True, slots=True)
class AwaitingBlock:
    """Nothing of the next block exists. attempt: how often the block was redrawn."""

    trace: Trace
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class AwaitingChains:
    """Several chains run beside each other; the finished ones wait for the vote."""

    trace: Trace
    chains: "tuple[State, ...]"
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The run ended; the trace says why."""

    trace: Trace


Ready = AwaitingDraft | AwaitingBlock | AwaitingChains
State = Ready | AwaitingSelection | AwaitingVerdict | AwaitingCommit | Finished


def start(
    problem: str,
    models: Models,
    config: DecodeConfig | None = None,
    *,
    gold: str | None = None,
    problem_id: str | None = None,
    calibration: Calibration | None = None,
) -> Ready:
    """The first state of a run, by its strategy's decoder; no model is called.

    Args:
        problem: the question; control characters are dropped.
        config: the preset "cpu" where None.
        gold: the right answer, where known; kept in the trace, never shown to a model.
        problem_id: part of the seeds' address; a digest of the problem where None.

    Raises:
        ProblemError: an empty problem, or one that leaves no room in the context.
        PairError: a model that the strategy calls is missing.
        NotMeasured: a weighted signal that the models or the calibration cannot give.
    """
    config = preset("cpu") if config is None else config
    text = clean_problem(problem)
    strategy = STRATEGIES[config.strategy]
    used = used_models(models, strategy, config)
    check_models(models, config)
    if isinstance(strategy, StepStrategy) and strategy.judge == "signals":
        require_expectations(config, calibration)
    thinking = {"template": None, "on": True, "off": False}[config.enable_thinking]
    segments = models.vocabulary.prompt(text, config.system_prompt, thinking)
    trace = Trace(
        problem=text,
        problem_id=problem_id or blake2b(text.encode(), digest_size=8).hexdigest(),
        gold=gold,
        prompt_segments=segments,
        prompt_template=models.vocabulary.prompt_template,
        template_text=models.vocabulary.template_text,
        pieces={t: models.vocabulary.piece(t) for s in segments for t in s.token_ids},
        tokenizer_hash=models.vocabulary.tokenizer_hash,
        draft=None if models.draft is None else models.draft.info.recorded(),
        target=None if models.target is None else models.target.info.recorded(),
        reward=None if models.reward is None else models.reward.info.recorded(),
        config=config,
        calibration=calibration,
    )
    limit = context_length(used)
    if len(trace.prompt_ids) >= limit:
        raise ProblemError(
            f"expected a prompt that leaves room in a context of {limit:,} tokens, got one of "
            f"{len(trace.prompt_ids):,}: shorten the problem or load models with a longer context"
        )
    return ready(trace)


def ready(trace: Trace, attempt: int = 0) -> Ready:
    """The state in which the next unit of a running trace is made."""
    strategy = STRATEGIES[trace.config.strategy]
    if isinstance(strategy, BlockStrategy):
        return AwaitingBlock(trace, attempt)
    if strategy.votes and trace.chain is None:
        chains = trace.chains or (Chain(),) * trace.config.n_chains
        states = tuple(_chain_state(trace, i, one, attempt) for i, one in enumerate(chains))
        return AwaitingChains(replace(trace, chains=chains), states, attempt)
    return AwaitingDraft(trace, attempt)


def _chain_state(trace: Trace, index: int, chain: Chain, attempt: int) -> AwaitingDraft | Finished:
    status: Status = "running" if chain.finish is None else "finished"
    own = replace(
        trace,
        chain=index,
        chains=(),
        vote=None,
        units=chain.units,
        status=status,
        finish=chain.finish,
    )
    if chain.finish is not None:
        return Finished(own)
    return AwaitingDraft(own, attempt)


def resume(trace: Trace) -> Ready | Finished:
    """The state a trace stands in: a stopped or failed run goes on from its last whole unit."""
    if trace.status == "finished":
        return Finished(trace)
    return ready(replace(trace, status="running", failure=None))


def rewound(trace: Trace, n_units: int) -> Trace:
    """The trace as it stood after its first `n_units` units: running, unless it had ended there."""
    if not 0 <= n_units <= len(trace.units):
        raise ValueError(f"expected 0 to {len(trace.units)} units to keep, got {n_units}")
    if trace.chains and n_units < len(trace.units):
        # Chains have no common past to go back to: all of them begin again.
        return replace(
            trace, units=(), chains=(), vote=None, status="running", failure=None, finish=None
        )
    finish = trace.finish if n_units == len(trace.units) else None
    status: Status = "running" if finish is None else "finished"
    return replace(trace, units=trace.units[:n_units], status=status, failure=None, finish=finish)


def used_models(models: Models, strategy: Strategy, config: DecodeConfig) -> list[StepModel]:
    """The models a strategy calls; PairError where one of them is missing."""
    used = [models.need_draft()] if strategy.drafts(config) else []
    return [*used, models.need_target()] if strategy.needs_target else used


def context_length(used: list[StepModel]) -> int:
    """Tokens that every model of a run can hold."""
    return min(model.info.context_length for model in used)


def check_models(models: Models, config: DecodeConfig) -> None:
    """Whether the models can run the config's strategy.

    Raises:
        PairError: a model that the strategy calls is missing.
        NotMeasured: they cannot give what it judges by.
    """
    strategy = STRATEGIES[config.strategy]
    used_models(models, strategy, config)
    if isinstance(strategy, BlockStrategy):
        models.need_blocks()
        return
    if strategy.judge == "grade":
        check_grading(models, config)
    if strategy.judge == "reward":
        models.need_reward()
    if strategy.judge != "signals":
        return
    if set(config.weight) == {"agreement"} and strategy.n_proposed(config) < 2:
        raise NotMeasured(
            "expected two draws or more for agreement, the only weighted reading, got one: "
            "raise n_candidates or weigh another reading"
        )
    for name in config.weight:
        model = models.need_target() if SIGNALS[name].reads_target else models.need_draft()
        if name in ("grounding", "target_grounding") and model.info.grounding != "captured":
            raise NotMeasured(
                f"expected attention from {model.info.name} for {name}, got none "
                f"({model.info.grounding}): set beta=1 to judge by confidence alone"
            )

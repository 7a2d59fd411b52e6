"""Proposing: the draft samples k candidates of the next step after each run's context."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from specguard_core.decoder.signals import candidate_of, distinct_draws, similarity_of
from specguard_core.decoder.states import (
    AwaitingDraft,
    AwaitingSelection,
    context_length,
    used_models,
)
from specguard_core.events import Proposed
from specguard_core.lm import DrawBatch, Models, OnToken, SampleRequest, ShouldStop
from specguard_core.seeding import seed_for
from specguard_core.strategies import step_strategy
from specguard_core.types import Candidate, CandidateStop, Cost, RoleCost, Trace

Proposal = tuple[AwaitingSelection, Proposed]


def propose(
    states: Sequence[AwaitingDraft],
    models: Models,
    on_token: OnToken | None,
    should_stop: ShouldStop | None,
) -> list[Proposal]:
    """Candidates for each state; none where the strategy drafts nothing."""
    requests = {i: _request(state, models) for i, state in enumerate(states) if _drafts(state)}
    batches: dict[int, DrawBatch] = {}
    if requests:
        answers = models.need_draft().sample_steps(
            list(requests.values()), on_token=on_token, should_stop=should_stop
        )
        batches = dict(zip(requests, answers, strict=True))
    return [
        _proposal(state, batches[i], models) if i in batches else _nothing(state)
        for i, state in enumerate(states)
    ]


def step_budget(trace: Trace, limit: int) -> tuple[int, CandidateStop]:
    """Tokens the next step may take in a context of `limit`, and what cuts it there."""
    used = len(trace.context_ids)
    written = used - len(trace.prompt_ids)
    config = trace.config
    budget = min(config.max_step_tokens, config.max_new_tokens - written)
    room = limit - used
    return (budget, "step_limit") if budget < room else (room, "context_limit")


def with_pieces(
    trace: Trace, candidates: Sequence[Candidate], piece: Callable[[int], bytes]
) -> Trace:
    """The trace with the bytes of every token id the candidates name."""
    ids = {t.token_id for c in candidates for t in c.tokens}
    ids |= {a.token_id for c in candidates for t in c.tokens for a in t.alternatives}
    new = {token_id: piece(token_id) for token_id in sorted(ids - trace.pieces.keys())}
    return replace(trace, pieces={**trace.pieces, **new}) if new else trace


def _drafts(state: AwaitingDraft) -> bool:
    config = state.trace.config
    return step_strategy(config).n_proposed(config) > 0


def _request(state: AwaitingDraft, models: Models) -> SampleRequest:
    trace, config = state.trace, state.trace.config
    strategy = step_strategy(config)
    temperature = strategy.draft_temperature(config)
    # Greedy draws are all the same one: it is computed once and counted k times.
    n_draws = strategy.n_proposed(config) if temperature > 0 else 1
    unit = len(trace.units)
    seeds = (
        seed_for(config.seed, trace.problem_id, trace.chain or 0, unit, slot, state.attempt)
        for slot in range(n_draws)
    )
    draft = models.need_draft()
    captured = strategy.judge == "signals" and draft.info.grounding == "captured"
    limit = context_length(used_models(models, strategy, config))
    return SampleRequest(
        prefix=trace.context_ids,
        seeds=tuple(seeds),
        temperature=temperature,
        top_p=config.draft_top_p,
        top_k=config.draft_top_k,
        delimiter=config.delimiter,
        max_tokens=step_budget(trace, limit)[0],
        n_alternatives=config.n_alternatives,
        n_capture_layers=config.rollout_layers if captured else 0,
        feed_boundary=config.include_boundary_token,
        want_hidden=strategy.n_proposed(config) > 1,
    )


def _proposal(state: AwaitingDraft, batch: DrawBatch, models: Models) -> Proposal:
    trace, config = state.trace, state.trace.config
    strategy = step_strategy(config)
    limit = context_length(used_models(models, strategy, config))
    unit = len(trace.units)
    distinct = distinct_draws(batch.draws)
    k = strategy.n_proposed(config)
    every_slot = tuple(range(k))
    candidates = tuple(
        candidate_of(
            draw,
            slots if len(batch.draws) == k else every_slot,
            limit_stop=step_budget(trace, limit)[1],
            segment_lengths=trace.context_segment_lengths(unit),
            config=config,
        )
        for draw, slots in distinct
    )
    drafted = sum(len(draw.token_ids) for draw in batch.draws)
    cost = Cost({"draft_discarded": RoleCost(drafted, batch.milliseconds)})
    after = AwaitingSelection(
        with_pieces(trace, candidates, models.vocabulary.piece),
        state.attempt,
        candidates,
        similarity_of(distinct),
        cost,
    )
    rows = tuple(draw.attention for draw, _ in distinct)
    return after, Proposed(unit, trace.context_ids, state.attempt, candidates, rows)


def _nothing(state: AwaitingDraft) -> Proposal:
    trace = state.trace
    after = AwaitingSelection(trace, state.attempt, (), {}, Cost())
    return after, Proposed(len(trace.units), trace.context_ids, state.attempt, (), ())

"""Committing: the planned step enters the trace, and the run goes on or ends.

The draft's step, the target's own, or a person's: whichever the plan names. Stops are tested here
(DESIGN section 5), on whole steps only.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from specguard_core.answers import extract_answer
from specguard_core.decoder.draft import step_budget, with_pieces
from specguard_core.decoder.signals import candidate_of, distinct_draws, similarity_of
from specguard_core.decoder.states import (
    AwaitingCommit,
    AwaitingDraft,
    Finished,
    context_length,
    used_models,
)
from specguard_core.decoder.stops import finish_reason
from specguard_core.errors import UsageError
from specguard_core.events import Committed
from specguard_core.lm import DrawBatch, Models, OnToken, SampleRequest, ShouldStop
from specguard_core.seeding import seed_for
from specguard_core.selection import select
from specguard_core.strategies import step_strategy
from specguard_core.text import join_pieces
from specguard_core.types import Candidate, Cost, Finish, Role, RoleCost, Step, TokenSignal, Trace

# Slots of the target's samples: apart from the draft's, so that the two never share a seed.
_FIRST_TARGET_SLOT = 1_000_000
_DRAFTED: tuple[Role, ...] = ("draft_kept", "draft_discarded")


def commit(
    states: Sequence[AwaitingCommit],
    models: Models,
    on_token: OnToken | None,
    should_stop: ShouldStop | None,
) -> list[tuple[AwaitingDraft | Finished, Committed]]:
    """Carry out each plan; the target is called for those that need its step."""
    requests = {
        i: _fallback_request(state, models)
        for i, state in enumerate(states)
        if state.plan.source == "target"
    }
    batches: dict[int, DrawBatch] = {}
    if requests:
        answers = models.need_target().sample_steps(
            list(requests.values()), on_token=on_token, should_stop=should_stop
        )
        batches = dict(zip(requests, answers, strict=True))
    return [_committed(state, batches.get(i), models) for i, state in enumerate(states)]


def finish_of(trace: Trace, limit: int) -> Finish | None:
    """Why a run ends after its last step, in a context of `limit` tokens; None where it goes on."""
    used = len(trace.context_ids)
    reason = finish_reason(
        trace.config,
        ended_by_eos=trace.units[-1].ended_by_eos,
        text=trace.said,
        n_written=used - len(trace.prompt_ids),
        room=limit - used,
        steps=[step.token_ids for step in trace.steps],
    )
    return None if reason is None else Finish(reason, extract_answer(trace.said))


def _fallback_request(state: AwaitingCommit, models: Models) -> SampleRequest:
    trace, config = state.trace, state.trace.config
    n_samples = config.target_samples if config.target_temperature > 0 else 1
    unit = len(trace.units)
    seeds = (
        seed_for(config.seed, trace.problem_id, trace.chain or 0, unit, slot, state.attempt)
        for slot in range(_FIRST_TARGET_SLOT, _FIRST_TARGET_SLOT + n_samples)
    )
    begun = _begun(state)
    return SampleRequest(
        prefix=trace.context_ids + tuple(token.token_id for token in begun),
        seeds=tuple(seeds),
        temperature=config.target_temperature,
        top_p=config.target_top_p,
        top_k=config.target_top_k,
        delimiter=config.delimiter,
        max_tokens=step_budget(trace, _limit(state, models))[0] - len(begun),
        n_alternatives=config.n_alternatives,
        n_capture_layers=0,
        feed_boundary=False,
        want_hidden=n_samples > 1,
        n_begun=len(begun),
    )


def _chosen(state: AwaitingCommit) -> Candidate:
    return state.candidates[0 if state.selection is None else state.selection.chosen]


def _begun(state: AwaitingCommit) -> tuple[TokenSignal, ...]:
    """The draft's tokens that the target's step begins with."""
    n_kept = state.plan.n_kept
    return _chosen(state).tokens[:n_kept] if n_kept else ()


def _limit(state: AwaitingCommit, models: Models) -> int:
    config = state.trace.config
    used = used_models(models, step_strategy(config), config)
    # A forced fallback calls the target under strategies that never do by themselves.
    if state.plan.source == "target" and models.target not in used:
        used = [*used, models.need_target()]
    return context_length(used)


def _committed(
    state: AwaitingCommit, batch: DrawBatch | None, models: Models
) -> tuple[AwaitingDraft | Finished, Committed]:
    trace, written = state.trace, state.written
    limit = _limit(state, models)
    cost = _draft_cost(state)
    if batch is not None:
        written = _written(state, batch, limit, models.vocabulary.piece)
        tokens = sum(len(draw.token_ids) for draw in batch.draws)
        role = RoleCost(tokens, batch.milliseconds)
        cost += Cost({"target_written": role}, batch.passes, batch.positions)
    elif written is not None and len(trace.context_ids) + len(written.tokens) > limit:
        raise UsageError(
            f"expected a written step of at most {limit - len(trace.context_ids)} tokens, the room "
            f"left in the context, got {len(written.tokens)}: shorten it"
        )
    step = Step(
        index=len(trace.units),
        candidates=state.candidates,
        selection=state.selection,
        verdict=state.verdict,
        outcome=state.plan,
        written=written,
        cost=cost,
        attempt=state.attempt,
    )
    trace = with_pieces(trace, [step.output], models.vocabulary.piece)
    trace = replace(trace, units=(*trace.units, step))
    finish = finish_of(trace, limit)
    if finish is None:
        return AwaitingDraft(trace), Committed(step, trace, None)
    trace = replace(trace, status="finished", finish=finish)
    return Finished(trace), Committed(step, trace, finish)


def _written(
    state: AwaitingCommit, batch: DrawBatch, limit: int, piece: Callable[[int], bytes]
) -> Candidate:
    """The target's step: its only draw, or the medoid of several, after what is kept."""
    trace, config = state.trace, state.trace.config
    distinct, begun = distinct_draws(batch.draws), _begun(state)
    drawn = [
        candidate_of(
            draw,
            (),
            limit_stop=step_budget(trace, limit)[1],
            segment_lengths=trace.context_segment_lengths(len(trace.units)),
            config=config,
        )
        for draw, _ in distinct
    ]
    candidates = [replace(one, tokens=(*begun, *_read_as(begun, one.tokens))) for one in drawn]
    if len(candidates) == 1:
        return candidates[0]
    pieces = with_pieces(trace, candidates, piece).pieces
    selection = select(
        [join_pieces(candidate.token_ids, pieces) for candidate in candidates],
        [len(slots) for _, slots in distinct],
        [candidate.mean_logprob or 0.0 for candidate in candidates],
        method=config.selection_method,
        cluster_similarity=config.cluster_similarity,
        recorded=similarity_of(distinct),
    )
    return candidates[selection.chosen]


def _read_as(
    begun: Sequence[TokenSignal], drawn: tuple[TokenSignal, ...]
) -> tuple[TokenSignal, ...]:
    """The target's own tokens, read as those before them were: it has drawn them itself."""
    if not begun or begun[0].target_logprob is None:
        return drawn
    return tuple(replace(token, target_logprob=token.logprob) for token in drawn)


def _draft_cost(state: AwaitingCommit) -> Cost:
    """The cost so far, all that was drafted parted anew into what is kept and what is not: the
    states of a run that was opened hold the costs of its finished steps."""
    roles = dict(state.cost.roles)
    parts = [roles.pop(role) for role in _DRAFTED if role in roles]
    if not parts:
        return state.cost
    tokens, milliseconds = sum(p.tokens for p in parts), sum(p.milliseconds for p in parts)
    kept = len(_chosen(state).tokens) if state.plan.source == "draft" else state.plan.n_kept
    share = kept / tokens
    if kept:
        roles["draft_kept"] = RoleCost(kept, milliseconds * share)
    roles["draft_discarded"] = RoleCost(tokens - kept, milliseconds * (1 - share))
    return replace(state.cost, roles=roles)

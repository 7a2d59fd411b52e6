"""The block decoder: one transition writes, judges and keeps one block of tokens.

    draft gamma tokens -> the target reads them in one pass -> keep the accepted ones -> add one

Knows no torch and no UI. A block never passes a limit: fewer tokens are drafted where less room is
left, none where one token is all that may be written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specguard_core.answers import extract_answer
from specguard_core.block_requests import (
    DraftedBlock,
    DraftRequest,
    JudgedBlock,
    JudgeRequest,
    Sampling,
)
from specguard_core.blocks import EasdRule
from specguard_core.config import KNOBS, DecodeConfig
from specguard_core.decoder.states import AwaitingBlock, Finished, context_length, used_models
from specguard_core.decoder.stops import cut
from specguard_core.events import BlockCommitted
from specguard_core.lm import Models, OnToken, ShouldStop
from specguard_core.seeding import seed_for
from specguard_core.strategies import block_strategy
from specguard_core.types import Block, Cost, Decision, Finish, Role, RoleCost, Trace

_DRAFT_SLOT, _JUDGE_SLOT = 0, 1

Written = tuple[AwaitingBlock | Finished, BlockCommitted]


def write_blocks(
    states: Sequence[AwaitingBlock],
    models: Models,
    on_token: OnToken | None,
    should_stop: ShouldStop | None,
) -> list[Written]:
    """One block for each state."""
    draft, target = models.need_blocks()
    plans = [_plan(state, models) for state in states]
    drafting = [i for i, plan in enumerate(plans) if plan.n_drafted > 0]
    drafted: dict[int, DraftedBlock] = {}
    if drafting:
        requests = [_draft_request(states[i], plans[i]) for i in drafting]
        answers = draft.draft_blocks(requests, on_token=on_token, should_stop=should_stop)
        drafted = dict(zip(drafting, answers, strict=True))
    judged = target.judge_blocks(
        [_judge_request(state, plans[i], drafted.get(i)) for i, state in enumerate(states)],
        should_stop=should_stop,
    )
    return [
        _written(state, plans[i].limit, drafted.get(i), judged[i], models)
        for i, state in enumerate(states)
    ]


def next_gamma(trace: Trace) -> int:
    """Tokens to draft for the next block, no limit considered.

    With `adaptive_gamma`: 2 more after a block that was accepted as a whole, else 1 fewer (the
    heuristic schedule of transformers' assisted generation), within the knob's range. A block that
    the draft ended early, with an end of sequence, counts as one of the length that was wanted.
    """
    gamma = trace.config.gamma
    if not trace.config.adaptive_gamma:
        return gamma
    low, high = KNOBS["gamma"].low, KNOBS["gamma"].high
    assert low is not None and high is not None
    for block in trace.blocks:
        whole = block.n_accepted == len(block.drafted)
        gamma = min(max(gamma + (2 if whole else -1), int(low)), int(high))
    return gamma


@dataclass(frozen=True, slots=True)
class _Plan:
    """limit: length of the context in tokens; easd: None under the ordinary rule."""

    n_drafted: int
    limit: int
    sampling: Sampling
    easd: EasdRule | None


def _plan(state: AwaitingBlock, models: Models) -> _Plan:
    trace, config = state.trace, state.trace.config
    strategy = block_strategy(config)
    limit = context_length(used_models(models, strategy, config))
    used = len(trace.context_ids)
    left = min(limit - used, config.max_new_tokens - (used - len(trace.prompt_ids)))
    return _Plan(
        # The target's own token takes one place.
        n_drafted=min(next_gamma(trace), left - 1),
        limit=limit,
        sampling=Sampling(config.target_temperature, config.target_top_p, config.target_top_k),
        easd=easd_rule(trace) if strategy.reads_entropies else None,
    )


def easd_rule(trace: Trace) -> EasdRule:
    """What `easd` looks at in a run: bounds of its calibration, or of its config."""
    config, known = trace.config, {}
    if config.easd_bounds == "calibrated" and trace.calibration is not None:
        known = dict(trace.calibration.entropies)
    return EasdRule(
        top_n=config.easd_top_n,
        draft_entropy=known.get("draft", config.easd_draft_entropy),
        target_entropy=known.get("target", config.easd_target_entropy),
        overlap=config.easd_overlap,
    )


def _draft_request(state: AwaitingBlock, plan: _Plan) -> DraftRequest:
    return DraftRequest(
        prefix=state.trace.context_ids,
        n_tokens=plan.n_drafted,
        seed=_seed(state, _DRAFT_SLOT),
        sampling=plan.sampling,
        top_n=0 if plan.easd is None else plan.easd.top_n,
    )


def _judge_request(state: AwaitingBlock, plan: _Plan, drafted: DraftedBlock | None) -> JudgeRequest:
    return JudgeRequest(
        prefix=state.trace.context_ids,
        drafted=drafted,
        seed=_seed(state, _JUDGE_SLOT),
        sampling=plan.sampling,
        rule=block_strategy(state.trace.config).rule,
        easd=plan.easd,
    )


def _seed(state: AwaitingBlock, slot: int) -> int:
    trace: Trace = state.trace
    config: DecodeConfig = trace.config
    return seed_for(config.seed, trace.problem_id, 0, len(trace.units), slot, state.attempt)


def _written(
    state: AwaitingBlock,
    limit: int,
    drafted: DraftedBlock | None,
    judged: JudgedBlock,
    models: Models,
) -> Written:
    trace, vocabulary = state.trace, models.vocabulary
    ids = () if drafted is None else drafted.token_ids
    n_accepted = sum(decision.outcome == "accepted" for decision in judged.decisions)
    new_ids = (*ids[:n_accepted], judged.correction.token_id)
    missing = {*ids, *new_ids} - trace.pieces.keys()
    if missing:
        pieces = {token_id: vocabulary.piece(token_id) for token_id in sorted(missing)}
        trace = replace(trace, pieces={**trace.pieces, **pieces})
    n_kept, reason = cut(trace, new_ids, limit, vocabulary.eos_token_ids)
    block = Block(
        index=len(trace.units),
        drafted=ids,
        decisions=tuple(_dropped_from(n_kept, judged.decisions, n_kept < len(new_ids))),
        correction=judged.correction if n_kept == len(new_ids) else None,
        ended_by_eos=reason == "eos",
        cost=_cost(ids, min(n_kept, n_accepted), drafted, judged),
        attempt=state.attempt,
    )
    trace = replace(trace, units=(*trace.units, block))
    if reason is None:
        return AwaitingBlock(trace), BlockCommitted(block, trace, None)
    finish = Finish(reason, extract_answer(trace.said))
    trace = replace(trace, status="finished", finish=finish)
    return Finished(trace), BlockCommitted(block, trace, finish)


def _dropped_from(n_kept: int, decisions: Sequence[Decision], was_cut: bool) -> list[Decision]:
    if not was_cut:
        return list(decisions)
    return [
        decision if index < n_kept else replace(decision, outcome="dropped")
        for index, decision in enumerate(decisions)
    ]


def _cost(
    ids: tuple[int, ...], n_kept: int, drafted: DraftedBlock | None, judged: JudgedBlock
) -> Cost:
    """The draft's time by what became of its tokens, the target's pass by its places: g that verify
    a drafted token, and the one that writes."""
    g = len(ids)
    share = judged.milliseconds / (g + 1)
    roles: dict[Role, RoleCost] = {"target_written": RoleCost(1, share)}
    if drafted is not None:
        each = drafted.milliseconds / g
        roles |= {
            "draft_kept": RoleCost(n_kept, each * n_kept),
            "draft_discarded": RoleCost(g - n_kept, each * (g - n_kept)),
            "verification": RoleCost(g, share * g),
        }
    return Cost(roles, judged.passes, judged.positions)

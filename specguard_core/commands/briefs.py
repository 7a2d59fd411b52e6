"""Traces and verdicts in brief, as JSON for machines. The whole of a trace is what files hold."""

from collections.abc import Mapping
from typing import Any

from specguard_core.commands.lines import uncalibrated_readings
from specguard_core.metrics import (
    accept_rate,
    block_accept_rate,
    fallback_rate,
    target_only_time,
    tokens_per_block,
)
from specguard_core.regate import Regate
from specguard_core.text import join_pieces
from specguard_core.types import Block, Step, Trace, Verdict


def trace_brief(trace: Trace) -> dict[str, Any]:
    """A trace in brief for machines; the whole of it is what `--out` writes."""
    alone, cost = target_only_time(trace), trace.cost
    return {
        "problem": trace.problem,
        "gold": trace.gold,
        "status": trace.status,
        "failure": trace.failure,
        "finish": None if trace.finish is None else trace.finish.reason,
        "answer": None if trace.finish is None else trace.finish.answer,
        "text": trace.text,
        "uncalibrated": uncalibrated_readings(trace),
        "accept_rate": accept_rate([trace]),
        "fallback_rate": fallback_rate([trace]),
        "block_accept_rate": block_accept_rate([trace]),
        "tokens_per_block": tokens_per_block([trace]),
        "tokens": {role: spent.tokens for role, spent in cost.roles.items()},
        "seconds": {role: spent.milliseconds / 1000 for role, spent in cost.roles.items()},
        "target_passes": cost.target_passes,
        "target_positions": cost.target_positions,
        "target_only": None
        if alone is None
        else {"seconds": alone.milliseconds / 1000, "basis": alone.basis},
        "vote": _vote_brief(trace),
        "steps": [_step_brief(step, trace.pieces) for step in trace.steps],
        "blocks": [_block_brief(block, trace.pieces) for block in trace.blocks],
    }


def verdict_brief(verdict: Verdict | None) -> dict[str, Any] | None:
    """A verdict in brief for machines."""
    if verdict is None:
        return None
    readings = {name: reading.normalised for name, reading in verdict.readings.items()}
    return {
        "score": verdict.score,
        "threshold": verdict.threshold,
        "accepted": verdict.accepted,
        "readings": readings,
    }


def regate_brief(judged: Regate) -> dict[str, Any]:
    """What another rule says of a trace, in brief."""
    return {
        "flips": list(judged.flips),
        "first_flip": judged.first_flip,
        "unmeasured": {str(index): sentence for index, sentence in judged.unmeasured.items()},
        "verdicts": [verdict_brief(verdict) for verdict in judged.verdicts],
    }


def _vote_brief(trace: Trace) -> list[dict[str, Any]] | None:
    if trace.vote is None:
        return None
    return [
        {"answer": b.answer, "chains": list(b.chains), "mean_reward": b.mean_reward}
        for b in trace.vote.ballots
    ]


def _step_brief(step: Step, pieces: Mapping[int, bytes]) -> dict[str, Any]:
    refused = step.chosen if step.written is not None else None
    return {
        "index": step.index,
        "source": step.outcome.source,
        "forced": step.outcome.forced,
        "n_kept": step.outcome.n_kept,
        "verdict": verdict_brief(step.verdict),
        "text": join_pieces(step.output.token_ids, pieces),
        "refused": None if refused is None else join_pieces(refused.token_ids, pieces),
    }


def _block_brief(block: Block, pieces: Mapping[int, bytes]) -> dict[str, Any]:
    return {
        "index": block.index,
        "drafted": len(block.drafted),
        "accepted": block.n_accepted,
        "correction": None if block.correction is None else block.correction.kind,
        "text": join_pieces(block.token_ids, pieces),
    }

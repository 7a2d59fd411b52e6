"""What a strategy judges steps by, step after step: the reward or the grade against its threshold;
and where several chains vote, the chains and their ballots.

point      one judged step of the run: its reward or grade as a share, and whether it was kept
"""

from typing import Any

from specguard_core.decoder.chains import mean_reward
from specguard_core.strategies import STRATEGIES, StepStrategy
from specguard_core.types import Chain, Trace
from viz_app.session import Look, Session, chain_shown, place
from viz_app.sight import Sight, steps_in_sight
from viz_app.views.gates import Gate, gate_of
from viz_app.views.numbers import fixed


def rewards_view(session: Session, shown: Session, look: Look) -> dict[str, Any]:
    """The curve and the votes that stand with the candidates; nothing where neither has a meaning.

    shown: the session as the one chain that is looked at.
    """
    strategy, gate = STRATEGIES[session.run_config.strategy], gate_of(session.run_config)
    if not isinstance(strategy, StepStrategy) or gate is None or gate.knob == "threshold":
        return {}
    view: dict[str, Any] = {"curve": _curve(shown, look, gate)}
    if strategy.votes and session.trace is not None:
        view["votes"] = votes_view(session.trace, chain_shown(session, look))
    return view


def votes_view(trace: Trace, shown: int) -> dict[str, Any]:
    """A row per chain and per ballot; before the vote there are no ballots."""
    vote = trace.vote
    won = frozenset[int]() if vote is None else frozenset(vote.ballots[0].chains)
    return {
        "chains": [
            {
                "index": index,
                "steps": len(chain.units),
                "fallbacks": sum(step.outcome.source == "target" for step in chain.units),
                "reward": _optional(mean_reward(chain)),
                "answer": _answer(chain),
                "won": index in won,
                "chosen": vote is not None and index == vote.chosen,
                "shown": index == shown,
            }
            for index, chain in enumerate(trace.chains)
        ],
        "ballots": []
        if vote is None
        else [
            {
                "answer": "no answer" if ballot.answer is None else ballot.answer,
                "votes": len(ballot.chains),
                "reward": _optional(ballot.mean_reward),
            }
            for ballot in vote.ballots
        ],
        "sentence": "The chains vote when all of them have ended." if vote is None else _won(trace),
    }


def _won(trace: Trace) -> str:
    vote = trace.vote
    if vote is None:
        return ""
    first = vote.ballots[0]
    answer = "no answer" if first.answer is None else first.answer
    tie = len(vote.ballots) > 1 and len(vote.ballots[1].chains) == len(first.chains)
    how = ", the higher mean reward among equals" if tie else ""
    return (
        f"{answer} wins with {len(first.chains)} of {len(trace.chains)}{how}; chain "
        f"{vote.chosen + 1} stands for it."
    )


def _curve(shown: Session, look: Look, gate: Gate) -> dict[str, Any]:
    config = shown.run_config
    graded = gate.knob == "grade_threshold"
    cursor = place(shown, look)
    at = shown.pace.stop_at(cursor)[0] if cursor else None
    points = [
        {
            "step": seen.step_index,
            "value": seen.verdict.score,
            "text": fixed(seen.verdict.score * gate.whole, 2 if graded else 3),
            "kept": seen.verdict.accepted,
            "at": seen.step_index == at,
            "word": _word(seen),
        }
        for seen in steps_in_sight(shown)
        if seen.verdict is not None
    ]
    return {
        "name": "grade" if graded else "reward",
        "unit": _grading(config.grade_method) if graded else "of each drafted step, 0 to 1",
        "top": fixed(gate.whole, 0),
        "threshold": gate.value / gate.whole,
        "threshold_text": fixed(gate.value, 2),
        "points": points,
        "n_steps": max(len(points), 1 + max((p["step"] for p in points), default=0)),
    }


def _grading(method: str) -> str:
    return {
        "digit": "the target\u2019s likeliest digit, 0 to 9",
        "expected": "the mean of the target\u2019s digits, 0 to 9",
        "logprob": "9 times the target\u2019s mean probability (ours)",
    }[method]


def _word(seen: Sight) -> str:
    if seen.outcome is None:
        return "judged"
    kept = "kept" if seen.outcome.source == "draft" else "target wrote"
    return f"{kept}, forced" if seen.outcome.forced else kept


def _answer(chain: Chain) -> str:
    if chain.finish is None:
        return "goes on"
    return "no answer" if chain.finish.answer is None else chain.finish.answer


def _optional(value: float | None) -> str:
    return "not measured" if value is None else fixed(value)

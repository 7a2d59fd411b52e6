"""Rewards of `rsd`: a reward model reads the steps so far as text, and the last one counts."""

from collections.abc import Mapping, Sequence

from specguard_core.decoder.states import AwaitingVerdict
from specguard_core.errors import ModelError
from specguard_core.lm import Models, RewardReading, RewardRequest
from specguard_core.strategies import step_strategy
from specguard_core.text import join_pieces
from specguard_core.types import Candidate, Trace


def read_rewards(states: Sequence[AwaitingVerdict], models: Models) -> Mapping[int, RewardReading]:
    """By place, what the reward model says of the chosen candidates it is asked about.

    Raises:
        ModelError: a reward outside [0, 1], or not one for each step.
    """
    asked = {
        place: reward_request(
            state.trace,
            state.candidates[0 if state.selection is None else state.selection.chosen],
            models.vocabulary.eos_token_ids,
        )
        for place, state in enumerate(states)
        if step_strategy(state.trace.config).judge == "reward"
    }
    if not asked:
        return {}
    model = models.need_reward()
    readings = dict(zip(asked, model.score_steps(list(asked.values())), strict=True))
    for place, reading in readings.items():
        n_steps = len(asked[place].steps)
        if len(reading.rewards) != n_steps or not all(0 <= r <= 1 for r in reading.rewards):
            raise ModelError(
                f"expected {n_steps} rewards in [0, 1] from {model.info.name}, got "
                f"{', '.join(f'{reward:g}' for reward in reading.rewards) or 'none'}: "
                "name another reward model"
            )
    return readings


def reward_request(
    trace: Trace, candidate: Candidate, eos_token_ids: frozenset[int]
) -> RewardRequest:
    """The problem, the kept steps and the candidate, as text; an end-of-sequence token is none."""
    kept = [step.token_ids for step in trace.steps]
    texts = (
        join_pieces([t for t in ids if t not in eos_token_ids], trace.pieces)
        for ids in (*kept, candidate.token_ids)
    )
    return RewardRequest(trace.problem, tuple(texts))

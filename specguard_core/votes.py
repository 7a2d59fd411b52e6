"""The vote of several chains on the answer. Pure; knows no model and no trace.

chain     one independent run of the same strategy on the same problem
ballot    an answer with the chains that gave it; those without an answer share one, which wins
          only where there is no other
mean reward   of a ballot: over its chains' mean rewards, those that have one
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specguard_core.answers import same_answer
from specguard_core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Ballot:
    """`answer` as its first chain wrote it; chains by index, rising; reward in [0, 1]."""

    answer: str | None
    chains: tuple[int, ...]
    mean_reward: float | None


@dataclass(frozen=True, slots=True)
class Vote:
    """Ballots, the winner first; `chosen`: the chain whose text stands for the winner."""

    ballots: tuple[Ballot, ...]
    chosen: int

    def __post_init__(self) -> None:
        if not self.ballots or self.chosen not in self.ballots[0].chains:
            raise ValueError(f"expected the chosen chain in the first ballot, got {self.chosen}")


def vote(answers: Sequence[str | None], mean_rewards: Sequence[float | None]) -> Vote:
    """The vote on the chains' answers.

    Most chains win; ties go to the higher mean reward, then to the lower index. The chosen chain is
    the winning ballot's of highest mean reward, then of lowest index.

    Raises:
        UsageError: no chain at all, or not one reward for each.
    """
    if not answers or len(answers) != len(mean_rewards):
        raise UsageError(
            f"expected one chain or more and a mean reward for each, got {len(answers)} answers "
            f"and {len(mean_rewards)} rewards"
        )
    groups: list[list[int]] = []
    for index, answer in enumerate(answers):
        for group in groups:
            first = answers[group[0]]
            if answer == first or same_answer(first, answer):
                group.append(index)
                break
        else:
            groups.append([index])
    ballots = [
        Ballot(answers[group[0]], tuple(group), _mean([mean_rewards[i] for i in group]))
        for group in groups
    ]
    ballots.sort(key=_rank)
    chosen = min(ballots[0].chains, key=lambda i: (-_height(mean_rewards[i]), i))
    return Vote(tuple(ballots), chosen)


def _rank(ballot: Ballot) -> tuple[bool, int, float, int]:
    return (
        ballot.answer is None,
        -len(ballot.chains),
        -_height(ballot.mean_reward),
        ballot.chains[0],
    )


def _height(reward: float | None) -> float:
    """An unmeasured reward is below any measured one."""
    return -1.0 if reward is None else reward


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None

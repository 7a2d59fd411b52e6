"""What a unit of a decode took: tokens, time and target passes. Knows no model and no trace.

role       who spent it, and for what; see Role
position   one token going through the target in a forward pass
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["draft_kept", "draft_discarded", "target_written", "verification", "selection"]


@dataclass(frozen=True, slots=True)
class RoleCost:
    """Tokens and wall time of one role; two runs compare equal whatever time they took."""

    tokens: int = 0
    milliseconds: float = field(default=0.0, compare=False)

    def __add__(self, other: "RoleCost") -> "RoleCost":
        return RoleCost(self.tokens + other.tokens, self.milliseconds + other.milliseconds)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a unit took, by role, and the target's passes and positions processed.

    Passes and positions are measured, like time: a prefix that a cache holds from an earlier run is
    not processed again, and two runs compare equal all the same.
    """

    roles: Mapping[Role, RoleCost] = field(default_factory=dict)
    target_passes: int = field(default=0, compare=False)
    target_positions: int = field(default=0, compare=False)

    def __add__(self, other: "Cost") -> "Cost":
        roles = dict(self.roles)
        for role, cost in other.roles.items():
            roles[role] = roles.get(role, RoleCost()) + cost
        return Cost(
            roles,
            self.target_passes + other.target_passes,
            self.target_positions + other.target_positions,
        )

"""What the run took: tokens and milliseconds by role, in all and per step."""

from collections.abc import Sequence
from typing import Any

from specguard_core.metrics import target_only_time
from specguard_core.types import Cost, Role, RoleCost, Trace
from viz_app.session import Look, Session, place
from viz_app.sight import unit_costs
from viz_app.views.numbers import milliseconds, significant

_ROLES: tuple[tuple[str, str, tuple[Role, ...]], ...] = (
    ("draft_kept", "Draft, kept", ("draft_kept",)),
    ("draft_discarded", "Draft, discarded", ("draft_discarded",)),
    ("target_written", "Target, written", ("target_written",)),
    ("verification", "Reading and verdict", ("verification",)),
    ("selection", "Selection", ("selection",)),
)


def ledger_view(session: Session, look: Look) -> dict[str, Any]:
    """A row per role and a column per step; a step under way counts as far as it got."""
    costs = unit_costs(session)
    if not costs:
        return {"empty": "What the run costs will stand here: tokens and milliseconds by role."}
    total = Cost()
    for spent in costs:
        total += spent
    whole = {key: _sum(total, roles) for key, _, roles in _ROLES}
    most_tokens = max((cost.tokens for cost in whole.values()), default=0) or 1
    most_time = max((cost.milliseconds for cost in whole.values()), default=0.0) or 1.0
    cursor = place(session, look)
    rows = []
    for key, name, roles in _ROLES:
        cost = whole[key]
        rows.append(
            {
                "key": key,
                "name": name,
                "tokens": "" if key == "selection" else str(cost.tokens),
                "tokens_width": round(100 * cost.tokens / most_tokens, 1),
                "ms": milliseconds(cost.milliseconds),
                "ms_width": round(100 * cost.milliseconds / most_time, 1),
                "steps": [milliseconds(_sum(step, roles).milliseconds) for step in costs],
            }
        )
    return {
        "rows": rows,
        "steps": [f"{session.pace.unit} {index + 1}" for index in range(len(costs))],
        "selected": None if cursor == 0 else session.pace.stop_at(cursor)[0],
        "total": {
            "tokens": str(sum(cost.tokens for cost in whole.values())),
            "ms": milliseconds(_milliseconds([total])),
            "steps": [milliseconds(_milliseconds([cost])) for cost in costs],
        },
        "target": f"Target passes {total.target_passes:,}, "
        f"positions read {total.target_positions:,}.",
        "alone": None
        if session.trace is not None and session.trace.chains
        else _alone(session.trace, _milliseconds([total])),
        "unknown": _unknown(session),
    }


def _unknown(session: Session) -> str:
    """Why the target's own time is not known."""
    if session.pace.unit == "block":
        return "Not known: the target checked blocks and wrote no text alone here."
    if session.trace is not None and session.trace.chains:
        return "Not known: several chains ran, and only one of them is the text."
    return "Not known while the target has written nothing: its time per token is not measured."


def _alone(trace: Trace | None, run: float) -> dict[str, Any] | None:
    """The run's time beside the target's alone; None where the target wrote nothing."""
    target = None if trace is None else target_only_time(trace)
    if target is None:
        return None
    longest = max(run, target.milliseconds)
    return {
        "run": milliseconds(run),
        "run_width": round(100 * run / longest, 1),
        "target": milliseconds(target.milliseconds),
        "target_width": round(100 * target.milliseconds / longest, 1),
        "basis": target.basis,
        "ratio": significant(run / target.milliseconds),
    }


def _sum(cost: Cost, roles: Sequence[Role]) -> RoleCost:
    total = RoleCost()
    for role in roles:
        total += cost.roles.get(role, RoleCost())
    return total


def _milliseconds(costs: Sequence[Cost]) -> float:
    return sum(role.milliseconds for cost in costs for role in cost.roles.values())

"""Two runs of one problem beside each other: aligned step by step, and their ledgers.

side       A on the left, B on the right; B is the branch on the page
aligned    the n-th reasoning step of both, whatever units they were made in
"""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from specguard_core.config import StrategyName
from specguard_core.metrics import block_accept_rate
from specguard_core.presets import PRESETS
from specguard_core.strategies import STRATEGIES
from specguard_core.types import Role, RoleCost, Trace
from viz_app.abilities import Ability
from viz_app.answers import is_right
from viz_app.passages import Passage, passages
from viz_app.session import Line, Look, Session
from viz_app.views.candidates import difference
from viz_app.views.numbers import fixed, milliseconds, significant

MOST_TEXT = 600
ROLES: tuple[tuple[str, Role], ...] = (
    ("draft, kept", "draft_kept"),
    ("draft, discarded", "draft_discarded"),
    ("target, written", "target_written"),
    ("read to judge", "verification"),
)


def compare_view(
    session: Session, look: Look, abilities: Mapping[StrategyName, Ability] | None = None
) -> dict[str, Any]:
    """What can stand on either side, and, where there are two runs, both of them."""
    line = session.line
    view: dict[str, Any] = {
        "branches": [other.name for other in session.lines],
        "runs": _runs(session, abilities or {}),
        "asked": bool(session.problem.question.strip()),
        "rows": [],
    }
    if line is None or len(session.lines) < 2:
        return view
    other = _other(session, line, look)
    left, right = other.history[-1].trace, line.history[-1].trace
    pairs = list(zip_longest(passages(left), passages(right)))
    return view | {
        "names": [other.name, line.name],
        "sides": [_side(other.name, left), _side(line.name, right)],
        "rows": [_row(index, *pair) for index, pair in enumerate(pairs)],
        "same": sum(1 for a, b in pairs if a is not None and b is not None and a.text == b.text),
        "ledger": ledgers(left, right),
    }


def ledgers(left: Trace, right: Trace) -> list[dict[str, Any]]:
    """What both took: tokens by role, the target's work, time; and B as a share of A."""
    a, b = left.cost, right.cost
    rows = [
        _figures(name, a.roles.get(role, RoleCost()).tokens, b.roles.get(role, RoleCost()).tokens)
        for name, role in ROLES
    ]
    times = [sum(r.milliseconds for r in cost.roles.values()) for cost in (a, b)]
    return [
        *rows,
        _figures("target passes", a.target_passes, b.target_passes),
        _figures("target positions", a.target_positions, b.target_positions),
        {
            "name": "time, ms",
            "a": milliseconds(times[0]),
            "b": milliseconds(times[1]),
            "ratio": _ratio(times[0], times[1]),
        },
    ]


def _runs(session: Session, abilities: Mapping[StrategyName, Ability]) -> list[dict[str, Any]]:
    """Runs that the models can make for a side: each strategy with the knobs as they are, and
    `specguard` under each preset."""
    config = session.config
    rows = [
        {
            "label": name,
            "off": abilities.get(name, Ability()).trouble,
            "set": {
                "strategy": name,
                "grade_method": abilities.get(
                    name, Ability(grade_method=config.grade_method)
                ).grade_method,
            },
        }
        for name in STRATEGIES
    ]
    return rows + [
        {
            "label": f"specguard, preset {name}",
            "off": abilities.get("specguard", Ability()).trouble,
            "set": {"strategy": "specguard", "preset": name},
        }
        for name in PRESETS
    ]


def _other(session: Session, line: Line, look: Look) -> Line:
    others = {candidate.name: candidate for candidate in session.lines if candidate is not line}
    for name in (look.compared, line.parent):
        if name in others:
            return others[name]
    return list(others.values())[-1]


def _side(name: str, trace: Trace) -> dict[str, Any]:
    right = is_right(trace)
    answer = "not finished"
    if trace.finish is not None:
        answer = "no answer" if trace.finish.answer is None else trace.finish.answer
    return {
        "name": name,
        "strategy": trace.config.strategy,
        "answer": answer,
        "right": right,
        "word": {True: "right", False: "wrong", None: ""}[right],
        "kept": _kept(trace),
    }


def _kept(trace: Trace) -> str:
    """How much of the draft's was kept, in the words of the run's units."""
    if trace.blocks:
        rate = block_accept_rate([trace])
        share = "nothing judged" if rate is None else f"{fixed(100 * rate, 0)} % of drafted tokens"
        return f"{share} accepted, {len(trace.blocks)} blocks"
    steps = trace.all_steps
    drafted = sum(step.outcome.source == "draft" for step in steps)
    chains = f" of {len(trace.chains)} chains" if trace.chains else ""
    return f"{drafted} of {len(steps)} steps{chains} by the draft"


def _figures(name: str, a: int, b: int) -> dict[str, Any]:
    return {"name": name, "a": f"{a:,}", "b": f"{b:,}", "ratio": _ratio(a, b)}


def _ratio(a: float, b: float) -> str:
    return significant(b / a) if a > 0 else ""


def _row(index: int, left: Passage | None, right: Passage | None) -> dict[str, Any]:
    before = "" if left is None else left.text[:MOST_TEXT]
    after = "" if right is None else right.text[:MOST_TEXT]
    same = left is not None and right is not None and left.text == right.text
    marked = difference(after, before) if before and after and not same else _plain(after)
    return {
        "step": index + 1,
        "same": same,
        "left": _cell(left, _plain(before)),
        "right": _cell(right, marked),
    }


def _plain(text: str) -> list[dict[str, str]]:
    return [{"kind": "same", "text": text}]


def _cell(passage: Passage | None, parts: list[dict[str, str]]) -> dict[str, Any] | None:
    if passage is None:
        return None
    step = passage.step
    if step is None:
        words = {"source": "blocks", "score": "", "refused": False}
    else:
        words = {
            "source": step.outcome.source + (", forced" if step.outcome.forced else ""),
            "score": "" if step.verdict is None else fixed(step.verdict.score),
            "refused": step.verdict is not None and step.outcome.source == "target",
        }
    return {**words, "text": parts, "unit": passage.unit_index}

"""The menu of strategies: a sentence each, what it needs, and why one cannot be chosen here."""

from collections.abc import Mapping
from typing import Any

from specguard_core.config import DecodeConfig, StrategyName
from specguard_core.strategies import STRATEGIES, BlockStrategy, Strategy
from viz_app.abilities import Ability


def strategies_view(
    config: DecodeConfig, abilities: Mapping[StrategyName, Ability]
) -> list[dict[str, Any]]:
    """A row per strategy; before the models are loaded none is known to be out of reach."""
    return [
        _row(name, row, abilities.get(name, Ability()), chosen=name == config.strategy)
        for name, row in STRATEGIES.items()
    ]


def abilities_view(abilities: Mapping[StrategyName, Ability]) -> dict[str, dict[str, Any]]:
    """What is known of each strategy once the models are loaded, by name."""
    return {name: _known(name, ability) for name, ability in abilities.items()}


def _row(name: StrategyName, row: Strategy, ability: Ability, *, chosen: bool) -> dict[str, Any]:
    return {
        "name": name,
        "text": row.sentence,
        "needs": _needs(row),
        "chosen": chosen,
        **_known(name, ability),
    }


def _known(name: StrategyName, ability: Ability) -> dict[str, Any]:
    return {
        "note": ability.note,
        "off": ability.trouble,
        "set": {"strategy": name, "grade_method": ability.grade_method},
    }


def _needs(row: Strategy) -> str:
    """The models it calls beside the draft and the target; empty where it needs no other."""
    if isinstance(row, BlockStrategy):
        return "blocks of tokens"
    return {"reward": "a reward model", "grade": "the target\u2019s grades"}.get(row.judge, "")

"""Which strategies the loaded models can run, and what stands in the way of the others. Pure but
for the tokenizer; calls no model.

ability    of one strategy: whether it can be chosen, and the way of grading it is chosen with
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from specguard_core.config import DecodeConfig, GradeMethod, StrategyName
from specguard_core.decoder.states import check_models
from specguard_core.errors import NotMeasured, SpecGuardError
from specguard_core.lm import Models
from specguard_core.presets import preset
from specguard_core.strategies import STRATEGIES


@dataclass(frozen=True, slots=True)
class Ability:
    """trouble: why the strategy cannot be run; note: what is different here; both may be empty."""

    trouble: str = ""
    note: str = ""
    grade_method: GradeMethod = "digit"


def abilities(models: Models) -> Mapping[StrategyName, Ability]:
    """One for each strategy of the table."""
    return {name: _ability(models, replace(preset("cpu"), strategy=name)) for name in STRATEGIES}


def _ability(models: Models, config: DecodeConfig) -> Ability:
    try:
        check_models(models, config)
    except NotMeasured as error:
        if config.strategy == "specreason" and config.grade_method != "logprob":
            other = _ability(models, replace(config, grade_method="logprob"))
            note = (
                "this target cannot grade in words, so the grade is 9 times the mean probability "
                "it gives the step\u2019s tokens (ours)"
            )
            return other if other.trouble else Ability("", note, "logprob")
        return Ability(str(error))
    except SpecGuardError as error:
        return Ability(str(error))
    return Ability("", "", config.grade_method)

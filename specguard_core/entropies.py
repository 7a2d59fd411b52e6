"""How unsure a pair is at drafted tokens, measured over problems: the bounds of `easd`.

measured   on blocks of speculative sampling that nothing is overridden in, at the tokens that were
           judged; entropies of the raw softmax, in nats
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from specguard_core.config import DecodeConfig
from specguard_core.decoder.step import decode, start
from specguard_core.errors import ConfigError
from specguard_core.events import BlockCommitted
from specguard_core.lm import BlockModel, Models, OnToken, ShouldStop
from specguard_core.pair import PairRole
from specguard_core.problem_files import FileProblem
from specguard_core.types import Calibration

PERCENTILE = 85
MIN_TOKENS = 100


def writes_blocks(models: Models) -> bool:
    """Whether a pair can be decoded by blocks at all."""
    return isinstance(models.draft, BlockModel) and isinstance(models.target, BlockModel)


def with_entropies(
    calibration: Calibration,
    problems: Sequence[FileProblem],
    models: Models,
    config: DecodeConfig,
    *,
    on_problem: Callable[[int], None] | None = None,
    on_token: OnToken | None = None,
    should_stop: ShouldStop | None = None,
) -> Calibration:
    """The calibration with the 85th percentile of both models' entropies.

    Args:
        config: the knobs to measure under; its strategy and overlap play no part.
        on_problem: told how many problems are done.

    Raises:
        ConfigError: fewer than MIN_TOKENS drafted tokens were judged.
    """
    # No overlap of two sets passes 1: easd measures, and overrides nothing.
    config = replace(config, strategy="easd", easd_overlap=1.01)
    found: dict[PairRole, list[float]] = {"draft": [], "target": []}
    for done, problem in enumerate(problems, start=1):
        state = start(problem.question, models, config, problem_id=problem.problem_id)
        for event in decode(state, models, on_token=on_token, should_stop=should_stop):
            if not isinstance(event, BlockCommitted):
                continue
            for decision in event.block.decisions:
                if decision.draft_entropy is not None and decision.target_entropy is not None:
                    found["draft"].append(decision.draft_entropy)
                    found["target"].append(decision.target_entropy)
        if on_problem is not None:
            on_problem(done)
    n_tokens = len(found["draft"])
    if n_tokens < MIN_TOKENS:
        raise ConfigError(
            f"expected at least {MIN_TOKENS} drafted tokens to take percentiles of, got "
            f"{n_tokens}: give more problems"
        )
    bounds = {role: float(np.percentile(values, PERCENTILE)) for role, values in found.items()}
    return replace(calibration, entropies=bounds)

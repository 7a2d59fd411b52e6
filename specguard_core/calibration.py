"""What raw readings look like for one pair: measured over problems, kept as a calibration.

measured   on the medoid of k draft draws after the target's own steps: the contexts are good ones
           and depend on no threshold, so that a calibration is not about itself
place      index of a token in its step; neighbouring places share a mean of grounding where few
           steps are that long
rule       a draft's folder may hold `calibration.json`; it is used where its pair is the one loaded
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np

from specguard_core.bundled import CALIBRATION_NAME
from specguard_core.config import DecodeConfig, ReadingName, SignalTokens, Weights
from specguard_core.decoder.step import decode, start
from specguard_core.errors import ConfigError
from specguard_core.events import (
    BlockCommitted,
    ChainsMoved,
    Committed,
    Proposed,
    Selected,
    Verified,
)
from specguard_core.lm import Models, OnToken, ShouldStop
from specguard_core.problem_files import FileProblem
from specguard_core.readings import CORRECTABLE, SIGNALS, counted_values
from specguard_core.trace_io import load_calibration
from specguard_core.types import Bounds, Calibration, CalibrationTable, Expected, Step, Trace

LOW_PERCENTILE, HIGH_PERCENTILE = 5, 95
MIN_STEPS = 20
MIN_TOKENS_AT_PLACE = 50
Values = Mapping[int, float]
"""A signal of one step: its value by the place of each counted token."""


def calibrate(
    problems: Sequence[FileProblem],
    models: Models,
    config: DecodeConfig,
    *,
    on_problem: Callable[[int], None] | None = None,
    on_token: OnToken | None = None,
    should_stop: ShouldStop | None = None,
) -> Calibration:
    """The 5th and 95th percentile of every reading the pair can give, and what grounding is usual
    at each place in a step; equal for equal seeds.

    Readings over all tokens and over tokens with a digit are told apart, at no further cost.

    Args:
        config: the knobs to measure under; its weights, threshold, normalisation, signal_tokens
            and grounding_correction play no part.
        on_problem: told how many problems are done.

    Raises:
        ConfigError: fewer than MIN_STEPS steps were measured.
    """
    config = replace(
        config,
        strategy="specguard",
        weights=_measurable(models),
        normalisation="fixed",
        grounding_correction="none",
        threshold=1.01,
    )
    ways = tuple(replace(config, signal_tokens=tokens) for tokens in get_args(SignalTokens))
    measured: dict[DecodeConfig, dict[ReadingName, list[Values]]] = {
        way: {name: [] for name, _ in config.weights} for way in ways
    }
    for done, problem in enumerate(problems, start=1):
        state = start(problem.question, models, config, problem_id=problem.problem_id)
        for event in decode(state, models, on_token=on_token, should_stop=should_stop):
            match event:
                case Committed(step=step, trace=trace):
                    _collect(measured, step, trace)
                case Proposed() | Selected() | Verified() | BlockCommitted() | ChainsMoved():
                    pass
        if on_problem is not None:
            on_problem(done)
    n_steps = min(len(steps) for way in measured.values() for steps in way.values())
    if n_steps < MIN_STEPS:
        raise ConfigError(
            f"expected at least {MIN_STEPS} steps to take percentiles of, got {n_steps}: "
            "give more problems"
        )
    tables = tuple(_table(_settings(models, way), found) for way, found in measured.items())
    return Calibration(pair_name(models), len(problems), n_steps, tables)


def _collect(
    measured: Mapping[DecodeConfig, dict[ReadingName, list[Values]]], step: Step, trace: Trace
) -> None:
    """Add the judged candidate's counted values, one way of counting after the other."""
    if step.chosen is None:
        return
    for way, found in measured.items():
        for name, steps in found.items():
            values = counted_values(name, step.chosen, way, trace.pieces)
            if values:
                steps.append(values)


def _table(
    settings: Mapping[str, object], found: Mapping[ReadingName, list[Values]]
) -> CalibrationTable:
    least = {name: [min(step.values()) for step in steps] for name, steps in found.items()}
    return CalibrationTable(
        settings,
        {name: _bounds(values) for name, values in least.items()},
        {name: expected_of(steps) for name, steps in found.items() if name in CORRECTABLE},
    )


def expected_of(steps: Sequence[Values]) -> Expected:
    """The mean of grounding by place, and the percentiles of the least that is left without it.

    A run of places is as short as MIN_TOKENS_AT_PLACE allows; what is left over joins the last.
    """
    by_place: dict[int, list[float]] = {}
    for step in steps:
        for place, value in step.items():
            by_place.setdefault(place, []).append(value)
    runs: dict[int, list[float]] = {}
    start, run = 0, list[float]()
    for place in sorted(by_place):
        run += by_place[place]
        if len(run) >= MIN_TOKENS_AT_PLACE:
            runs[start], start, run = run, place + 1, []
    runs.setdefault(max(runs, default=0), []).extend(run)
    means = tuple(float(np.mean(values)) for values in runs.values())
    usual = Expected(tuple(runs), means, Bounds(0.0, 0.0))
    left = [min(value - usual.at(place) for place, value in step.items()) for step in steps]
    return replace(usual, bounds=_bounds(left))


def pair_name(models: Models) -> str:
    """What a calibration belongs to: both models by name, and their tokenizer."""
    names = (model.info.name for model in (models.draft, models.target) if model is not None)
    return f"{' + '.join(names)} ({models.vocabulary.tokenizer_hash[:12]})"


def checked_calibration(calibration: Calibration, models: Models) -> Calibration:
    """The calibration itself.

    Raises:
        ConfigError: it was measured on another pair.
    """
    pair = pair_name(models)
    if calibration.pair != pair:
        raise ConfigError(
            f"expected a calibration of {pair}, got one of {calibration.pair}: "
            "make one with `calibrate`"
        )
    return calibration


def default_calibration(models: Models) -> Calibration | None:
    """The calibration in the draft's own folder; None where there is none for this pair."""
    if models.draft is None:
        return None
    path = Path(models.draft.info.source) / CALIBRATION_NAME
    if not path.is_file():
        return None
    calibration = load_calibration(path)
    return calibration if calibration.pair == pair_name(models) else None


def _measurable(models: Models) -> Weights:
    draft, target = models.need_draft(), models.need_target()
    names: list[ReadingName] = []
    for name, signal in SIGNALS.items():
        captured = (target if signal.reads_target else draft).info.grounding == "captured"
        if signal.token_value is not None and (captured or not name.endswith("grounding")):
            names.append(name)
    return tuple((name, 1.0) for name in names)


def _settings(models: Models, config: DecodeConfig) -> dict[str, object]:
    knobs = sorted({knob for signal in SIGNALS.values() for knob in signal.knobs})
    return {
        **{name: getattr(config, name) for name in knobs},
        "n_candidates": config.n_candidates,
        "draft_layers": models.need_draft().info.n_layers,
        "target_layers": models.need_target().info.n_layers,
    }


def _bounds(values: Sequence[float]) -> Bounds:
    low, high = np.percentile(np.asarray(values), [LOW_PERCENTILE, HIGH_PERCENTILE])
    return Bounds(float(low), float(high))

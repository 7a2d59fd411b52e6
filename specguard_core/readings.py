"""Raw readings of a step: the table of signals, the tokens that count, and what is usual.

Knows no weight, no threshold and no UI.

signal       a row of SIGNALS: how a step becomes one raw number, and between which bounds it lies
counted      tokens a minimum is taken over: all but the boundary token, or only those with a
             digit, with a digit or an operator (a wrong operator has sure digits after it), or
             these and the first (which decides what the step sets out to do)
corrected    grounding less what the calibration expects at the token's place in the step: it falls
             along a step whatever is written, so that a plain minimum mostly tells the length
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from specguard_core.config import DecodeConfig, ReadingName
from specguard_core.errors import NotMeasured
from specguard_core.grounding import grounding_ceiling
from specguard_core.types import (
    Bounds,
    Calibration,
    CalibrationTable,
    Candidate,
    Expected,
    TokenSignal,
    Trace,
)

HIGHEST_GRADE = 9.0
_DIGIT = re.compile(rb"[0-9]")
_DIGIT_OR_OPERATOR = re.compile(
    b"|".join(re.escape(sign.encode()) for sign in "0123456789+-*/=×÷−·")
)
_TOKEN_KNOBS = ("signal_tokens", "include_boundary_token")
ROLLOUT_KNOBS = ("rollout_layers", "sparsify", "renormalise", "residual", "sink_tokens")


CORRECTABLE: tuple[ReadingName, ...] = ("grounding", "target_grounding")


@dataclass(frozen=True, slots=True)
class Scales:
    """What raw readings are held against: a calibration (or none) and the models' depths."""

    calibration: Calibration | None
    draft_layers: int
    target_layers: int


@dataclass(frozen=True, slots=True)
class Signal:
    """One row. `token_value` is None for a share of the draws, which needs no normalisation.

    fixed_bounds   (low, high) where no calibration applies, in the raw reading's unit
    knobs          a calibration holds only where these knobs are as they were when it was made
    """

    sentence: str
    unit: Literal["nat", "share", "grade"]
    token_value: Callable[[TokenSignal], float | None] | None
    fixed_bounds: Callable[[DecodeConfig, Scales], tuple[float, float]]
    knobs: tuple[str, ...]
    reads_target: bool


def _log_bounds(config: DecodeConfig, scales: Scales) -> tuple[float, float]:
    return config.logprob_floor, 0.0


def _grounding_bounds(config: DecodeConfig, n_layers: int) -> tuple[float, float]:
    ceiling = grounding_ceiling(min(config.rollout_layers, n_layers), config.residual)
    # Corrected, 0 is as expected everywhere, and nothing lies further below than the ceiling.
    return (0.0, ceiling) if config.grounding_correction == "none" else (-ceiling, 0.0)


SIGNALS: dict[ReadingName, Signal] = {
    "confidence": Signal(
        sentence="least log-probability the draft gave to a token of its own step",
        unit="nat",
        token_value=lambda token: token.logprob,
        fixed_bounds=_log_bounds,
        knobs=_TOKEN_KNOBS,
        reads_target=False,
    ),
    "grounding": Signal(
        sentence="least share of the draft's rollout mass that flows back to the context",
        unit="share",
        token_value=lambda token: token.grounding,
        fixed_bounds=lambda config, scales: _grounding_bounds(config, scales.draft_layers),
        knobs=_TOKEN_KNOBS + ROLLOUT_KNOBS,
        reads_target=False,
    ),
    "agreement": Signal(
        sentence="share of the draws in the chosen candidate's cluster",
        unit="share",
        token_value=None,
        fixed_bounds=lambda config, scales: (0.0, 1.0),
        knobs=(),
        reads_target=False,
    ),
    "target_confidence": Signal(
        sentence="least log-probability the target gives to a token of the draft's step",
        unit="nat",
        token_value=lambda token: token.target_logprob,
        fixed_bounds=_log_bounds,
        knobs=_TOKEN_KNOBS,
        reads_target=True,
    ),
    "target_grounding": Signal(
        sentence="least share of the target's rollout mass that flows back to the context",
        unit="share",
        token_value=lambda token: token.target_grounding,
        fixed_bounds=lambda config, scales: _grounding_bounds(config, scales.target_layers),
        knobs=_TOKEN_KNOBS + ROLLOUT_KNOBS,
        reads_target=True,
    ),
    "grade": Signal(
        sentence="the grade the target gives the draft's step, 0 to 9; it is judged alone",
        unit="grade",
        token_value=None,
        fixed_bounds=lambda config, scales: (0.0, HIGHEST_GRADE),
        knobs=(),
        reads_target=True,
    ),
    "reward": Signal(
        sentence="the reward a reward model gives the draft's step, 0 to 1; it is judged alone",
        unit="share",
        token_value=None,
        fixed_bounds=lambda config, scales: (0.0, 1.0),
        knobs=(),
        reads_target=False,
    ),
}


def scales_of(trace: Trace) -> Scales:
    """The scales a trace's readings are held against."""
    return Scales(
        calibration=trace.calibration,
        draft_layers=1 if trace.draft is None else trace.draft.n_layers,
        target_layers=1 if trace.target is None else trace.target.n_layers,
    )


def boundary_index(candidate: Candidate) -> int | None:
    """Index of the token that completes the delimiter or ends the sequence; None after a limit."""
    return len(candidate.tokens) - 1 if candidate.stop in ("delimiter", "eos") else None


def counted_tokens(
    candidate: Candidate, config: DecodeConfig, pieces: Mapping[int, bytes]
) -> tuple[int, ...]:
    """Indices of the tokens a minimum is taken over, never empty (DESIGN section 5)."""
    boundary = None if config.include_boundary_token else boundary_index(candidate)
    counted = tuple(i for i in range(len(candidate.tokens)) if i != boundary)
    # A step that is nothing but its boundary token is judged by that token.
    counted = counted or (0,)
    if config.signal_tokens == "all":
        return counted
    marks = _has_digit if config.signal_tokens == "numeric" else _has_digit_or_operator
    opens = config.signal_tokens == "setup"
    tokens = candidate.tokens
    marked = tuple(i for i in counted if (opens and i == 0) or marks(pieces[tokens[i].token_id]))
    return marked or counted


# A page that turns a knob judges thousands of tokens again, out of the same few hundred pieces.
@lru_cache(maxsize=65_536)
def _has_digit(piece: bytes) -> bool:
    return _DIGIT.search(piece) is not None


@lru_cache(maxsize=65_536)
def _has_digit_or_operator(piece: bytes) -> bool:
    return _DIGIT_OR_OPERATOR.search(piece) is not None


def measure(
    name: ReadingName,
    candidate: Candidate,
    config: DecodeConfig,
    pieces: Mapping[int, bytes],
    expected: Expected | None = None,
) -> tuple[float, int] | None:
    """Raw value of a per-token signal and the index of the token that decided it.

    None where any counted token was not measured: a minimum over the rest would be made up.
    """
    values = counted_values(name, candidate, config, pieces, expected)
    return min(((value, index) for index, value in values.items()), default=None)


def counted_values(
    name: ReadingName,
    candidate: Candidate,
    config: DecodeConfig,
    pieces: Mapping[int, bytes],
    expected: Expected | None = None,
) -> dict[int, float]:
    """A per-token signal by the index of each counted token, in order; empty where one was not
    measured. Each is taken less what is `expected` at its place, where that is given."""
    token_value = SIGNALS[name].token_value
    if token_value is None:
        return {}
    values: dict[int, float] = {}
    for index in counted_tokens(candidate, config, pieces):
        value = token_value(candidate.tokens[index])
        if value is None:
            return {}
        values[index] = value if expected is None else value - expected.at(index)
    return values


def calibrated_bounds(
    name: ReadingName, config: DecodeConfig, calibration: Calibration | None
) -> Bounds | None:
    """The bounds a calibration gives a reading under the knobs as they stand; None: it has none."""
    if is_corrected(name, config):
        expected = expectation(name, config, calibration)
        return None if expected is None else expected.bounds
    tables = _fitting_tables(name, config, calibration)
    return next((table.bounds[name] for table in tables if name in table.bounds), None)


def is_corrected(name: ReadingName, config: DecodeConfig) -> bool:
    """Whether the reading is grounding less what is expected at each token's place."""
    return config.grounding_correction == "position" and name in CORRECTABLE


def expectation(
    name: ReadingName, config: DecodeConfig, calibration: Calibration | None
) -> Expected | None:
    """What a corrected reading is compared with; None: it is not corrected, or nobody knows."""
    if not is_corrected(name, config):
        return None
    tables = _fitting_tables(name, config, calibration)
    return next((table.expected[name] for table in tables if name in table.expected), None)


def require_expectations(config: DecodeConfig, calibration: Calibration | None) -> None:
    """Every weighted reading that is to be corrected can be.

    Raises:
        NotMeasured: the calibration does not say what to expect under the knobs as they stand.
    """
    for name in config.weight:
        if is_corrected(name, config) and expectation(name, config, calibration) is None:
            what = "none" if calibration is None else "one that does not say under these knobs"
            raise NotMeasured(
                f"expected a calibration that says what {name.replace('_', ' ')} is usual at each "
                f"place in a step, got {what}: make one with `calibrate`, or set "
                "grounding_correction to none"
            )


def _fitting_tables(
    name: ReadingName, config: DecodeConfig, calibration: Calibration | None
) -> list[CalibrationTable]:
    """The tables made under the knobs that the reading depends on."""
    return [
        table
        for table in (() if calibration is None else calibration.tables)
        if all(table.settings.get(k) == getattr(config, k) for k in SIGNALS[name].knobs)
    ]

"""Every knob of a decode, each with its range and its sentence. Knows no model and no UI.

The check, the sliders, the command-line flags and the docs all read the same line.

effect     what turning a knob needs, once a trace is recorded:
           judge    nothing: verdicts follow at once from the numbers in the trace
           select   nothing: selection follows from the similarity matrices in the trace
           rollout  the attention rows kept as Evidence
           rerun    a new decode
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from specguard_core.errors import ConfigError

Effect = Literal["judge", "select", "rollout", "rerun"]
StepStrategyName = Literal[
    "specguard", "draft_only", "target_only", "specreason", "rsd", "rsd_majority"
]
BlockStrategyName = Literal["speculative", "easd"]
StrategyName = Literal[StepStrategyName, BlockStrategyName]
SignalName = Literal[
    "confidence", "grounding", "agreement", "target_confidence", "target_grounding"
]
ReadingName = Literal[SignalName, "grade", "reward"]
SelectionMethod = Literal["lexical", "numeric", "hidden", "sentence-transformers"]
Normalisation = Literal["calibrated", "fixed", "candidates"]
SignalTokens = Literal["all", "numeric", "equation", "setup"]
GroundingCorrection = Literal["none", "position"]
FallbackFrom = Literal["step", "token"]
EasdBounds = Literal["calibrated", "fixed"]
GradeMethod = Literal["digit", "expected", "logprob"]
Thinking = Literal["template", "on", "off"]
Weights = tuple[tuple[ReadingName, float], ...]

READING_NAMES: tuple[ReadingName, ...] = get_args(SignalName)
"""Readings that a weight may be put on."""
STEP_STRATEGY_NAMES: tuple[StepStrategyName, ...] = get_args(StepStrategyName)
BLOCK_STRATEGY_NAMES: tuple[BlockStrategyName, ...] = get_args(BlockStrategyName)
STRATEGY_NAMES: tuple[StrategyName, ...] = (*STEP_STRATEGY_NAMES, *BLOCK_STRATEGY_NAMES)


@dataclass(frozen=True, slots=True)
class Knob:
    """Range, effect and sentence of one field; low and high are None where it has no range."""

    low: float | None
    high: float | None
    effect: Effect
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeConfig:
    """All knobs of one decode (DESIGN section 5). A wrong one cannot be built.

    Raises:
        ConfigError: a value out of range or of the wrong type; the sentence names the knob.
    """

    strategy: Annotated[StrategyName, Knob(None, None, "rerun", "which rules drive the decode")] = (
        "specguard"
    )
    n_candidates: Annotated[
        int, Knob(1, 64, "rerun", "candidate steps the draft samples for each step (k)")
    ] = 4
    draft_temperature: Annotated[
        float, Knob(0, 5, "rerun", "temperature of the draft's samples; 0 is greedy")
    ] = 0.7
    draft_top_p: Annotated[
        float, Knob(0, 1, "rerun", "share of probability mass the draft samples from")
    ] = 0.8
    draft_top_k: Annotated[
        int, Knob(0, 1_000_000, "rerun", "most likely tokens the draft samples from; 0 is all")
    ] = 0
    target_temperature: Annotated[
        float, Knob(0, 5, "rerun", "temperature of the target's own steps; 0 is greedy")
    ] = 0.0
    target_top_p: Annotated[
        float, Knob(0, 1, "rerun", "share of probability mass the target samples from")
    ] = 1.0
    target_top_k: Annotated[
        int, Knob(0, 1_000_000, "rerun", "most likely tokens the target samples from; 0 is all")
    ] = 0
    target_samples: Annotated[
        int, Knob(1, 64, "rerun", "steps the target samples in a fallback; the medoid is kept")
    ] = 1
    fallback_from: Annotated[
        FallbackFrom,
        Knob(
            None,
            None,
            "rerun",
            "where the target takes over a refused step: at the step's beginning, or at the first "
            "token that gets it refused",
        ),
    ] = "step"
    selection_method: Annotated[
        SelectionMethod, Knob(None, None, "select", "similarity that picks the medoid")
    ] = "lexical"
    cluster_similarity: Annotated[
        float, Knob(0, 1, "select", "candidates at least this similar share a cluster")
    ] = 0.8
    weights: Annotated[
        Weights, Knob(0, 1, "judge", "weight of each reading in the score, e.g. confidence:0.3")
    ] = (("confidence", 0.3), ("grounding", 0.7))
    threshold: Annotated[
        float, Knob(0, 1.01, "judge", "accept a step that scores at least this")
    ] = 0.7
    normalisation: Annotated[
        Normalisation, Knob(None, None, "judge", "how raw readings become scores in [0, 1]")
    ] = "calibrated"
    logprob_floor: Annotated[
        float, Knob(-100, -0.01, "judge", "log-probability (nats) that counts as 0 when fixed")
    ] = -10.0
    signal_tokens: Annotated[
        SignalTokens,
        Knob(
            None,
            None,
            "judge",
            "tokens a minimum is taken over: all; with a digit; with a digit or operator; "
            "these and the first",
        ),
    ] = "all"
    grounding_correction: Annotated[
        GroundingCorrection,
        Knob(
            None,
            None,
            "judge",
            "position: grounding less what the calibration expects at each token's place in a step",
        ),
    ] = "none"
    include_boundary_token: Annotated[
        bool, Knob(None, None, "rerun", "whether the token that ends a step counts in a minimum")
    ] = False
    rollout_layers: Annotated[
        int, Knob(1, 256, "rollout", "last layers that attention rollout runs through")
    ] = 3
    sparsify: Annotated[
        float, Knob(0, 0.5, "rollout", "attention below this is dropped before the rollout")
    ] = 0.01
    renormalise: Annotated[
        bool, Knob(None, None, "rollout", "whether rows sum to 1 again after dropping")
    ] = True
    residual: Annotated[
        bool, Knob(None, None, "rollout", "whether half of each row stays on its own token")
    ] = True
    sink_tokens: Annotated[
        int, Knob(0, 64, "rollout", "first tokens of the context whose attention is dropped")
    ] = 0
    gamma: Annotated[int, Knob(1, 64, "rerun", "tokens drafted for each block")] = 5
    adaptive_gamma: Annotated[
        bool,
        Knob(None, None, "rerun", "draft 2 more after a whole block was accepted, else 1 fewer"),
    ] = False
    easd_top_n: Annotated[
        int, Knob(1, 1_000, "rerun", "most likely tokens whose overlap `easd` looks at")
    ] = 10
    easd_overlap: Annotated[
        float, Knob(0, 1.01, "rerun", "overlap from which `easd` calls a token doubtful")
    ] = 0.6
    easd_bounds: Annotated[
        EasdBounds, Knob(None, None, "rerun", "where the entropy bounds of `easd` come from")
    ] = "calibrated"
    easd_draft_entropy: Annotated[
        float, Knob(0, 100, "rerun", "draft's entropy (nats) called high, if not calibrated")
    ] = 2.0
    easd_target_entropy: Annotated[
        float, Knob(0, 100, "rerun", "target's entropy (nats) called high, if not calibrated")
    ] = 2.0
    n_chains: Annotated[
        int, Knob(1, 64, "rerun", "chains of `rsd_majority`, which vote on the answer")
    ] = 4
    reward_threshold: Annotated[
        float, Knob(0, 1.01, "judge", "reward from which `rsd` and `rsd_majority` keep a step")
    ] = 0.7
    grade_threshold: Annotated[
        float, Knob(0, 9.01, "judge", "grade from which `specreason` keeps a step")
    ] = 7.0
    grade_method: Annotated[
        GradeMethod, Knob(None, None, "rerun", "how the target's grade is read; logprob is ours")
    ] = "digit"
    grade_prompt: Annotated[
        str, Knob(None, None, "rerun", "question after a step that the target answers by a digit")
    ] = (
        "\n\nHow good is the last reasoning step above? Answer with one digit, from 0 (wrong or "
        "useless) to 9 (right and useful).\nGrade: "
    )
    delimiter: Annotated[str, Knob(None, None, "rerun", "text that ends a step")] = "\n\n"
    max_steps: Annotated[int, Knob(1, 10_000, "rerun", "steps after which the run ends")] = 100
    max_step_tokens: Annotated[
        int, Knob(1, 100_000, "rerun", "tokens after which a step is cut; the run goes on")
    ] = 512
    max_new_tokens: Annotated[
        int, Knob(1, 1_000_000, "rerun", "tokens after which the run ends")
    ] = 4096
    repeat_limit: Annotated[
        int, Knob(2, 1_000, "rerun", "equal steps in a row after which the run ends")
    ] = 3
    n_alternatives: Annotated[
        int, Knob(0, 50, "rerun", "most likely tokens recorded beside each token")
    ] = 5
    system_prompt: Annotated[str, Knob(None, None, "rerun", "instruction before the problem")] = (
        "Please reason step by step, and put your final answer within \\boxed{}."
    )
    enable_thinking: Annotated[
        Thinking,
        Knob(None, None, "rerun", "switch of a thinking model's chat template; template: its own"),
    ] = "template"
    seed: Annotated[int, Knob(0, 2**31 - 1, "rerun", "seed of the whole run")] = 0

    def __post_init__(self) -> None:
        for name, knob in KNOBS.items():
            _check(name, knob, getattr(self, name))

    @property
    def weight(self) -> dict[ReadingName, float]:
        """Weights by reading name; readings of weight 0 are left out."""
        return {name: value for name, value in self.weights if value > 0}


def knobs() -> dict[str, Knob]:
    """Every field of DecodeConfig with its Knob, in order."""
    hints = get_type_hints(DecodeConfig, include_extras=True)
    return {f.name: get_args(hints[f.name])[1] for f in fields(DecodeConfig)}


KNOBS = knobs()
KNOB_TYPES: dict[str, Any] = get_type_hints(DecodeConfig)


def to_json(config: DecodeConfig) -> dict[str, Any]:
    """Plain values; weights as an object."""
    return {
        name: dict(config.weights) if name == "weights" else getattr(config, name) for name in KNOBS
    }


def from_json(data: Mapping[str, Any]) -> DecodeConfig:
    """The inverse of to_json; missing knobs keep their default, unknown ones are refused.

    Rewards were once judged by `threshold`: a config from then judges them as it did.
    """
    unknown = [name for name in data if name not in KNOBS]
    if unknown:
        raise ConfigError(f"expected known knobs, got {unknown[0]!r}: the file is from elsewhere")
    values = dict(data)
    if values.get("strategy") in ("rsd", "rsd_majority") and "threshold" in values:
        values.setdefault("reward_threshold", values["threshold"])
    weights = values.get("weights")
    if weights is not None:
        if not isinstance(weights, Mapping):
            raise ConfigError(f"expected weights as an object, got {type(weights).__name__}")
        values["weights"] = tuple(weights.items())
    return DecodeConfig(**values)


def _check(name: str, knob: Knob, value: object) -> None:
    kind = KNOB_TYPES[name]
    if name == "weights":
        _check_weights(value)
    elif get_origin(kind) is Literal:
        if value not in get_args(kind):
            menu = ", ".join(str(choice) for choice in get_args(kind))
            raise ConfigError(f"expected {name} out of {menu}, got {value!r}: choose one")
    elif kind is float or kind is int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole and not (kind is float and isinstance(value, float)):
            noun = "a number" if kind is float else "a whole number"
            raise ConfigError(f"expected {name} to be {noun}, got {value!r}: correct it")
        assert knob.low is not None and knob.high is not None and isinstance(value, int | float)
        if not knob.low <= value <= knob.high:  # true of NaN, too
            raise ConfigError(
                f"expected {name} from {knob.low:g} to {knob.high:g}, got {_shown(value)}: "
                "choose a value inside"
            )
    elif not isinstance(value, kind):
        raise ConfigError(f"expected {name} to be {kind.__name__}, got {value!r}: correct it")
    elif isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise ConfigError(f"expected {name} as text, got half a character in it: correct it")
        if name in ("delimiter", "grade_prompt") and not value:
            raise ConfigError(f"expected {name} to hold some text, got an empty one: set it")


def _check_weights(value: object) -> None:
    if not isinstance(value, tuple) or not value:
        raise ConfigError(f"expected weights as (name, weight) pairs, got {value!r}: give one")
    seen: set[str] = set()
    for pair in value:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ConfigError(f"expected weights as (name, weight) pairs, got {pair!r}: correct it")
        name, weight = pair
        if name not in READING_NAMES or name in seen:
            menu = ", ".join(READING_NAMES)
            raise ConfigError(f"expected each weight once, out of {menu}, got {name!r}: choose one")
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not 0 <= weight <= 1:
            raise ConfigError(f"expected the weight of {name} in [0, 1], got {weight!r}: change it")
        seen.add(name)
    if not any(weight > 0 for _, weight in value):
        raise ConfigError("expected a weight above 0, got none: give some reading a weight")


def _shown(value: float) -> str:
    """A number as a person reads it; a whole number too large for a float is not written out."""
    return "a far larger one" if isinstance(value, int) and abs(value) > 10**18 else f"{value:g}"

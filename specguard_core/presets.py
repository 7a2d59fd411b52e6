"""Named sets of knob values, and settings as a person types them. Knows no model and no UI.

preset     a named config; what another config changes from it is always listed
setting    `name=value`, as on a command line
ablation   `specguard` with a part switched off: a named setting
variant    a strategy with what it changes, in one word: `specguard@best+no-selector+threshold=0.6`
beta       confidence's weight while confidence and grounding are the only readings
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from specguard_core.config import KNOB_TYPES, KNOBS, STRATEGY_NAMES, DecodeConfig
from specguard_core.errors import ConfigError

PresetName = Literal["paper", "cpu", "best", "read"]

# What `cpu` and `best` change was chosen on assets/problems/abacus-calibration.jsonl, thresholds on
# whole runs; assets/models/README.md has the figures. `read` was chosen on real models, which
# benchmarks/signals-qwen2.5-coder.md tells of: its threshold is a probability of 1 %.
PRESETS: dict[PresetName, DecodeConfig] = {
    "paper": DecodeConfig(n_candidates=16),
    "cpu": DecodeConfig(signal_tokens="equation", threshold=0.65),
    "best": DecodeConfig(
        weights=(("agreement", 0.3), ("target_confidence", 0.7)),
        threshold=0.8,
        signal_tokens="setup",
        selection_method="numeric",
    ),
    "read": DecodeConfig(
        n_candidates=1,
        draft_temperature=0.0,
        weights=(("target_confidence", 1.0),),
        threshold=0.54,
        normalisation="fixed",
        fallback_from="token",
    ),
}


ABLATIONS: dict[str, str] = {
    "no-selector": "n_candidates=1",
    "grounding-only": "weights=grounding:1",
    "confidence-only": "weights=confidence:1",
}


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant as read: its text, and what it asks for. preset: None where it names none."""

    name: str
    preset: str | None
    settings: tuple[str, ...]


def preset(name: str) -> DecodeConfig:
    """The preset of that name; an unknown one is answered with the menu."""
    for known, config in PRESETS.items():
        if known == name:
            return config
    raise ConfigError(f"expected a preset out of {', '.join(PRESETS)}, got {name!r}: choose one")


def default_preset(*, calibrated: bool, target_reads: bool) -> PresetName:
    """`cpu`, or `read` for a pair whose readings nothing scales: with fixed bounds `cpu` accepts
    all that a real pair drafts.

    target_reads: whether the target gives log-probabilities; a server does not.
    """
    return "read" if target_reads and not calibrated else "cpu"


def difference(config: DecodeConfig, base: DecodeConfig) -> dict[str, Any]:
    """Knobs whose value in config is not the one in base, with the value in config."""
    return {
        name: getattr(config, name)
        for name in KNOBS
        if getattr(config, name) != getattr(base, name)
    }


def changed(config: DecodeConfig, settings: Sequence[str]) -> DecodeConfig:
    """The config with `name=value` settings applied, as typed on a command line.

    `beta=0.3` sets confidence's weight and leaves the rest to grounding.

    Raises:
        ConfigError: an unknown knob (answered with the menu), or a value it cannot take.
    """
    values: dict[str, Any] = {}
    for setting in settings:
        name, separator, text = setting.partition("=")
        name = name.strip()
        if not separator:
            raise ConfigError(f"expected a setting name=value, got {setting!r}: add '='")
        if name == "beta":
            base = replace(config, weights=values.get("weights", config.weights))
            values["weights"] = with_beta(base, _number("beta", float, text)).weights
        elif name in KNOBS:
            values[name] = _parse(name, text)
        else:
            menu = ", ".join([*KNOBS, "beta"])
            raise ConfigError(f"expected a knob, got {name!r}: choose out of {menu}")
    return replace(config, **values)


def variants(text: str) -> tuple[Variant, ...]:
    """Variants with commas between them; the commas within `weights=` part none.

    Raises:
        ConfigError: no variant, one twice, or a name that is unknown (answered with the menu).
    """
    words = [word.strip() for word in re.split(r",(?!\s*\w+:)", text)]
    if len(set(words)) < len(words):
        twice = next(word for word in words if words.count(word) > 1)
        raise ConfigError(f"expected each strategy once, got {twice!r} again: leave one out")
    return tuple(map(_variant, words))


def _variant(text: str) -> Variant:
    strategy, _, rest = text.partition("@")
    if strategy not in STRATEGY_NAMES:
        menu = ", ".join(STRATEGY_NAMES)
        raise ConfigError(f"expected a strategy out of {menu}, got {strategy!r}: choose one")
    named: str | None = None
    settings = [f"strategy={strategy}"]
    for part in rest.split("+") if rest else ():
        if part in PRESETS and named is None:
            named = part
        elif part in ABLATIONS and strategy == "specguard":
            settings.append(ABLATIONS[part])
        elif "=" in part:
            settings.append(part)
        else:
            menu = ", ".join([*PRESETS, *ABLATIONS])
            raise ConfigError(
                f"expected a preset, an ablation of specguard or name=value in {text!r}, got "
                f"{part!r}: choose out of {menu}"
            )
    return Variant(text, named, tuple(settings))


def with_beta(config: DecodeConfig, beta: float) -> DecodeConfig:
    """The config with confidence weighted beta and grounding 1 - beta.

    Raises:
        ConfigError: other readings carry weight, so a single beta says nothing.
    """
    if not set(config.weight) <= {"confidence", "grounding"}:
        raise ConfigError(
            "expected beta only where confidence and grounding are the only readings, got weights "
            f"on {', '.join(config.weight)}: set weights instead"
        )
    if not 0 <= beta <= 1:
        raise ConfigError(f"expected beta in [0, 1], got {beta}: choose a value inside")
    return replace(config, weights=(("confidence", beta), ("grounding", round(1 - beta, 12))))


def _parse(name: str, text: str) -> object:
    kind = KNOB_TYPES[name]
    if name == "weights":
        pairs = [part.partition(":") for part in text.split(",") if part.strip()]
        return tuple((key.strip(), _number(name, float, value)) for key, _, value in pairs)
    if kind is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.strip().lower() not in words:
            raise ConfigError(f"expected {name} to be true or false, got {text!r}: choose one")
        return words[text.strip().lower()]
    if kind is int or kind is float:
        return _number(name, kind, text)
    return text.replace("\\n", "\n") if name in ("delimiter", "grade_prompt") else text


def _number(name: str, kind: type[int] | type[float], text: str) -> int | float:
    try:
        return kind(text)
    except ValueError:
        noun = "a number" if kind is float else "a whole number"
        raise ConfigError(f"expected {name} to be {noun}, got {text!r}: correct it") from None

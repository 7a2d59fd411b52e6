"""The knobs of a run: what re-judges it at once, what needs a new one, and what flips now.

Made from DecodeConfig: range, sentence and effect come from its fields.
"""

from dataclasses import dataclass
from typing import Any, get_args

from specguard_core.config import KNOB_TYPES, KNOBS, DecodeConfig, SelectionMethod
from specguard_core.presets import PRESETS
from specguard_core.readings import SIGNALS, calibrated_bounds
from specguard_core.strategies import knobs_of
from specguard_core.types import Calibration, Trace
from viz_app.calibrating import told
from viz_app.session import Look, Session
from viz_app.views.numbers import decimals_apart, fixed
from viz_app.views.top import preset_of
from viz_app.whatif import WhatIf, shown_knobs


@dataclass(frozen=True, slots=True)
class Slider:
    """How a knob is drawn: its word, the part of its range a slider covers, its grain."""

    word: str
    low: float
    high: float
    grain: float
    decimals: int


_SLIDERS = {
    "threshold": Slider("threshold", 0, 1.01, 0.01, 2),
    "reward_threshold": Slider("threshold", 0, 1.01, 0.01, 2),
    "grade_threshold": Slider("threshold", 0, 9.01, 0.1, 2),
    "beta": Slider("beta", 0, 1, 0.01, 2),
    "sparsify": Slider("sparsify", 0, 0.1, 0.005, 3),
    "rollout_layers": Slider("layers", 1, 6, 1, 0),
    "sink_tokens": Slider("sinks", 0, 8, 1, 0),
    "cluster_similarity": Slider("cut", 0, 1, 0.01, 2),
    "logprob_floor": Slider("floor", -20, -0.5, 0.5, 1),
}
_SAMPLING = {
    "n_candidates": Slider("k", 1, 16, 1, 0),
    "draft_temperature": Slider("temperature", 0, 2, 0.05, 2),
    "draft_top_p": Slider("top-p", 0, 1, 0.01, 2),
    "n_chains": Slider("chains", 1, 16, 1, 0),
    "gamma": Slider("gamma", 1, 16, 1, 0),
    "target_temperature": Slider("target temp.", 0, 2, 0.05, 2),
    "easd_top_n": Slider("top N", 1, 50, 1, 0),
    "easd_overlap": Slider("overlap", 0, 1.01, 0.01, 2),
    "easd_draft_entropy": Slider("draft entr.", 0, 5, 0.05, 2),
    "easd_target_entropy": Slider("target entr.", 0, 5, 0.05, 2),
    "max_steps": Slider("max steps", 1, 200, 1, 0),
    "max_new_tokens": Slider("max tokens", 16, 4096, 16, 0),
}
_CHOICES = {
    "normalisation": "normalise",
    "signal_tokens": "tokens",
    "grounding_correction": "correction",
    "selection_method": "similarity",
}
_SWITCHES = ("renormalise", "residual")
_FRESH_CHOICES = {
    "fallback_from": "fall back at",
    "grade_method": "grade by",
    "easd_bounds": "bounds",
}
_FRESH_SWITCHES = {"adaptive_gamma": "adaptive gamma"}


def knobs_view(
    session: Session, look: Look, whatif: WhatIf | None, has_rows: bool
) -> dict[str, Any]:
    """Every knob with its value, the preset's, and whether it can be turned on this run."""
    trace = session.trace
    run = session.run_config
    now = run if look.knobs is None else look.knobs
    preset, changes = preset_of(session)
    base = PRESETS[preset]  # type: ignore[index]  # preset_of names one of them
    depth = 6 if trace is None or trace.draft is None else trace.draft.n_layers
    recorded = trace is not None and bool(trace.steps)
    used = knobs_of(run.strategy)
    fresh = session.config
    sliders = [_slider(name, slider, now, run, base, depth) for name, slider in _live(now).items()]
    for slider in sliders:
        slider["off"] = _off(slider["key"], recorded=recorded, has_rows=has_rows)
    return {
        "note": _note(preset, changes, now, run),
        "differs": _differs(changes, now, run),
        "changed": now != run,
        "uncalibrated": uncalibrated(session.calibration, trace, now),
        "calibrated": told(session.calibration),
        "sliders": sliders,
        "choices": [_choice(n, word, now, run) for n, word in _CHOICES.items() if n in used],
        "unrecorded": _unrecorded(trace),
        "switches": [
            {
                "key": name,
                "word": name,
                "on": getattr(now, name),
                "changed": getattr(now, name) != getattr(run, name),
                "sentence": KNOBS[name].sentence,
                "off": "" if recorded and has_rows else "not recorded",
            }
            for name in _SWITCHES
            if name in used
        ],
        "sampling": [
            _slider(name, slider, fresh, fresh, base, depth)
            for name, slider in _SAMPLING.items()
            if name in used
        ],
        "fresh_choices": [
            _choice(name, word, fresh, fresh)
            for name, word in _FRESH_CHOICES.items()
            if name in used
        ],
        "fresh_switches": [
            {
                "key": name,
                "word": word,
                "on": getattr(fresh, name),
                "changed": False,
                "sentence": KNOBS[name].sentence,
                "off": "",
            }
            for name, word in _FRESH_SWITCHES.items()
            if name in used
        ],
        "sampling_text": _sampling_text(run),
        **flip_list(trace, whatif),
    }


def uncalibrated(own: Calibration | None, trace: Trace | None, now: DecodeConfig) -> str:
    """Which weighted readings have no calibrated bounds at these knobs; empty where all have.

    Fixed bounds are a choice only where there are others.
    """
    if trace is None or now.strategy != "specguard":
        return ""
    known = trace.calibration or own
    if now.normalisation == "candidates" or (now.normalisation == "fixed" and known):
        return ""
    missing = [
        name.replace("_", " ")
        for name in now.weight
        if SIGNALS[name].token_value is not None and calibrated_bounds(name, now, known) is None
    ]
    if not missing:
        return ""
    return f"{' and '.join(missing)} held against fixed bounds: not calibrated for these knobs"


def flip_list(trace: Trace | None, whatif: WhatIf | None) -> dict[str, Any]:
    """The verdicts that go another way at these knobs; only the first of them is certain."""
    if trace is None or whatif is None:
        return {"flips": None}
    if whatif.regate is None:
        return {"flips": [], "trouble": whatif.trouble}
    lines = []
    for index in whatif.regate.flips:
        before, after = trace.steps[index].verdict, whatif.regate.verdicts[index]
        if before is None or after is None:
            continue
        decimals = decimals_apart(after.score, after.threshold)
        sign = "≥" if after.accepted else "\u003c"
        lines.append(
            {
                "step": index,
                "certain": index == whatif.first_flip,
                "change": _change(before.accepted, after.accepted),
                "sum": f"{fixed(after.score, decimals)} {sign} {fixed(after.threshold, 2)}",
            }
        )
    first = whatif.first_flip
    later = 0 if first is None else len(trace.steps) - first - 1
    return {"flips": lines, "first": first, "stale": _stale(first, later), "trouble": ""}


def _change(before: bool, after: bool) -> str:
    words = {True: "accepted", False: "refused"}
    if before == after:
        return "another draw accepted" if after else "refused at another token"
    return f"{words[before]} → {words[after]}"


def _stale(first: int | None, later: int) -> str:
    if first is None:
        return "Every step stands."
    if later == 0:
        return "No later step stands on it."
    if later == 1:
        return f"Step {first + 2} is stale."
    return f"Steps {first + 2} to {first + 1 + later} are stale."


def _live(config: DecodeConfig) -> dict[str, Slider]:
    """The sliders that re-judge, beta or the weights in their place."""
    used = knobs_of(config.strategy)
    gates = ("threshold", "reward_threshold", "grade_threshold")
    sliders = {name: _SLIDERS[name] for name in gates if name in used}
    if "weights" not in used:
        return sliders
    for name in shown_knobs(config):
        word = name.removeprefix("weight ").replace("_", " ")
        sliders[name] = _SLIDERS.get(name) or Slider(word, 0, 1, 0.01, 2)
    for name in ("sparsify", "rollout_layers", "cluster_similarity", "sink_tokens"):
        sliders[name] = _SLIDERS[name]
    if config.normalisation == "fixed":
        sliders["logprob_floor"] = _SLIDERS["logprob_floor"]
    return sliders


def _sampling_text(run: DecodeConfig) -> str:
    """What was sampled, of the knobs that the run's strategy reads."""
    words = {
        "n_candidates": f"k {run.n_candidates}",
        "n_chains": f"{run.n_chains} chains",
        "gamma": f"gamma {run.gamma}",
        "draft_temperature": f"temperature {run.draft_temperature:g}",
        "draft_top_p": f"top-p {run.draft_top_p:g}",
    }
    used = knobs_of(run.strategy)
    shown = [text for name, text in words.items() if name in used]
    return ", ".join(shown or [f"target temperature {run.target_temperature:g}"])


def _slider(
    name: str, slider: Slider, now: DecodeConfig, run: DecodeConfig, base: DecodeConfig, depth: int
) -> dict[str, Any]:
    value, before, preset = (_value(config, name) for config in (now, run, base))
    high = max(float(depth), 2.0) if name == "rollout_layers" else slider.high
    sentence = KNOBS[name].sentence if name in KNOBS else "weight of this reading in the score"
    if name == "beta":
        sentence = "weight of confidence; grounding has the rest"
    return {
        "key": name,
        "word": slider.word,
        "low": slider.low,
        "high": high,
        "grain": slider.grain,
        "decimals": slider.decimals,
        "value": min(value, high) if name == "rollout_layers" else value,
        "text": fixed(value, slider.decimals),
        "run": before,
        "preset": preset,
        "changed": value != before,
        "sentence": sentence,
        "off": "",
    }


def _off(name: str, *, recorded: bool, has_rows: bool) -> str:
    """Why a knob cannot be turned on this run; empty where it can."""
    if not recorded:
        return "no step is recorded yet"
    if name in KNOBS and KNOBS[name].effect == "rollout" and not has_rows:
        return "not recorded: the attention rows of this run were not kept"
    return ""


def _value(config: DecodeConfig, name: str) -> float:
    if name in KNOBS:
        return float(getattr(config, name))
    return float(shown_knobs(config).get(name, 0.0))


def _choice(name: str, word: str, now: DecodeConfig, run: DecodeConfig) -> dict[str, Any]:
    return {
        "key": name,
        "word": word,
        "value": getattr(now, name),
        "options": list(get_args(KNOB_TYPES[name])),
        "changed": getattr(now, name) != getattr(run, name),
        "sentence": KNOBS[name].sentence,
    }


def _differs(changes: list[str], now: DecodeConfig, run: DecodeConfig) -> str:
    """The knobs that are not the preset's, and those turned since; empty where none are."""
    turned = [name for name in KNOBS if getattr(now, name) != getattr(run, name)]
    parts = [f"differs from the preset: {', '.join(changes)}"] if changes else []
    parts += [f"turned: {', '.join(turned)}"] if turned else []
    return "; ".join(parts).replace("_", " ")


def _unrecorded(trace: Trace | None) -> list[str]:
    """Similarities that some step of the run has no matrix of."""
    steps = () if trace is None else trace.steps
    known = [set(s.selection.similarity) for s in steps if s.selection is not None]
    return [m for m in get_args(SelectionMethod) if known and not all(m in k for k in known)]


def _note(preset: str, changes: list[str], now: DecodeConfig, run: DecodeConfig) -> str:
    turned = sum(getattr(now, name) != getattr(run, name) for name in KNOBS)
    count = turned + len(changes)
    if not count:
        return f"preset {preset}"
    return f"preset {preset}, {count} change{'s' if count > 1 else ''}"

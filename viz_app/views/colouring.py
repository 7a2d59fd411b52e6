"""Ways to colour a step's tokens: what each shows, on which scale, and whether it was measured.

mode       a way of colouring: confidence, grounding, entropy, or the target's difference
apart      draft's log-probability minus the target's, in nats; above 0 the target doubts the token
"""

from collections.abc import Sequence
from typing import Any

from specguard_core.types import Candidate, TokenSignal
from viz_app.sight import Sight
from viz_app.views.numbers import fixed, level, milliseconds, nats, signed, significant
from viz_app.views.scales import bounds_of, entropy_ceiling
from viz_app.views.tokens import token_text

TARGET_SPAN = 3.0
"""Nats of draft-target difference at either end of its ramp."""
SPLIT_LEVELS = 9
"""Colours of the two-sided ramp; the middle one is agreement."""
MOST_LISTED = 3


def token_modes(sight: Sight, token: TokenSignal) -> dict[str, Any]:
    """Per way of colouring, the colour and the number under the chip; None: not measured."""
    low, _ = bounds_of("confidence", sight)
    modes: dict[str, Any] = dict.fromkeys(("confidence", "grounding", "entropy", "target"))
    if token.logprob is not None:
        modes["confidence"] = [level(token.logprob / low), fixed(token.logprob, 2)]
    if token.grounding is not None:
        weak, strong = bounds_of("grounding", sight)
        share = (strong - token.grounding) / (strong - weak) if strong > weak else 0.0
        modes["grounding"] = [level(share), fixed(token.grounding, 2)]
    if token.entropy is not None:
        modes["entropy"] = [level(token.entropy / entropy_ceiling()), fixed(token.entropy, 2)]
    apart = apart_of(token)
    if apart is not None:
        modes["target"] = [split_level(apart), signed(apart, 2)]
    return modes


def apart_of(token: TokenSignal) -> float | None:
    """Nats by which the target thinks less of a token than the draft; None: not measured."""
    if token.target_logprob is None or token.logprob is None:
        return None
    return token.logprob - token.target_logprob


def split_level(apart: float) -> int:
    """The colour of a difference on the two-sided ramp, its middle for none."""
    half = SPLIT_LEVELS // 2
    share = min(max(apart / TARGET_SPAN, -1.0), 1.0)
    return half + round(half * share)


def colour_modes(sight: Sight, candidate: Candidate) -> list[dict[str, Any]]:
    """The ways of colouring; `off` says why one cannot be used, `ask` what measuring it costs."""
    low, _ = bounds_of("confidence", sight)
    weak, strong = bounds_of("grounding", sight)
    tokens = candidate.tokens
    info = sight.trace.draft
    missing = "not recorded" if info is None or info.grounding == "captured" else info.grounding
    return [
        _mode(
            "confidence",
            ["strong", "weak"],
            f"log-probability from 0 to {significant(low)} nat",
            "" if any(t.logprob is not None for t in tokens) else "not measured",
        ),
        _mode(
            "grounding",
            ["strong", "weak"],
            f"share of mass on the context from {fixed(strong)} to {fixed(weak)}",
            "" if any(t.grounding is not None for t in tokens) else f"grounding: {missing}",
        ),
        _mode(
            "entropy",
            ["sure", "unsure"],
            f"from 0 to {significant(entropy_ceiling())} nat",
            "" if any(t.entropy is not None for t in tokens) else "not measured",
        ),
        {
            **_mode(
                "target",
                ["target surer", "target doubts"],
                f"draft minus target, up to {significant(TARGET_SPAN)} nat either way",
                "",
            ),
            "name": "Target \u0394",
            "ask": "" if any(t.target_logprob is not None for t in tokens) else _cost(sight),
        },
    ]


def disagreement(
    sight: Sight, candidate: Candidate, counted: Sequence[int]
) -> dict[str, Any] | None:
    """Where the target's least log-probability lies, and where the two differ most, worst first.

    None where the target's view was not measured. Tokens in no minimum are listed all the same.
    """
    known = [(i, t.target_logprob) for i, t in enumerate(candidate.tokens)]
    measured = [(i, value) for i, value in known if value is not None]
    if not measured:
        return None
    least = min(((value, i) for i, value in measured if i in counted), default=None)
    ranked = sorted(
        ((i, a) for i, t in enumerate(candidate.tokens) if (a := apart_of(t)) is not None),
        key=lambda pair: -abs(pair[1]),
    )
    return {
        "least": None if least is None else _listed(sight, candidate, least[1], nats(least[0])),
        "most": [
            _listed(sight, candidate, i, signed(a, 2))
            for i, a in ranked[:MOST_LISTED]
            if abs(a) >= 0.005
        ],
    }


def _listed(sight: Sight, candidate: Candidate, index: int, value: str) -> dict[str, Any]:
    token = candidate.tokens[index]
    apart = apart_of(token)
    return {
        "token": index,
        "text": token_text(token.token_id, sight.trace.pieces),
        "level": SPLIT_LEVELS // 2 if apart is None else split_level(apart),
        "value": value,
    }


def _mode(key: str, ends: list[str], span: str, off: str) -> dict[str, Any]:
    name = key.capitalize()
    return {"key": key, "name": name, "ends": ends, "range": span, "off": off, "ask": ""}


def _cost(sight: Sight) -> str:
    """What one look of the target takes, judged by the tokens it wrote, each a pass."""
    written = sight.trace.cost.roles.get("target_written")
    known = written is not None and written.tokens > 0 and written.milliseconds > 0
    about = f", about {milliseconds(written.milliseconds / written.tokens)} ms" if known else ""
    return f"not measured: one target pass{about}"

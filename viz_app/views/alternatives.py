"""What else could have been drawn at a token. Pure arithmetic on what the trace recorded.

raw        probability under the raw softmax
sampled    probability in the distribution really drawn from: temperature, then the nucleus;
           "cut" where the nucleus left it out
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from specguard_core.config import DecodeConfig
from specguard_core.types import TokenSignal
from viz_app.views.numbers import significant
from viz_app.views.tokens import token_text


def alternatives_view(
    token: TokenSignal, config: DecodeConfig, pieces: Mapping[int, bytes]
) -> dict[str, Any] | None:
    """Rows by falling probability, the drawn token among them; None where none were recorded.

    A row is [text, id, width of its bar in percent, raw, sampled, whether it was drawn]; `others`
    is [raw, sampled] of all that is not listed. Lists, as a page holds hundreds of them.
    """
    if not token.alternatives:
        return None
    known = {item.token_id: item.logprob for item in token.alternatives}
    if token.logprob is not None:
        known[token.token_id] = token.logprob
    ranked = sorted(known.items(), key=lambda item: (-item[1], item[0]))
    sampled = sampled_probabilities(token, [p for _, p in ranked], config.draft_temperature)
    top = math.exp(ranked[0][1])
    rows = [
        [
            token_text(token_id, pieces),
            token_id,
            round(100 * math.exp(logprob) / top, 1),
            significant(math.exp(logprob)),
            _sampled_text(None if sampled is None else sampled[place]),
            token_id == token.token_id,
        ]
        for place, (token_id, logprob) in enumerate(ranked)
    ]
    rest = max(1 - math.fsum(math.exp(logprob) for _, logprob in ranked), 0.0)
    kept = None if sampled is None else max(1 - math.fsum(sampled), 0.0)
    return {
        "rows": rows,
        "others": [
            significant(rest) if rest >= 1e-6 else "0",
            _sampled_text(None if kept is None else (kept if kept > 1e-3 else 0.0)),
        ],
    }


def sampled_probabilities(
    token: TokenSignal, logprobs: Sequence[float], temperature: float
) -> list[float] | None:
    """Probability of each in the distribution the token was drawn from; None: not measured.

    logprobs are raw, the most likely first. The nucleus is a prefix of that order, so a token is
    in it while the weights up to it do not pass the nucleus's whole weight, which the drawn
    token's own two probabilities give.
    """
    if token.logprob is None or token.sampling_logprob is None:
        return None
    if temperature == 0:
        return [1.0 if place == 0 else 0.0 for place in range(len(logprobs))]
    weights = [math.exp(logprob / temperature) for logprob in logprobs]
    whole = math.exp(token.logprob / temperature - token.sampling_logprob)
    probabilities: list[float] = []
    passed = 0.0
    for weight in weights:
        passed += weight
        inside = passed <= whole * (1 + 1e-4)
        probabilities.append(weight / whole if inside else 0.0)
    return probabilities


def _sampled_text(probability: float | None) -> str:
    if probability is None:
        return "not measured"
    return "cut" if probability == 0 else significant(min(probability, 1.0))

"""The evidence of one step: its tokens, what was measured at each, and where its mass comes from.

column     one token: chip, curves and heatmap share it, so that the eye falls straight down
counted    a token that minima are taken over; the others are drawn hollow
"""

from collections.abc import Sequence
from typing import Any

from specguard_core.config import SignalTokens
from specguard_core.readings import boundary_index, counted_tokens
from specguard_core.types import Candidate
from viz_app.session import MAIN, Look
from viz_app.sight import Sight
from viz_app.views.alternatives import alternatives_view
from viz_app.views.candidates import shown_index, shown_name
from viz_app.views.colouring import colour_modes, disagreement, token_modes
from viz_app.views.context import SHARES, axis_top, context_rows, paint, row_shares
from viz_app.views.curves import curves
from viz_app.views.numbers import fixed, nats
from viz_app.views.tokens import chips, hex_bytes, plain_text, token_text

_WITHOUT: dict[SignalTokens, str] = {
    "all": "",
    "numeric": "no digit in it",
    "equation": "no digit or operator in it",
    "setup": "not the first, and no digit or operator in it",
}


def evidence_view(sight: Sight | None, look: Look, branch: str = MAIN) -> dict[str, Any]:
    """Tokens, curves, context and heatmap of the candidate that is looked at, on a branch."""
    if sight is None:
        return {"empty": "A step\u2019s tokens will stand here, with what was measured at each."}
    candidate = sight.candidate(look.candidate)
    if candidate is None:
        return {"empty": "Nothing is written yet: the target writes this step at its commit."}
    trace = sight.trace
    counted = counted_tokens(candidate, trace.config, trace.pieces)
    rows = context_rows(trace, sight.step_index)
    shares = [row_shares(token, rows) for token in candidate.tokens]
    token, mode = _weakest(sight, candidate, counted)
    taken_over = _taken_over(sight, candidate)
    if taken_over is not None and candidate is sight.written:
        token = taken_over
    most = axis_top(max((value for column in shares if column for value in column), default=0.0))
    return {
        "step": sight.step_index + 1,
        "candidate": shown_index(sight, look),
        "edit": _edit(sight, candidate, branch),
        "name": shown_name(sight, look),
        "chips": chips(candidate.token_ids, trace.pieces),
        "counts": _counts(sight, candidate, counted),
        "taken_over": taken_over,
        "tokens": [
            _token(sight, candidate, index, counted, shares[index])
            for index in range(len(candidate.tokens))
        ],
        "selected": token,
        "mode": mode,
        "modes": colour_modes(sight, candidate),
        "disagreement": disagreement(sight, candidate, counted),
        "curves": curves(sight, candidate, counted),
        "rows": rows,
        "shares": [
            None if column is None else [round(SHARES * value) for value in column]
            for column in shares
        ],
        "most": most,
        "paint": paint(candidate),
    }


def _taken_over(sight: Sight, candidate: Candidate) -> int | None:
    """The token at which the target took over, of the refused step and of the one it wrote."""
    outcome = sight.outcome
    if outcome is None or not outcome.n_kept:
        return None
    concerned = candidate is sight.written or candidate is sight.candidate(None)
    return outcome.n_kept if concerned else None


def _edit(sight: Sight, candidate: Candidate, branch: str) -> dict[str, str] | None:
    """The text to begin an edit with; None where a step cannot be edited yet."""
    if sight.phase not in ("verify", "commit") or sight.trace.chain is not None:
        return None
    return {"text": plain_text(candidate, sight.trace.pieces), "branch": branch}


def _token(
    sight: Sight,
    candidate: Candidate,
    index: int,
    counted: Sequence[int],
    shares: Sequence[float] | None,
) -> dict[str, Any]:
    token = candidate.tokens[index]
    pieces = sight.trace.pieces
    grounding = token.grounding
    target = token.target_logprob
    return {
        "id": token.token_id,
        "text": token_text(token.token_id, pieces),
        "bytes": hex_bytes(token.token_id, pieces),
        "boundary": index == boundary_index(candidate),
        "counted": index in counted,
        "left_out": _left_out(sight, candidate, index, counted),
        "modes": token_modes(sight, token),
        "logprob": "not measured" if token.logprob is None else f"{nats(token.logprob)} nat",
        "target": "" if target is None else f"{nats(target)} nat",
        "entropy": "not measured" if token.entropy is None else nats(token.entropy),
        "alternatives": alternatives_view(token, sight.trace.config, pieces),
        "grounding": None if grounding is None else fixed(grounding),
        "own": None if grounding is None else fixed(1 - grounding),
        "template": None if not shares else fixed(shares[0]),
    }


def _left_out(sight: Sight, candidate: Candidate, index: int, counted: Sequence[int]) -> str:
    """Why a token is in no minimum; empty where it is in them."""
    if index in counted:
        return ""
    ends = index == boundary_index(candidate) and not sight.trace.config.include_boundary_token
    why = "it ends the step" if ends else _WITHOUT[sight.trace.config.signal_tokens]
    return f"in no minimum: {why}"


def _counts(sight: Sight, candidate: Candidate, counted: Sequence[int]) -> dict[str, str]:
    """How many tokens minima are taken over, in few words and in all."""
    total, rule = len(candidate.tokens), sight.trace.config.signal_tokens
    text = f"{len(counted)} of {total} count"
    if len(counted) == total:
        return {"text": text, "title": "Minima are taken over all tokens."}
    if rule == "all" or all(i in counted for i in range(total - 1)):
        title = "Minima are taken over all tokens but the one that ends the step."
        return {"text": text, "title": title}
    kept = {"numeric": "tokens with a digit", "equation": "tokens with a digit or an operator"}
    which = kept.get(rule, "the first token and those with a digit or an operator")
    return {"text": text, "title": f"Minima are taken over {which}; the others are hollow."}


def _weakest(sight: Sight, candidate: Candidate, counted: Sequence[int]) -> tuple[int, str]:
    """The token to open at, and how to colour tokens: what the verdict's weakest reading says.

    Without a verdict, the least likely token and confidence.
    """
    judged = sight.candidate(None) is candidate
    verdict = sight.verdict if judged else None
    decided = [
        (reading.normalised, order, int(reading.weakest_token), name)
        for order, (name, reading) in enumerate(() if verdict is None else verdict.readings.items())
        if reading.weakest_token is not None and reading.weight > 0
    ]
    if decided:
        _, _, token, name = min(decided)
        return token, "grounding" if name == "grounding" else "confidence"
    values = [(candidate.tokens[i].logprob, i) for i in counted]
    measured = [(value, i) for value, i in values if value is not None]
    return min(measured)[1] if measured else counted[0], "confidence"

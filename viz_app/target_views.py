"""What the target makes of a recorded step, on demand. Pure; calls no model.

A run is what happened: looking at it later with the target must not change it. So the answer stands
beside the traces, named by the step it is about, and is laid over a sight of that step; the ledger
of the run stays as it was, and what the looks themselves cost is told apart.
"""

from collections.abc import Mapping
from dataclasses import replace

from specguard_core.errors import UsageError
from specguard_core.evidence import context_before, evidence_key
from specguard_core.lm import ReadRequest, StepReading
from specguard_core.sessions import TargetView
from specguard_core.types import Candidate
from viz_app.session import Look, Session
from viz_app.sight import Sight, sight


def read_request(session: Session, look: Look) -> ReadRequest:
    """What the target has to read to give its view of the step that is looked at.

    Raises:
        UsageError: nothing is written there.
    """
    seen = sight(session, look)
    candidate = None if seen is None else seen.candidate(look.candidate)
    if seen is None or candidate is None:
        raise UsageError("expected a step with some text to show the target, got none: step first")
    context = context_before(seen.trace, seen.step_index)
    return ReadRequest(context, candidate.token_ids, n_capture_layers=0)


def with_view(session: Session, request: ReadRequest, reading: StepReading) -> Session:
    """The session with what the target made of a step."""
    key = evidence_key(request.prefix, request.token_ids)
    logprobs = tuple(min(float(value), 0.0) for value in reading.logprobs)
    others = (view for view in session.target_views if view.key != key)
    view = TargetView(key, logprobs, reading.milliseconds)
    return replace(session, target_views=(*others, view), notice=None)


def seen_by_target(session: Session, seen: Sight | None) -> Sight | None:
    """The sight with the target's log-probabilities where it was asked and the run has none."""
    if seen is None or not session.target_views:
        return seen
    views = {view.key: view for view in session.target_views}
    context = context_before(seen.trace, seen.step_index)
    return replace(
        seen,
        candidates=tuple(_laid_over(candidate, context, views) for candidate in seen.candidates),
        written=None if seen.written is None else _laid_over(seen.written, context, views),
    )


def _laid_over(
    candidate: Candidate, context: tuple[int, ...], views: Mapping[str, TargetView]
) -> Candidate:
    view = views.get(evidence_key(context, candidate.token_ids))
    if view is None or len(view.logprobs) != len(candidate.tokens):
        return candidate
    tokens = tuple(
        token if token.target_logprob is not None else replace(token, target_logprob=logprob)
        for token, logprob in zip(candidate.tokens, view.logprobs, strict=True)
    )
    return replace(candidate, tokens=tokens)

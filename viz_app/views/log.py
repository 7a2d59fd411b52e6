"""Each transition of a run in one sentence."""

from typing import Any, assert_never

from specguard_core.decoder.states import (
    AwaitingBlock,
    AwaitingChains,
    AwaitingCommit,
    AwaitingDraft,
    AwaitingSelection,
    AwaitingVerdict,
    Finished,
    State,
)
from specguard_core.text import join_pieces
from specguard_core.types import Trace
from viz_app.session import Look, Session, place
from viz_app.views.blocks import block_note
from viz_app.views.candidates import cluster_letter
from viz_app.views.numbers import fixed
from viz_app.views.tokens import NEWLINE, step_text
from viz_app.views.top import FINISH_WORDS

_MOST_TEXT = 120


def log_view(session: Session, look: Look) -> dict[str, Any]:
    """Each transition in a sentence; the one that is looked at is marked."""
    rows = []
    for number, state in enumerate(session.history[1:], start=1):
        index, phase = session.pace.stop_at(number)
        rows.append({"number": number, "step": index + 1, "phase": phase, "text": _told(state)})
    return {"rows": rows, "at": place(session, look), "unit": session.pace.unit}


def _told(state: State) -> str:
    match state:
        case AwaitingSelection(candidates=candidates):
            draws = sum(len(candidate.draws) for candidate in candidates)
            if not candidates:
                return "no draft is asked"
            return f"{draws} draws, {len(candidates)} distinct"
        case AwaitingVerdict(selection=selection):
            if selection is None:
                return "nothing to select"
            count = len(set(selection.clusters))
            letter = cluster_letter(selection.clusters[selection.chosen])
            return f"{count} cluster{'s' if count > 1 else ''}, one of {letter} chosen"
        case AwaitingCommit(verdict=verdict, plan=plan):
            force = ", forced" if plan.forced else ""
            if verdict is None:
                return f"no check, {plan.source} writes{force}"
            word = "accepted" if verdict.accepted else "refused"
            return f"{word}, {fixed(verdict.score)} of {fixed(verdict.threshold, 2)}{force}"
        case AwaitingChains(chains=chains):
            done = sum(isinstance(chain, Finished) for chain in chains)
            return f"{len(chains) - done} chains go on, {done} at their end"
        case AwaitingDraft(trace=trace) | AwaitingBlock(trace=trace):
            return _written(trace)
        case Finished(trace=trace):
            end = "" if trace.finish is None else f"  ({FINISH_WORDS[trace.finish.reason]})"
            return _written(trace) + end
        case _:
            assert_never(state)


def _written(trace: Trace) -> str:
    """What the last unit of a trace put down."""
    if trace.vote is not None:
        first = trace.vote.ballots[0]
        answer = "no answer" if first.answer is None else first.answer
        return f"{len(first.chains)} of {len(trace.chains)} chains say {answer}"
    if trace.blocks:
        block = trace.blocks[-1]
        text = join_pieces(block.token_ids, trace.pieces).replace("\n", NEWLINE)
        return f"{block_note(block)}: {text[:_MOST_TEXT]}"
    if not trace.steps:
        return "begun"
    step = trace.steps[-1]
    return f"{step.outcome.source} kept: {step_text(step.output, trace.pieces, _MOST_TEXT)}"

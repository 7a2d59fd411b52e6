"""What programs may ask of the page: three endpoints that keep nothing between calls.

Knows no gradio. Only `run_trace` calls models, and waits for its turn like any visitor.
"""

from dataclasses import replace
from typing import Any

from specguard_core import trace_io
from specguard_core.commands.briefs import regate_brief, trace_brief
from specguard_core.decoder.states import Finished, State
from specguard_core.decoder.step import start
from specguard_core.errors import TraceFileError, UsageError
from specguard_core.presets import changed
from specguard_core.presets import preset as named
from specguard_core.regate import regate as judge
from specguard_core.sessions import Session as SavedSession
from specguard_core.types import Trace
from viz_app.limits import Limits
from viz_app.phases import Advance
from viz_app.session import Look, Session, lane, opened
from viz_app.sight import sight
from viz_app.turns import Turns
from viz_app.views.timeline import outcome_word
from viz_app.views.tokens import step_text
from viz_app.views.why import why_view
from viz_app.work import Pair

WAIT_SECONDS = 0.5


class Endpoints:
    """The endpoints of one page. Their docstrings are what its clients are told."""

    def __init__(self, pair: Pair, turns: Turns, limits: Limits) -> None:
        self._pair = pair
        self._turns = turns
        self._limits = limits

    def run_trace(
        self,
        problem: str,
        preset: str = "cpu",
        settings: list[str] | None = None,
        seed: int = 0,
        gold: str = "",
    ) -> dict[str, Any]:
        """Decode a word problem step by step with the draft and target models of this server.

        Args:
            problem: the question, at most 20,000 characters
            preset: paper, cpu or best
            settings: knobs as texts "name=value", for instance "threshold=0.8"
            seed: of the whole run, from 0
            gold: the right answer where it is known

        Returns:
            summary: steps, verdicts, answer, tokens and seconds; trace: for the other endpoints
        """
        config = changed(replace(named(preset), seed=seed), _texts(settings or []))
        config = self._limits.bounded(config)
        self._limits.check(config)
        with self._turns.turn() as turn:
            while not turn.wait(WAIT_SECONDS):
                pass
            loaded = self._pair.get()
            state: State = start(
                problem, loaded.models, config, gold=gold or None, calibration=loaded.calibration
            )
            while not isinstance(state, Finished):
                state, _ = self._pair.run(Advance(state))
        return {"summary": trace_brief(state.trace), "trace": trace_io.to_json(state.trace)}

    def regate(self, trace: dict[str, Any], settings: list[str]) -> dict[str, Any]:
        """Judge a recorded trace again under other knobs; no model is called.

        Args:
            trace: the JSON of a trace or session file, as run_trace returns it
            settings: knobs as texts "name=value", for instance "threshold=0.8"

        Returns:
            flips: indices, from 0, of steps that would have gone another way; verdicts: one a step
        """
        recorded = trace_of(trace)
        return regate_brief(judge(recorded, changed(recorded.config, _texts(settings))))

    def explain_step(self, trace: dict[str, Any], step: int) -> dict[str, Any]:
        """Say why a step of a recorded trace was kept or refused, with the sum behind it.

        Args:
            trace: the JSON of a trace or session file, as run_trace returns it
            step: number of the step, from 1

        Returns:
            explanation, readings, score and threshold, the tokens that decided, and what would flip
        """
        return explained(trace_of(trace), step)


def explained(trace: Trace, step: int) -> dict[str, Any]:
    """A step's verdict in words and numbers; `step` counts from 1.

    Raises:
        UsageError: no such step.
    """
    n_steps = len(trace.steps)
    if type(step) is not int or not 1 <= step <= n_steps:
        raise UsageError(f"expected a step from 1 to {n_steps}, got {step!r}: choose one")
    session = opened(Session(), trace)
    look = Look(session.pace.cursor_at(step - 1))
    seen = sight(lane(session, look), look)
    if seen is None:
        raise UsageError("expected one run of steps, got several: send the trace of one")
    view = why_view(seen, look)
    said = {
        "step": step,
        "outcome": outcome_word(seen)[1],
        "text": step_text(trace.steps[step - 1].output, trace.pieces),
    }
    if "empty" in view:
        return said | {"explanation": view["empty"]}
    return said | {
        "explanation": f"{view['word']}: {' '.join(view['sentence'])}",
        "readings": [
            {name: row[name] for name in ("name", "raw", "unit", "normalised", "weight", "part")}
            for row in view["readings"]
        ],
        "score": view["score"],
        "threshold": view["threshold"],
        "decided_by": [f"{item['text']} ({item['label']})" for item in view["decided"]],
        "would_flip": [f"{line['text']} {line['value']}" for line in view["flips"] if line["does"]],
        "assertion": view["assertion"]["full"],
    }


def trace_of(data: Any) -> Trace:
    """The trace in the JSON of a trace or session file; of a session, its current branch.

    Raises:
        TraceFileError: it is neither.
    """
    found = trace_io.from_json(data)
    if isinstance(found, SavedSession):
        return next(b.trace for b in found.branches if b.name == found.current)
    if not isinstance(found, Trace):
        raise TraceFileError("expected a trace or a session, got a calibration: send another")
    return found


def _texts(settings: Any) -> list[str]:
    if not isinstance(settings, list) or not all(isinstance(item, str) for item in settings):
        raise UsageError("expected settings as a list of texts 'name=value', got something else")
    return settings

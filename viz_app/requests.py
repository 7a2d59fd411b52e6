"""What a click or a key asks for, as a pure change of session or look. Knows no gradio.

look       where a person looks: never changes what happened
setup      a new problem, other settings, another branch, a file
departure  going another way from a recorded step, before the models go on
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from specguard_core.errors import ConfigError, UsageError
from specguard_core.presets import preset
from viz_app.branches import chosen, dropped, forced, redrawn, rerun, switched
from viz_app.breakpoints import MOST_BREAKPOINTS, checked
from viz_app.driving import Move
from viz_app.files import from_file
from viz_app.session import (
    Look,
    Problem,
    Session,
    asked,
    configured,
    cursor_at,
    moved,
    place,
    step_back,
    step_on,
    stop_at,
)
from viz_app.whatif import turned

Data = Mapping[str, Any]


def looked(session: Session, look: Look, data: Data) -> Look:
    """Where a person looks after a click or a key; anything else leaves the look as it is."""
    cursor = place(session, look)
    move = data.get("move")
    if move == "first":
        return moved(session, look, 0)
    if move == "back":
        return moved(session, look, step_back(cursor))
    if move == "back phase":
        return moved(session, look, cursor - 1)
    if move == "step":
        return moved(session, look, step_on(cursor))
    if move == "phase":
        return moved(session, look, cursor + 1)
    if move == "run":
        return replace(look, cursor=None, candidate=None)
    if isinstance(data.get("cursor"), int):
        return moved(session, look, data["cursor"])
    if isinstance(data.get("step"), int):
        return moved(session, look, cursor_at(data["step"]))
    if isinstance(data.get("compare"), str):
        return replace(look, compared=data["compare"])
    if "knob" in data or data.get("knobs") == "run":
        return turned_look(session, look, data)
    if isinstance(data.get("candidate"), int):
        return replace(look, candidate=data["candidate"])
    return look


def turned_look(session: Session, look: Look, data: Data) -> Look:
    """The look with a knob turned, or with all of them as they were in the run."""
    trace = session.trace
    if trace is None or data.get("knobs") == "run":
        return replace(look, knobs=None)
    now = trace.config if look.knobs is None else look.knobs
    config = turned(now, str(data["knob"]), data.get("value"))
    return replace(look, knobs=None if config == trace.config else config)


def set_up(session: Session, data: Data, examples: Sequence[Problem]) -> Session:
    """The session after a change of its problem or settings.

    Raises:
        UsageError: an unknown preset or branch, a value out of range, a broken file.
    """
    if isinstance(data.get("file"), str):
        return from_file(data["file"])
    if isinstance(data.get("breakpoint"), str):
        return _with_breakpoint(session, data)
    if isinstance(data.get("unbreak"), int):
        kept = [p for i, p in enumerate(session.breakpoints) if i != data["unbreak"]]
        return replace(session, breakpoints=tuple(kept))
    if isinstance(data.get("branch"), str):
        return switched(session, data["branch"])
    if isinstance(data.get("drop"), str):
        return dropped(session, data["drop"])
    if "example" in data:
        chosen = next((p for p in examples if p.problem_id == data["example"]), None)
        return session if chosen is None else asked(session, chosen)
    if isinstance(data.get("question"), str):
        question = data["question"]
        known = next((p for p in examples if p.question == question.strip()), None)
        return asked(session, known or Problem(question))
    if isinstance(data.get("preset"), str):
        return configured(session, replace(preset(data["preset"]), seed=session.config.seed))
    if isinstance(data.get("knob"), str):
        return configured(session, turned(session.config, data["knob"], data.get("value")))
    if "seed" in data:
        if not isinstance(data["seed"], int):
            raise ConfigError(f"expected a whole number as seed, got {data['seed']!r}: correct it")
        return configured(session, replace(session.config, seed=data["seed"]))
    return asked(session, session.problem)


def _with_breakpoint(session: Session, data: Data) -> Session:
    """The session with a breakpoint set; the same one twice is taken away again."""
    point = checked(data["breakpoint"], data.get("value"))
    if point in session.breakpoints:
        kept = tuple(other for other in session.breakpoints if other != point)
        return replace(session, breakpoints=kept)
    if len(session.breakpoints) >= MOST_BREAKPOINTS:
        raise UsageError(f"expected at most {MOST_BREAKPOINTS} breakpoints: delete one first")
    return replace(session, breakpoints=(*session.breakpoints, point))


def departed(session: Session, look: Look, data: Data) -> tuple[Session, Move]:
    """The session to go on from, and how far: a plain move, or a branch that the models carry on.

    Raises:
        UsageError: no such move, or nothing there to depart from.
    """
    move = data.get("move")
    if move in ("step", "phase", "run"):
        return session, move
    step_index = _step_index(session, look, data)
    if move == "redraw":
        return redrawn(session, step_index), "step"
    if move in ("accept", "fall back"):
        return forced(session, step_index, move), "step"
    if move == "choose" and isinstance(data.get("candidate"), int):
        return chosen(session, step_index, data["candidate"]), "step"
    if move == "rerun" and look.knobs is not None:
        return rerun(session, step_index, look.knobs), "run"
    raise UsageError(f"expected a way to go on, got {move!r}: press Step or Run")


def _step_index(session: Session, look: Look, data: Data) -> int:
    if isinstance(data.get("step"), int):
        return int(data["step"])
    cursor = place(session, look)
    return stop_at(cursor)[0] if cursor else 0

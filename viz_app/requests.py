"""What a click or a key asks for, as a pure change of session or look. Knows no gradio.

look       where a person looks: never changes what happened
setup      a new problem, other settings, another branch, a file
departure  going another way from a recorded step, before the models go on
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from specguard_core.config import DecodeConfig
from specguard_core.errors import ConfigError, UsageError
from specguard_core.presets import PresetName, preset
from specguard_core.types import Trace
from viz_app.beside import joined, run_beside
from viz_app.branches import chosen, dropped, forced, redrawn, renamed, rerun, switched
from viz_app.breakpoints import MOST_BREAKPOINTS, checked
from viz_app.calibrating import calibrate_move
from viz_app.driving import AskTarget, Edit, Move, RunTo
from viz_app.files import from_file
from viz_app.notes import noted
from viz_app.session import (
    Look,
    Problem,
    Session,
    asked,
    configured,
    moved,
    place,
)
from viz_app.views.raw import toggled
from viz_app.whatif import turned

Data = Mapping[str, Any]
MOST_BESIDE = 100
"""Runs from files that are kept beside a session's own; the oldest go first."""


def looked(session: Session, look: Look, data: Data) -> Look:
    """Where a person looks after a click or a key; anything else leaves the look as it is."""
    cursor = place(session, look)
    move = data.get("move")
    if move == "first":
        return moved(session, look, 0)
    if move == "back":
        return moved(session, look, session.pace.back(cursor))
    if move == "back phase":
        return moved(session, look, cursor - 1)
    if move == "step":
        return moved(session, look, session.pace.on(cursor))
    if move == "phase":
        return moved(session, look, cursor + 1)
    if move in ("run", "end"):
        return replace(look, cursor=None, candidate=None)
    if isinstance(data.get("cursor"), int):
        return moved(session, look, data["cursor"])
    if isinstance(data.get("step"), int):
        return moved(session, look, session.pace.cursor_at(data["step"]))
    if isinstance(data.get("chain"), int):
        return replace(look, chain=data["chain"], candidate=None)
    if (here := _in_place(look, data)) is not None:
        return here
    if "knob" in data or data.get("knobs") == "run":
        return turned_look(session, look, data)
    return look


def _in_place(look: Look, data: Data) -> Look | None:
    """The look after a click that leaves the step and the knobs; None where it was another one."""
    if isinstance(data.get("candidate"), int):
        return replace(look, candidate=data["candidate"])
    if isinstance(data.get("compare"), str):
        return replace(look, compared=data["compare"])
    if isinstance(data.get("tab"), str):
        return replace(look, tab=data["tab"])
    if isinstance(data.get("raw"), str):
        return replace(look, opened=toggled(look.opened, data["raw"]))
    return None


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
        return replace(from_file(data["file"]), pair=session.pair)
    if (kept := _kept(session, data)) is not None:
        return kept
    if "example" in data:
        chosen = next((p for p in examples if p.problem_id == data["example"]), None)
        return session if chosen is None else asked(session, chosen)
    if isinstance(data.get("question"), str):
        question = data["question"]
        known = next((p for p in examples if p.question == question.strip()), None)
        return asked(session, known or Problem(question))
    if isinstance(data.get("preset"), str):
        return configured(session, with_preset(session.config, preset(data["preset"])))
    if isinstance(data.get("strategy"), str):
        wanted = {k: data[k] for k in ("strategy", "grade_method") if k in data}
        return configured(session, replace(session.config, **wanted))
    if isinstance(data.get("knob"), str):
        return configured(session, turned(session.config, data["knob"], data.get("value")))
    if "seed" in data:
        if not isinstance(data["seed"], int):
            raise ConfigError(f"expected a whole number as seed, got {data['seed']!r}: correct it")
        return configured(session, replace(session.config, seed=data["seed"]))
    if data.get("reset"):
        return asked(session, session.problem)
    names = ", ".join(map(str, data))
    raise UsageError(f"expected a setting of the page, got {names!r}: reload it")


def with_preset(now: DecodeConfig, wanted: DecodeConfig) -> DecodeConfig:
    """A preset is about numbers: the strategy, its way of grading and the seed stay."""
    return replace(wanted, strategy=now.strategy, grade_method=now.grade_method, seed=now.seed)


def refitted(config: DecodeConfig, before: PresetName, after: PresetName) -> DecodeConfig:
    """The config for other models: where it is the preset of those before, that of these."""
    return (
        with_preset(config, preset(after))
        if with_preset(config, preset(before)) == config
        else config
    )


def _kept(session: Session, data: Data) -> Session | None:
    """The session after a change that leaves its runs as they are; None where it is another."""
    if isinstance(data.get("breakpoint"), str):
        return _with_breakpoint(session, data)
    if isinstance(data.get("unbreak"), int):
        kept = [p for i, p in enumerate(session.breakpoints) if i != data["unbreak"]]
        return replace(session, breakpoints=tuple(kept))
    if isinstance(data.get("arm"), int):
        points = tuple(
            replace(p, enabled=not p.enabled) if i == data["arm"] else p
            for i, p in enumerate(session.breakpoints)
        )
        return replace(session, breakpoints=points)
    if isinstance(data.get("note"), str) and isinstance(data.get("step"), int):
        return noted(session, data["step"], data["note"])
    if isinstance(data.get("rename"), str):
        return renamed(session, data["rename"], str(data.get("to", "")))
    if "beside" in data:
        return replace(session, beside=_beside(session, data["beside"]))
    if isinstance(data.get("join"), str):
        return joined(session, from_file(data["join"]))
    if isinstance(data.get("branch"), str):
        return switched(session, data["branch"])
    if isinstance(data.get("drop"), str):
        return dropped(session, data["drop"])
    return None


def _beside(session: Session, texts: Any) -> tuple[Trace, ...]:
    """The runs beside those of the session, with the ones in some files added; None: none."""
    if not isinstance(texts, list):
        return ()
    found = [
        line.history[-1].trace
        for text in texts[:MOST_BESIDE]
        if isinstance(text, str)
        for line in from_file(text).lines
    ]
    return (*session.beside, *found)[-MOST_BESIDE:]


def _with_breakpoint(session: Session, data: Data) -> Session:
    """The session with a breakpoint set; the same one twice is taken away again."""
    point = checked(data["breakpoint"], data.get("value"))
    kept = tuple(
        other
        for other in session.breakpoints
        if (other.kind, other.value) != (point.kind, point.value)
    )
    if len(kept) < len(session.breakpoints):
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
    if move == "end":
        return session, RunTo(None)
    if move == "beside":
        return session, run_beside(session, data.get("sides"))
    if move == "calibrate":
        return session, calibrate_move(data.get("problems"))
    step_index = _step_index(session, look, data)
    if move == "run to":
        return session, _run_to(session, step_index)
    if move == "target view":
        there = _there(session, look, step_index)
        candidate = data.get("candidate")
        return session, AskTarget(
            replace(there, candidate=candidate) if isinstance(candidate, int) else there
        )
    if move == "edit":
        return session, Edit(step_index, str(data.get("text", "")))
    if move == "redraw":
        return redrawn(session, step_index), "step"
    if move in ("accept", "fall back"):
        return forced(session, step_index, move), "step"
    if move == "choose" and isinstance(data.get("candidate"), int):
        return chosen(session, step_index, data["candidate"]), "step"
    if move == "rerun" and (look.knobs is not None or session.calibration is not None):
        return rerun(session, step_index, look.knobs or session.run_config), "run"
    raise UsageError(f"expected a way to go on, got {move!r}: press Step or Run")


def _run_to(session: Session, step_index: int) -> RunTo:
    n_units = max(len(session.history) - 1, 0) // session.pace.n
    if step_index < n_units:
        raise UsageError(
            f"expected a step that is still to come, {n_units + 1} or a later one, got "
            f"{step_index + 1}: choose one"
        )
    return RunTo(step_index + 1)


def _there(session: Session, look: Look, step_index: int) -> Look:
    """The look, moved to a step where it is at another one."""
    cursor = place(session, look)
    if cursor and session.pace.stop_at(cursor)[0] == step_index:
        return look
    return moved(session, look, session.pace.cursor_at(step_index))


def _step_index(session: Session, look: Look, data: Data) -> int:
    if isinstance(data.get("step"), int):
        return int(data["step"])
    cursor = place(session, look)
    return session.pace.stop_at(cursor)[0] if cursor else 0

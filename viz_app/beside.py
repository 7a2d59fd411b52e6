"""Two runs of one problem beside each other: made by the models, or taken from a file. Pure.

side       one of two runs laid beside each other: A on the left, B on the right
joined     a session with the runs of another one as further branches
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from specguard_core.config import DecodeConfig
from specguard_core.decoder.states import State
from specguard_core.errors import UsageError
from specguard_core.presets import preset
from viz_app.session import Line, Session


@dataclass(frozen=True, slots=True)
class RunBeside:
    """Runs from the start of the problem, one after the other, each a branch of its own.

    sides   the branches to lay beside each other, A first
    runs    those of them that are still to be made, by name
    """

    sides: tuple[str, str]
    runs: tuple[tuple[str, DecodeConfig], ...]

    def bounded(self, bound: Callable[[DecodeConfig], DecodeConfig]) -> "RunBeside":
        """The same runs, each of them no longer than the page allows."""
        return replace(self, runs=tuple((name, bound(config)) for name, config in self.runs))


def run_beside(session: Session, sides: Any) -> RunBeside:
    """What to run for two sides, each `{"branch": name}` or `{"strategy": name, ...}`.

    Raises:
        UsageError: a side that names neither; the same branch twice.
    """
    if not isinstance(sides, list) or len(sides) != 2:
        raise UsageError("expected two runs to compare, A and B: choose them")
    names: list[str] = []
    runs: list[tuple[str, DecodeConfig]] = []
    taken = {line.name for line in session.lines}
    for side in sides:
        if isinstance(side, Mapping) and side.get("branch") in taken:
            names.append(str(side["branch"]))
            continue
        if not isinstance(side, Mapping) or not isinstance(side.get("strategy"), str):
            raise UsageError("expected a branch or a strategy on either side, got none: choose one")
        config = _config(session.config, side)
        name = _unique(_called(side), taken | set(names))
        names.append(name)
        runs.append((name, config))
    if names[0] == names[1]:
        raise UsageError(
            "expected two different runs to compare, got the same twice: choose another"
        )
    return RunBeside((names[0], names[1]), tuple(runs))


def begun(session: Session, name: str, state: State) -> Session:
    """The session on a new branch that begins with the problem, as the first one did."""
    parent = session.lines[0].name if session.lines else None
    reason = f"{state.trace.config.strategy} from the start, to compare"
    line = Line(name, (state,), parent, None if parent is None else 0, reason)
    return replace(session, lines=(*session.lines, line), current=name, notice=None, pause="")


def joined(session: Session, other: Session) -> Session:
    """The session with another one's runs as further branches; on its own where it has none.

    Raises:
        UsageError: they are of another problem.
    """
    if not session.lines:
        return other
    if other.problem.question != session.problem.question:
        raise UsageError(
            "expected a run of the problem on the page, got one of another problem: load it by "
            "itself, or ask its problem first"
        )
    taken = {line.name for line in session.lines}
    names: dict[str, str] = {}
    for line in other.lines:
        names[line.name] = _unique(line.name, taken | set(names.values()))
    root = session.lines[0].name
    lines = tuple(
        replace(
            line,
            name=names[line.name],
            parent=root if line.parent is None else names[line.parent],
            forked_at=0 if line.parent is None else line.forked_at,
            reason=line.reason or "from a file",
        )
        for line in other.lines
    )
    return replace(session, lines=(*session.lines, *lines), notice=None)


def _config(now: DecodeConfig, side: Mapping[str, Any]) -> DecodeConfig:
    base = preset(side["preset"]) if isinstance(side.get("preset"), str) else now
    wanted = {name: side[name] for name in ("strategy", "grade_method") if name in side}
    return replace(base, seed=now.seed, **wanted)


def _called(side: Mapping[str, Any]) -> str:
    kind = f" {side['preset']}" if isinstance(side.get("preset"), str) else ""
    return f"{side['strategy']}{kind}"


def _unique(name: str, taken: set[str]) -> str:
    names = (name, *(f"{name} ({count})" for count in range(2, 10_000)))
    return next(one for one in names if one not in taken)

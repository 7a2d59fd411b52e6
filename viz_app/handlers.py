"""What an event of the page does. The only place where requests, sessions and models meet.

line       the Session value of one browser tab; look: where its person looks. Both are replaced,
           never changed; a run writes the line, clicks write the look, so neither overtakes the
           other
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from specguard_core import bundled
from specguard_core.errors import SpecGuardError, UsageError
from specguard_core.evidence import Evidence
from specguard_core.files import read_bounded
from specguard_core.presets import preset
from specguard_core.trace_io import evidence_path, load_evidence
from viz_app.answers import is_right
from viz_app.api import Endpoints
from viz_app.beside import RunBeside
from viz_app.calibrating import Calibrate
from viz_app.driving import AskTarget, Edit, drive
from viz_app.exports import exported
from viz_app.files import packed, to_file, unpacked, unpacked_rows
from viz_app.gold import NO_GOLD, gold_steps
from viz_app.limits import Limits
from viz_app.links import LASTS, Links
from viz_app.page import PANELS, Panel, draw, to_json, touched
from viz_app.report import report
from viz_app.requests import departed, looked, set_up
from viz_app.session import Look, Problem, Session, elsewhere
from viz_app.theme import report_assets
from viz_app.turns import Turns
from viz_app.views.strategies import abilities_view
from viz_app.views.top import Desk, top_view
from viz_app.work import Pair, Room, Rooms

RESTORED = "The server had ended this run; the tab's own copy stands here again: go on from it."


class Handlers:
    """The handlers of one page; all sessions share the pair and the queue."""

    def __init__(
        self,
        pair: Pair,
        examples: Sequence[Problem],
        seed: int,
        example: Path | None,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        self._pair = pair
        self._examples = tuple(examples)
        self._seed = seed
        self._example = example
        self._limits = limits
        self._rooms = Rooms(clock, limits.idle_seconds)
        self._links = Links(clock)
        self._turns = Turns(limits.waiting)

    def first(self) -> Session:
        """What a new visitor finds: the first example, not begun."""
        problem = self._examples[0] if self._examples else Problem()
        return Session(problem, replace(preset("cpu"), seed=self._seed))

    def views(
        self,
        session: Session,
        look: Look,
        progress: str | None = None,
        room: Room | None = None,
        panels: Collection[Panel] = PANELS,
    ) -> dict[Panel, str]:
        """The JSON of every panel, or of some."""
        evidence = None if room is None else room.evidence
        desk = self._desk(progress)
        gold = gold_steps(bundled.PROBLEMS) if look.tab == "thresholds" else NO_GOLD
        right = is_right(session.trace)
        return draw(session, look, desk, self._examples, right, evidence, panels, gold)

    def drive(
        self, line: Session, look: Look, event: gr.EventData, request: gr.Request
    ) -> Iterator[list[Any]]:
        """Go on, on a branch of its own where the way is another one, drawing as models work."""
        room = self._room(request)
        if room.busy:
            yield [gr.skip()] * (2 + len(PANELS))
            return
        if is_lost(line, _data(event)):
            yield [line, gr.skip(), *_all(self._lost(line))]
            return
        try:
            session, move = departed(line, look, _data(event))
            session = self._admitted(session)
            if isinstance(move, RunBeside):
                move = move.bounded(self._limits.bounded)
        except UsageError as error:
            failed = replace(line, notice=self._limits.told(error))
            yield [failed, gr.skip(), *_all(self.views(failed, look, room=room))]
            return
        knobs = None if session.trace is None or session is not line else look.knobs
        stays = isinstance(move, AskTarget | Edit | Calibrate)
        begun = look if stays else elsewhere(look, knobs)
        if isinstance(move, RunBeside):
            begun = replace(elsewhere(look), compared=move.sides[0])
        tell = self._limits.told
        for frame in drive(session, move, self._pair, room, begun, self._turns, tell):
            follows = begun if room.job is None else room.job.look
            if frame.grown:
                views = self.views(frame.session, follows, frame.progress, room)
                yield [frame.session, follows, *_all(views)]
            else:
                top = to_json(top_view(frame.session, follows, self._desk(frame.progress)))
                yield [frame.session, gr.skip(), *_all({"top": top})]

    def look(
        self, line: Session, look: Look, event: gr.EventData, request: gr.Request
    ) -> list[Any]:
        """Look elsewhere: never calls a model."""
        if is_lost(line, _data(event)):
            return [gr.skip(), *_all(self._lost(line))]
        try:
            after = looked(line, look, _data(event))
        except UsageError as error:
            after = look
            line = replace(line, notice=self._limits.told(error))
        room = self._room(request)
        job = room.job if room.busy else None
        if job is not None:
            job.look = after
        progress = None if job is None else "running"
        views = self.views(line, after, progress, room, touched(look, after))
        if job is not None:
            views.pop("top", None)
        return [after, *_all(views)]

    def setup(
        self, line: Session, look: Look, event: gr.EventData, request: gr.Request
    ) -> list[Any]:
        """A new problem, preset or seed, or a fresh start; refused while a run goes on."""
        if self._room(request).busy:
            return [gr.skip()] * (2 + len(PANELS))
        room = self._room(request)
        data = _data(event)
        if is_lost(line, data):
            return [line, gr.skip(), *_all(self._lost(line))]
        try:
            notice = RESTORED if data.get("restored") else None
            if isinstance(data.get("packed"), str):
                data = {"file": unpacked(data["packed"])}
            if isinstance(data.get("open"), str):
                data = self._opened(data, room)
            if isinstance(data.get("evidence"), str):
                room.evidence, after = unpacked_rows(data["evidence"]), line
            else:
                after = set_up(line, data, self._examples)
            after = replace(after, notice=notice)
        except Exception as error:  # noqa: BLE001 - no file, however hostile, ends a session
            after = replace(line, notice=self._limits.told(error))
        seen = look if after.history is line.history else elsewhere(look)
        if isinstance(data.get("compare"), str):
            seen = replace(seen, compared=data["compare"])
        if isinstance(data.get("at"), int) and after.history:
            seen = looked(after, seen, {"step": data["at"]})
        return [after, seen, *_all(self.views(after, seen, room=room))]

    def _opened(self, data: dict[str, Any], room: Room) -> dict[str, Any]:
        """What to set up for what a link names: a run given out, the recorded one, a problem."""
        named = str(data.get("name") or "")
        if data["open"] == "trace":
            found = self._links.find(named)
            room.evidence = Evidence()
            return {"file": found}
        shipped = None if self._example is None else self._example.stem
        if shipped is not None and named in ("", shipped):
            rows = evidence_path(self._example)
            room.evidence = load_evidence(rows) if rows.is_file() else Evidence()
            return {"file": read_bounded(self._example).decode("utf-8")}
        known = [problem.problem_id for problem in self._examples]
        if named in known:
            return {"example": named}
        menu = ", ".join(name for name in (shipped, *known) if name)
        raise UsageError(f"expected an example out of {menu}, got {named[:80]!r}: choose one")

    def save(self, line: Session, event: gr.EventData, request: gr.Request) -> str:
        """What leaves the page: a file, a link, or (`quiet`) a copy for this tab's own memory."""
        data = _data(event)
        what = str(data.get("what") or "")
        try:
            if data.get("quiet"):
                view: dict[str, Any] = {"quiet": True, "packed": packed(line)}
            elif what == "link":
                view = {"link": f"?trace={self._links.give(to_file(line))}", "lasts": LASTS}
            else:
                rows = self._room(request).evidence
                view = exported(line, what, lambda: self._report(line, rows), rows)
        except SpecGuardError as error:
            view = {"trouble": self._limits.told(error)}
        return to_json(view | {"stamp": time.time()})

    def _report(self, line: Session, rows: Evidence) -> str:
        return report(line, report_assets(), self._pair.names, is_right(line.trace), rows)

    def stop(self, request: gr.Request) -> None:
        """End the session's run within one token."""
        self._rooms.stop(_name(request))

    def warm(self) -> Iterator[str]:
        """Load the models once the page is painted, so that the first step need not wait."""
        if self._limits.read_only:
            yield to_json({"models": "read-only: no models"})
            return
        if not self._pair.ready:
            yield to_json({"models": "loading models"})
            try:
                self._pair.get()
            except Exception as error:  # noqa: BLE001 - what stands in the page needs no model
                yield to_json({"models": self._limits.told(error)})
                return
        yield to_json(
            {"models": self._pair.state, "abilities": abilities_view(self._pair.abilities)}
        )

    def leave(self, request: gr.Request) -> None:
        """A closed page stops its run and frees its rows."""
        self._rooms.leave(_name(request))

    @property
    def endpoints(self) -> Endpoints:
        """What programs may ask, with the same models, queue and limits."""
        return Endpoints(self._pair, self._turns, self._limits)

    @property
    def idle_seconds(self) -> float:
        """How long a session is kept that nobody touches."""
        return self._limits.idle_seconds

    def told(self, error: BaseException) -> str:
        """What this page says of an error."""
        return self._limits.told(error)

    def sweep(self) -> None:
        """Free what idle sessions hold."""
        self._rooms.sweep()

    def _admitted(self, session: Session) -> Session:
        """The session, if models may go on with it here; a new run is bounded."""
        if session.head is None:
            session = replace(session, config=self._limits.bounded(session.config))
        self._limits.check(session.run_config)
        return session

    def _lost(self, line: Session) -> dict[Panel, str]:
        """Views for a page whose session the server no longer has."""
        desk = replace(self._desk(None), lost=True)
        return draw(line, Look(), desk, self._examples)

    def _desk(self, progress: str | None) -> Desk:
        shipped, locked = self._example is not None, self._limits.locked
        models = "read-only: no models" if locked else self._pair.state
        return Desk(self._pair.names, models, progress, shipped, locked, self._pair.abilities)

    def _room(self, request: gr.Request) -> Room:
        return self._rooms.room(_name(request))


def is_lost(line: Session, data: dict[str, Any]) -> bool:
    """Whether the page shows a run that the server has forgotten: idle too long, or restarted."""
    return bool(data.get("kept")) and not line.lines


def _all(views: dict[Panel, str]) -> list[Any]:
    return [views.get(name, gr.skip()) for name in PANELS]


def _data(event: gr.EventData) -> dict[str, Any]:
    """What came with an event; a page that was tampered with may send anything."""
    return event._data if isinstance(event._data, dict) else {}


def _name(request: gr.Request) -> str:
    return request.session_hash or ""

"""What an event of the page does. The only place where requests, sessions and models meet.

line       the Session value of one browser tab; look: where its person looks. Both are replaced,
           never changed; a run writes the line, clicks write the look, so neither overtakes the
           other
"""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import gradio as gr

from specguard_core.errors import SpecGuardError, UsageError
from specguard_core.evidence import Evidence
from specguard_core.files import read_bounded
from specguard_core.presets import preset
from specguard_core.trace_io import evidence_path, load_evidence
from viz_app.driving import drive
from viz_app.files import file_name, to_file
from viz_app.page import PANELS, Panel, draw, to_json, touched
from viz_app.requests import departed, looked, set_up
from viz_app.session import Look, Problem, Session
from viz_app.views.top import Desk, top_view
from viz_app.work import Pair, Room, Rooms


class Handlers:
    """The handlers of one page; all sessions share the pair and the queue."""

    def __init__(
        self, pair: Pair, examples: Sequence[Problem], seed: int, example: Path | None
    ) -> None:
        self._pair = pair
        self._examples = tuple(examples)
        self._seed = seed
        self._example = example
        self._rooms = Rooms()

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
        return draw(session, look, desk, self._examples, is_right(session), evidence, panels)

    def drive(
        self, line: Session, look: Look, event: gr.EventData, request: gr.Request
    ) -> Iterator[list[Any]]:
        """Go on, on a branch of its own where the way is another one, drawing as models work."""
        room = self._room(request)
        if room.job is not None:
            yield [gr.skip()] * (2 + len(PANELS))
            return
        try:
            session, move = departed(line, look, _data(event))
        except UsageError as error:
            failed = replace(line, notice=str(error))
            yield [failed, gr.skip(), *_all(self.views(failed, look, room=room))]
            return
        knobs = None if session.trace is None or session is not line else look.knobs
        for frame in drive(session, move, self._pair, room, Look(knobs=knobs)):
            follows = Look(knobs=knobs) if room.job is None else room.job.look
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
        try:
            after = looked(line, look, _data(event))
        except UsageError as error:
            after = look
            line = replace(line, notice=str(error))
        room = self._room(request)
        job = room.job
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
        if self._room(request).job is not None:
            return [gr.skip()] * (2 + len(PANELS))
        room = self._room(request)
        data = _data(event)
        try:
            if data.get("open") == "example" and self._example is not None:
                data = {"file": read_bounded(self._example).decode("utf-8")}
                rows = evidence_path(self._example)
                room.evidence = load_evidence(rows) if rows.is_file() else Evidence()
            after = set_up(line, data, self._examples)
        except (SpecGuardError, OSError, UnicodeDecodeError) as error:
            after = replace(line, notice=str(error))
        seen = look if after.lines is line.lines else Look()
        return [after, seen, *_all(self.views(after, seen, room=room))]

    def save(self, line: Session, event: gr.EventData) -> str:
        """The session as a file: for the person, or (`quiet`) for this tab's own memory."""
        quiet = bool(_data(event).get("quiet"))
        try:
            text = to_file(line)
        except SpecGuardError as error:
            return to_json({"trouble": str(error)})
        view = {"name": file_name(line), "text": text, "stamp": time.time(), "quiet": quiet}
        return to_json(view)

    def stop(self, request: gr.Request) -> None:
        """End the session's run within one token."""
        self._rooms.stop(_name(request))

    def warm(self) -> Iterator[str]:
        """Load the models once the page is painted, so that the first step need not wait."""
        if not self._pair.ready:
            yield to_json({"models": "loading models"})
            try:
                self._pair.get()
            except SpecGuardError as error:
                yield to_json({"models": str(error)})
                return
        yield to_json({"models": self._pair.state})

    def leave(self, request: gr.Request) -> None:
        """A closed page stops its run and frees its rows."""
        self._rooms.leave(_name(request))

    def _desk(self, progress: str | None) -> Desk:
        return Desk(self._pair.names, self._pair.state, progress, self._example is not None)

    def _room(self, request: gr.Request) -> Room:
        return self._rooms.room(_name(request))


def is_right(session: Session) -> bool | None:
    """Whether the run's answer equals the gold one; None where either is missing."""
    trace = session.trace
    if trace is None or trace.finish is None or trace.gold is None:
        return None
    if trace.finish.answer is None:
        return False
    return _same(trace.gold, trace.finish.answer)


@lru_cache(maxsize=256)
def _same(gold: str, answer: str) -> bool:
    from specguard_core.answers import same_answer

    return same_answer(gold, answer)


def _all(views: dict[Panel, str]) -> list[Any]:
    return [views.get(name, gr.skip()) for name in PANELS]


def _data(event: gr.EventData) -> dict[str, Any]:
    """What came with an event; a page that was tampered with may send anything."""
    return event._data if isinstance(event._data, dict) else {}


def _name(request: gr.Request) -> str:
    return request.session_hash or ""

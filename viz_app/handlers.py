"""What an event of the page does. The only place where requests, sessions and models meet.

line       the Session value of one browser tab; look: where its person looks. Both are replaced,
           never changed; a run writes the line, clicks write the look, so neither overtakes the
           other
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

from specguard_core import bundled
from specguard_core.errors import SpecGuardError, UsageError
from specguard_core.evidence import Evidence
from specguard_core.presets import preset
from viz_app.answers import is_right
from viz_app.api import Endpoints
from viz_app.beside import RunBeside
from viz_app.calibrating import Calibrate
from viz_app.driving import AskTarget, Edit, drive
from viz_app.exports import exported
from viz_app.files import packed, to_file, unpacked, unpacked_rows
from viz_app.gold import NO_GOLD, Gold, gold_steps
from viz_app.limits import Limits
from viz_app.links import LASTS, Links
from viz_app.page import PANELS, Panel, answer, draw, to_json, touched
from viz_app.pairs import Pairs, made_by
from viz_app.recordings import Recording, recording_named
from viz_app.report import report
from viz_app.requests import departed, looked, refitted, set_up
from viz_app.session import Look, Problem, Session, elsewhere, is_left, paired
from viz_app.theme import report_assets
from viz_app.turns import Turns
from viz_app.views.rightness import wrong_steps
from viz_app.views.strategies import abilities_view
from viz_app.views.top import Desk, top_view
from viz_app.work import Room, Rooms

RESTORED = "The server had ended this run; the tab's own copy stands here again: go on from it."


class Handlers:
    """The handlers of one page; all sessions share the pair and the queue."""

    def __init__(
        self,
        pairs: Pairs,
        examples: Sequence[Problem],
        seed: int,
        recordings: Sequence[Recording],
        limits: Limits,
        clock: Callable[[], float],
        rows: Evidence | None = None,
    ) -> None:
        """`rows` are those of the run that a new visitor finds."""
        self._pairs = pairs
        self._examples = tuple(examples)
        self._seed = seed
        self._recordings = tuple(recordings)
        self._limits = limits
        self._rooms = Rooms(clock, limits.idle_seconds, (rows or Evidence()).copy)
        self._links = Links(clock)
        self._turns = Turns(limits.waiting)

    def first(self) -> Session:
        """What a new visitor finds: the first example, not begun."""
        problem = self._examples[0] if self._examples else Problem()
        return Session(problem, replace(preset(self._pairs.home.preset), seed=self._seed))

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
        desk = self._desk(progress, session)
        right, gold = is_right(session.trace), known_solutions(session)
        return draw(session, look, desk, self._examples, right, evidence, panels, gold)

    def drive(
        self, line: Session, look: Look, event: gr.EventData, request: gr.Request
    ) -> Iterator[list[Any]]:
        """Go on, on a branch of its own where the way is another one, drawing as models work."""
        room = self._room(request)
        if room.busy:
            yield [gr.skip()] * 4
            return
        if is_lost(line, _data(event)):
            yield [line, gr.skip(), _answer(self._lost(line)), gr.skip()]
            return
        try:
            session, move = departed(line, look, _data(event))
            session = self._admitted(session)
            if isinstance(move, RunBeside):
                move = move.bounded(self._limits.bounded)
        except UsageError as error:
            failed = replace(line, notice=self._limits.told(error))
            yield [failed, gr.skip(), _answer(self.views(failed, look, room=room)), gr.skip()]
            return
        knobs = None if session.trace is None or session is not line else look.knobs
        stays = isinstance(move, AskTarget | Edit | Calibrate)
        begun = look if stays else elsewhere(look, knobs)
        if isinstance(move, RunBeside):
            begun = replace(elsewhere(look), compared=move.sides[0])
        pair, tell = self._pairs.of(session.pair), self._limits.told
        # A browser may take two messages as one, the later value of each output: a tick says the
        # last answer again, which costs nothing on the way, so that none is lost to it.
        answered: Any = gr.skip()
        for frame in drive(session, move, pair, room, begun, self._turns, tell):
            follows = begun if room.job is None else room.job.look
            if frame.grown:
                views = self.views(frame.session, follows, frame.progress, room)
                answered = _answer(views)
                yield [frame.session, follows, answered, gr.skip()]
            else:
                top = top_view(frame.session, follows, self._desk(frame.progress, frame.session))
                tick = to_json(top | {"stamp": time.time()})
                yield [frame.session, gr.skip(), answered, tick]

    def look(
        self, line: Session, look: Look, event: gr.EventData, request: gr.Request
    ) -> list[Any]:
        """Look elsewhere: never calls a model."""
        if is_lost(line, _data(event)):
            return [gr.skip(), _answer(self._lost(line))]
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
        return [after, _answer(views)]

    def setup(
        self, line: Session, look: Look, event: gr.EventData, request: gr.Request
    ) -> list[Any]:
        """A new problem, preset or seed, or a fresh start; refused while a run goes on."""
        if self._room(request).busy:
            return [gr.skip()] * 3
        room = self._room(request)
        data = _data(event)
        if is_lost(line, data):
            return [line, gr.skip(), _answer(self._lost(line))]
        rows = room.evidence
        try:
            notice = RESTORED if data.get("restored") else None
            ticket = str(data.get("ticket") or "")
            if isinstance(data.get("packed"), str):
                data = {"file": unpacked(data["packed"])}
            if isinstance(data.get("open"), str):
                data = self._opened(data, room)
            if isinstance(data.get("evidence"), str):
                room.evidence, after = unpacked_rows(data["evidence"]), line
            elif isinstance(data.get("pair"), list):
                after = self._paired(line, data["pair"])
            else:
                after = set_up(line, data, self._examples)
            after = replace(after, notice=notice)
        except Exception as error:  # noqa: BLE001 - no file, however hostile, ends a session
            ticket, after = "", replace(line, notice=self._limits.told(error))
        if room.evidence is rows and is_left(line, after):
            room.evidence = Evidence()
        seen = look if after.history is line.history else elsewhere(look)
        if isinstance(data.get("compare"), str):
            seen = replace(seen, compared=data["compare"])
        if isinstance(data.get("at"), int) and after.history:
            seen = looked(after, seen, {"step": data["at"]})
        if data.get("fault") and after.trace is not None:
            faults = wrong_steps(after.trace, known_solutions(after), is_right(after.trace))
            seen = looked(after, seen, {"step": min(faults)}) if faults else seen
        return [after, seen, _answer(self.views(after, seen, room=room), ticket)]

    def _opened(self, data: dict[str, Any], room: Room) -> dict[str, Any]:
        """What to set up for what a link names: a run given out, a recorded one, a problem."""
        named = str(data.get("name") or "")
        if data["open"] == "trace":
            found = self._links.find(named)
            room.evidence = Evidence()
            return {"file": found}
        if recording := recording_named(self._recordings, named):
            text, room.evidence = recording.open()
            # A recorded run opens where it first went wrong: that is what there is to see.
            return {"file": text, "fault": True}
        known = [problem.problem_id for problem in self._examples]
        if named in known:
            return {"example": named}
        recorded = [recording.name for recording in self._recordings]
        menu = ", ".join(name for name in (*recorded, *known) if name)
        raise UsageError(f"expected an example out of {menu}, got {named[:80]!r}: choose one")

    def _paired(self, line: Session, named: list[Any]) -> Session:
        """The session with the models that a visitor chose."""
        sources = self._pairs.checked(*(*named, None, None)[:2])
        if sources == line.pair:
            return line
        now, then = self._pairs.seen(line.pair), self._pairs.seen(sources)
        wanted = refitted(line.config, now.preset, then.preset)
        return paired(line, sources, wanted, goes_on=made_by(line.trace, then.names))

    def save(self, line: Session, event: gr.EventData, request: gr.Request) -> str:
        """What leaves the page: a file, a table, a report or a link."""
        data = _data(event)
        what = str(data.get("what") or "")
        try:
            if what == "link":
                view: dict[str, Any] = {
                    "link": f"?trace={self._links.give(to_file(line))}",
                    "lasts": LASTS,
                }
            else:
                rows = self._room(request).evidence
                view = exported(line, what, lambda: self._report(line, rows), rows)
        except SpecGuardError as error:
            view = {"trouble": self._limits.told(error)}
        return to_json(view | {"stamp": time.time()})

    def keep(self, line: Session) -> str:
        """A copy of the run for the tab's own memory; the stamp tells one from the same again."""
        try:
            return to_json({"packed": packed(line), "stamp": time.time()})
        except SpecGuardError:
            return to_json({})

    def _report(self, line: Session, rows: Evidence) -> str:
        names = self._pairs.seen(line.pair).names
        right, gold = is_right(line.trace), known_solutions(line)
        return report(line, report_assets(), names, right, rows, gold)

    def stop(self, request: gr.Request) -> None:
        """End the session's run within one token."""
        self._rooms.stop(_name(request))

    def warm(self) -> Iterator[str]:
        """Load the models once the page is painted, so that the first step need not wait."""
        if self._limits.read_only:
            yield to_json({"models": "read-only: no models"})
            return
        home = self._pairs.home
        if not home.ready:
            yield to_json({"models": "loading models"})
            try:
                home.get()
            except Exception as error:  # noqa: BLE001 - what stands in the page needs no model
                yield to_json({"models": self._limits.told(error)})
                return
        yield to_json({"models": home.state, "abilities": abilities_view(home.abilities)})

    def leave(self, request: gr.Request) -> None:
        """A closed page stops its run and frees its rows."""
        self._rooms.leave(_name(request))

    @property
    def endpoints(self) -> Endpoints:
        """What programs may ask, with the same models, queue and limits."""
        return Endpoints(self._pairs.home, self._turns, self._limits)

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
        desk = replace(self._desk(None, line), lost=True)
        return draw(line, Look(), desk, self._examples)

    def _desk(self, progress: str | None, session: Session) -> Desk:
        locked, pair = self._limits.locked, self._pairs.seen(session.pair)
        return Desk(
            pair.names,
            "read-only: no models" if locked else pair.state,
            progress,
            self._recordings,
            locked,
            pair.abilities,
            sources=None if self._limits.public else pair.sources,
            offers=() if locked else self._pairs.offers,
            free=not self._pairs.listed_only,
        )

    def _room(self, request: gr.Request) -> Room:
        return self._rooms.room(_name(request))


def known_solutions(session: Session) -> Gold:
    """Right steps of the problems that ship, read once there is a run to hold against them."""
    return gold_steps(bundled.PROBLEMS) if session.lines else NO_GOLD


def is_lost(line: Session, data: dict[str, Any]) -> bool:
    """Whether the page shows a run that the server has forgotten: idle too long, or restarted."""
    return bool(data.get("kept")) and not line.lines


def _answer(views: dict[Panel, str], opened: str = "") -> str:
    """What one event shows. Answers of a run are whole, as a browser may see only the last of two
    that come close together; its ticks go to the top panel alone."""
    return answer(views, time.time(), opened)


def _data(event: gr.EventData) -> dict[str, Any]:
    """What came with an event; a page that was tampered with may send anything."""
    return event._data if isinstance(event._data, dict) else {}


def _name(request: gr.Request) -> str:
    return request.session_hash or ""

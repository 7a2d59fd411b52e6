"""The shared models, and the work that each session has under way. Knows no gradio.

pair       the models, loaded once, on first use, by whoever comes first
room       what belongs to one session and is no value: its running job and its attention rows
job        a run under way; others may ask it to stop, or say where its person looks now
"""

import contextvars
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from specguard_core.config import StrategyName
from specguard_core.errors import ModelError
from specguard_core.evidence import Evidence
from specguard_core.lm import Models
from specguard_core.presets import PresetName
from specguard_core.types import Calibration
from viz_app.abilities import Ability, abilities
from viz_app.memory import search_all, set_aside
from viz_app.phases import Hands, Phase
from viz_app.session import Look
from viz_app.workers import Fork, Workplace

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A pair ready to decode, with the calibration that belongs to it (None: uncalibrated)."""

    models: Models
    calibration: Calibration | None


class Pair:
    """The models every session shares. `load` is called at most once at a time.

    names: draft and target as the page calls them; sources: where they come from, in full.
    preset: the one that a run with them begins with.
    """

    def __init__(
        self,
        load: Callable[[], Loaded],
        names: tuple[str, str],
        sources: tuple[str, str] | None = None,
        fork: Fork | None = None,
        preset: PresetName = "cpu",
    ) -> None:
        self.names = names
        self.preset = preset
        self.sources = sources or names
        self._load = load
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None
        self._state = "models not loaded yet"
        self._abilities: Mapping[StrategyName, Ability] = {}
        self._place = Workplace(self._models, fork)

    @property
    def abilities(self) -> Mapping[StrategyName, Ability]:
        """By strategy, whether these models can run it; nothing before they are loaded."""
        return self._abilities

    @property
    def ready(self) -> bool:
        return self._loaded is not None

    @property
    def state(self) -> str:
        """One phrase for the status line."""
        return self._state

    def get(self) -> Loaded:
        """The loaded pair; loads it on first use.

        Raises:
            SpecGuardError: it cannot be loaded; the next call tries again.
        """
        with self._lock:
            if self._loaded is None:
                self._state = "loading models"
                search_all()
                try:
                    self._loaded = self._load()
                except Exception:
                    self._state = "models could not be loaded"
                    raise
                finally:
                    set_aside()
                self._abilities = abilities(self._loaded.models)
                self._state = "models idle"
            return self._loaded

    def run(self, phase: Phase[Result], hands: Hands | None = None) -> Result:
        """What the loaded models answer, here or in a worker: a phase is a value, and so is that.

        Raises whatever the phase raises, or that no worker could be had.
        """
        return self._place.run(phase, hands or Hands())

    def _models(self) -> Models:
        # No lock: a worker has a copy of it, held for ever by a thread that is not there.
        if self._loaded is None:
            raise ModelError("expected models that are loaded, got none: load them first")
        return self._loaded.models

    def forget(self) -> None:
        """Have the models drop what they have read, so that memory is free again."""
        if self._loaded is not None:
            self._loaded.models.forget()


@dataclass(slots=True)
class Job:
    """A run under way.

    tokens   written so far in the longest draw of the transition
    over     whether the page was told that it ended; what is left is to put things away
    """

    look: Look = field(default_factory=Look)
    tokens: int = 0
    over: bool = False
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Room:
    """What a session owns that is no value. touched: when it last asked for something."""

    evidence: Evidence = field(default_factory=Evidence)
    job: Job | None = None
    touched: float = 0.0

    @property
    def busy(self) -> bool:
        """Whether a run goes on that the page was not told the end of."""
        return self.job is not None and not self.job.over


class Rooms:
    """The rooms by session; one is given up when its page is closed, or idle for too long.

    rows: the attention rows that a new one begins with, a store of its own each time.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        idle_seconds: float,
        rows: Callable[[], Evidence] = Evidence,
    ) -> None:
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._rows = rows
        self._lock = threading.Lock()
        self._rooms: dict[str, Room] = {}

    def __len__(self) -> int:
        return len(self._rooms)

    def room(self, name: str) -> Room:
        self.sweep()
        with self._lock:
            room = self._rooms.setdefault(name, Room(self._rows()))
            room.touched = self._clock()
            return room

    def sweep(self) -> None:
        """Give up the rooms that nobody touched for too long and where nothing runs."""
        now = self._clock()
        with self._lock:
            for name, room in list(self._rooms.items()):
                if room.job is None and now - room.touched > self._idle_seconds:
                    del self._rooms[name]

    def stop(self, name: str) -> None:
        """Ask the session's job to end within one token; nothing where none runs."""
        with self._lock:
            room = self._rooms.get(name)
        if room is not None and room.job is not None:
            room.job.stop.set()

    def leave(self, name: str) -> None:
        """Stop the session's job and forget its rows."""
        self.stop(name)
        with self._lock:
            self._rooms.pop(name, None)


class Task(Generic[Result]):
    """A call in a thread of its own that can be watched while it runs."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call
        self._value: Result | None = None
        self._error: BaseException | None = None
        self._done = threading.Event()
        # On a Space the request that is answered says whose GPU it is.
        here = contextvars.copy_context()
        threading.Thread(target=here.run, args=(self._run,), daemon=True).start()

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self._error = error
        finally:
            self._done.set()

    def ticks(self, seconds: float) -> Iterator[float]:
        """Seconds since it began, once per interval until it is done."""
        began = time.monotonic()
        while not self._done.wait(seconds):
            yield time.monotonic() - began

    def result(self) -> Result:
        """What the call returned or raised; waits for it."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # done without an error

"""The shared models, and the work that each session has under way. Knows no gradio.

pair       the models, loaded once, on first use, by whoever comes first
room       what belongs to one session and is no value: its running job and its attention rows
job        a run under way; others may ask it to stop, or say where its person looks now
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from specguard_core.errors import SpecGuardError
from specguard_core.evidence import Evidence
from specguard_core.lm import Models
from specguard_core.types import Calibration
from viz_app.session import Look

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A pair ready to decode, with the calibration that belongs to it (None: uncalibrated)."""

    models: Models
    calibration: Calibration | None


class Pair:
    """The models every session shares. `load` is called at most once at a time."""

    def __init__(self, load: Callable[[], Loaded], names: tuple[str, str]) -> None:
        self.names = names
        self._load = load
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None
        self._state = "models not loaded yet"

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
                try:
                    self._loaded = self._load()
                except SpecGuardError:
                    self._state = "models could not be loaded"
                    raise
                self._state = "models idle"
            return self._loaded


@dataclass(slots=True)
class Job:
    """A run under way. tokens: written so far in the longest draw of the transition."""

    look: Look = field(default_factory=Look)
    tokens: int = 0
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Room:
    """What a session owns that is no value."""

    evidence: Evidence = field(default_factory=Evidence)
    job: Job | None = None


class Rooms:
    """The rooms by session; they are emptied when the page is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rooms: dict[str, Room] = {}

    def room(self, name: str) -> Room:
        with self._lock:
            return self._rooms.setdefault(name, Room())

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
        threading.Thread(target=self._run, daemon=True).start()

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

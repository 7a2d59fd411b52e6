"""Sessions that a person gave out as a link. Bounded in number, bytes and age; knows no gradio.

name       128 random bits in a link: it cannot be guessed, and says nothing of what it names
"""

import secrets
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from specguard_core.errors import UsageError

MOST_LINKS = 500
MOST_BYTES = 64 * 2**20
MOST_SECONDS = 7 * 24 * 3600.0
LASTS = f"It lasts until this server ends, at most {MOST_SECONDS / 86400:.0f} days."


@dataclass(frozen=True, slots=True)
class Kept:
    """A session file, compressed, and when it was given out, in seconds of the clock."""

    data: bytes
    since: float


class Links:
    """Session files by name; the oldest goes first when a bound is reached."""

    def __init__(
        self,
        clock: Callable[[], float],
        most_links: int = MOST_LINKS,
        most_bytes: int = MOST_BYTES,
        most_seconds: float = MOST_SECONDS,
    ) -> None:
        self._clock = clock
        self._most_links = most_links
        self._most_bytes = most_bytes
        self._most_seconds = most_seconds
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    @property
    def size_bytes(self) -> int:
        """What the session files take, compressed."""
        return sum(len(kept.data) for kept in self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

    def give(self, text: str) -> str:
        """Keep a session file under a new name.

        Raises:
            UsageError: it alone is over the bound.
        """
        data = zlib.compress(text.encode(), 6)
        if len(data) > self._most_bytes:
            raise UsageError(
                f"expected a run of at most {self._most_bytes / 2**20:.0f} MiB to link to, got "
                f"{len(data) / 2**20:.0f} MiB: save it as a file"
            )
        name = secrets.token_urlsafe(16)
        with self._lock:
            self._kept[name] = Kept(data, self._clock())
            self._drop_old()
        return name

    def find(self, name: str) -> str:
        """The session file of a name.

        Raises:
            UsageError: this server gave out no such name, or too long ago.
        """
        with self._lock:
            self._drop_old()
            kept = self._kept.get(name)
        if kept is None:
            raise UsageError(
                "expected a link that this server gave out, got one it does not know: it is too "
                "old, or from elsewhere"
            )
        return zlib.decompress(kept.data).decode()

    def _drop_old(self) -> None:
        now = self._clock()
        while self._kept:
            oldest = next(iter(self._kept.values()))
            crowded = len(self._kept) > self._most_links or self.size_bytes > self._most_bytes
            if not crowded and now - oldest.since <= self._most_seconds:
                return
            self._kept.popitem(last=False)

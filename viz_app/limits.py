"""What a served page allows: how much, how long, and what it may say. Pure; knows no gradio.

read-only  everything but model work
public     strangers visit: an error names no place on this machine
idle       a session that nobody has touched for a while: its memory is freed
"""

import re
from dataclasses import dataclass, replace

from specguard_core.config import DecodeConfig
from specguard_core.errors import SpecGuardError, UsageError
from viz_app.turns import MOST_WAITING

IDLE_SECONDS = 2 * 3600
LOCKED = "This page is read-only: recorded runs can be opened and judged, no model works here."
PUBLIC_TOKENS = 1024
"""Most tokens of a run on a public page that sets no other bound."""
_PLACE = re.compile(r"(?<![\w/:])(?:~|[A-Za-z]:)?[\\/](?:[\w.@+-]+[\\/])*[\w.@+-]*")


@dataclass(frozen=True, slots=True)
class Limits:
    """max_tokens: most a run may keep, None as its knobs say; waiting: places in the queue."""

    max_tokens: int | None = None
    read_only: bool = False
    public: bool = False
    waiting: int = MOST_WAITING
    idle_seconds: float = IDLE_SECONDS

    @property
    def locked(self) -> str:
        """Why no model works here; empty where one may."""
        return LOCKED if self.read_only else ""

    def bounded(self, config: DecodeConfig) -> DecodeConfig:
        """The knobs of a new run, its tokens bounded."""
        if self.max_tokens is None or config.max_new_tokens <= self.max_tokens:
            return config
        return replace(config, max_new_tokens=self.max_tokens)

    def check(self, config: DecodeConfig) -> None:
        """Refuse to go on with a run whose own bound is higher than this page's.

        Raises:
            UsageError: it is, or the page is read-only.
        """
        if self.read_only:
            raise UsageError(LOCKED)
        if self.max_tokens is not None and config.max_new_tokens > self.max_tokens:
            raise UsageError(
                f"expected a run of at most {self.max_tokens:,} tokens here, got one that may "
                f"write {config.max_new_tokens:,}: reset it, or run the page yourself"
            )

    def told(self, error: BaseException) -> str:
        """What the page says of an error: one sentence, on a public page without places."""
        if not self.public:
            return sentence_of(error)
        known = isinstance(error, SpecGuardError)
        return _PLACE.sub("…", str(error)) if known else "something failed on the server"


def sentence_of(error: BaseException) -> str:
    """What any error says."""
    known = isinstance(error, SpecGuardError)
    return str(error) if known else f"{type(error).__name__}: {error}"

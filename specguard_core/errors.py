"""Every error a user can meet, as one tree.

Each message says what was expected, what came, and what to do.

SpecGuardError
├── UsageError (ValueError)     the caller asked for something that cannot be: exit code 2
│   ├── ConfigError             a knob out of range, an unknown knob or strategy
│   ├── ProblemError            an empty, oversized or unreadable problem or problem file
│   └── TraceFileError          a broken, foreign or newer file
├── ModelError                  a folder that is no model, weights that will not load
│   ├── PairError               draft and target do not fit together
│   └── CacheError              a cache that cannot be rolled back
├── SaveError                   a file that could not be written; the old one is as it was
├── NotMeasured                 a weighted signal or a method has no data
└── Cancelled                   should_stop said so: the previous state stands
"""


class SpecGuardError(Exception):
    """Base of all errors raised on purpose; its text is one sentence fit for the page."""


class UsageError(SpecGuardError, ValueError):
    """The request itself is wrong; nothing was started."""


class ConfigError(UsageError):
    """A knob out of range, of the wrong type, or unknown."""


class ProblemError(UsageError):
    """A problem text or a problem file that cannot be decoded."""


class TraceFileError(UsageError):
    """A trace, session, calibration or evidence file that cannot be read as such."""


class ModelError(SpecGuardError):
    """A model that could not be found, loaded or run."""


class PairError(ModelError):
    """Draft and target do not fit together."""


class CacheError(ModelError):
    """The model's cache cannot be rolled back, so steps cannot be refused."""


class SaveError(SpecGuardError):
    """A file could not be written; the old one, if any, is as it was."""


class NotMeasured(SpecGuardError):
    """A number was asked for that was never measured; none is made up."""


class Cancelled(SpecGuardError):
    """Work was stopped on request before it ended; the state before it stands."""

    def __init__(self, message: str = "stopped on request; the last whole state stands") -> None:
        super().__init__(message)


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on a device or beside one; every library says it in its own way."""
    words = str(error).lower()
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or "out of memory" in words or "can't allocate memory" in words

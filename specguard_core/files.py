"""Reading and writing whole files safely. Knows nothing of what is in them beyond JSON.

atomic     a reader sees the old file or the new one, never a part; on any failure the old one stays
strict     JSON with no NaN, no infinity and no key given twice
"""

import gc
import json
import math
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from specguard_core.errors import SaveError, TraceFileError

MAX_FILE_BYTES = 100 * 2**20
_LINE_CHARACTERS = 1_500


def read_bounded(path: Path, limit_bytes: int = MAX_FILE_BYTES) -> bytes:
    """All bytes of a regular file; one that is larger than the limit is refused unread.

    Raises:
        TraceFileError: missing, no regular file, too large or unreadable.
    """
    try:
        if not path.is_file():
            what = "a folder" if path.is_dir() else "no such file"
            raise TraceFileError(f"expected a file at {path}, got {what}: check the path")
        size = path.stat().st_size
        if size > limit_bytes:
            raise TraceFileError(
                f"expected a file of at most {limit_bytes / 2**20:g} MiB, got "
                f"{size / 2**20:.1f} MiB in {path}: it was not read"
            )
        with path.open("rb") as file:
            return file.read(limit_bytes)
    except (OSError, ValueError) as error:
        if isinstance(error, TraceFileError):
            raise
        raise TraceFileError(f"could not read {path}: {_reason(error)}") from error


def read_json(path: Path, limit_bytes: int = MAX_FILE_BYTES) -> Any:
    """The value in a strict JSON file.

    Raises:
        TraceFileError: as read_bounded, or not whole and strict JSON.
    """
    data = read_bounded(path, limit_bytes)
    try:
        return parse_json(data)
    except ValueError as error:
        raise TraceFileError(
            f"expected a whole JSON file, got one that cannot be read, {path} ({error}): "
            "it may be cut short or from elsewhere"
        ) from error


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for garbage while a large file becomes values: none of them is any yet, and to
    walk them all again and again takes a quarter of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def parse_json(data: bytes) -> Any:
    """The value of strict UTF-8 JSON.

    Raises:
        ValueError: not JSON, nested too deep, or with NaN, an infinity or a repeated key.
    """
    try:
        return json.loads(
            data.decode("utf-8-sig"),
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_distinct,
        )
    except RecursionError:
        raise ValueError("nested too deep") from None


def format_json(value: Any) -> str:
    """Strict JSON, one short entry a line: small containers and lists of numbers stay on one line.

    Raises:
        ValueError: a NaN or an infinity, which no file may hold.
    """
    return _format(value, "") + "\n"


def write_atomically(path: Path, data: bytes) -> None:
    """Put a whole file in place of an old one: written beside it, flushed to disk, then renamed.

    Raises:
        SaveError: it could not be written; the old file, if any, is as it was.
    """
    try:
        target = path.resolve() if path.is_symlink() else path
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        beside = target.parent / f".specguard-{secrets.token_hex(6)}.tmp"
        try:
            _write_new(beside, data)
            if target.exists():
                beside.chmod(target.stat().st_mode & 0o777)
            beside.replace(target)
        except BaseException:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
        _flush_folder(target.parent)
    except (OSError, ValueError) as error:
        kept = "the old file is as it was" if path.exists() else "nothing was written"
        raise SaveError(f"could not save {path}: {_reason(error)}; {kept}") from error


def _write_new(path: Path, data: bytes) -> None:
    # Not tempfile: it makes files that only their owner can read, whatever the umask says.
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    # The rename has happened; a file system that cannot flush a folder loses nothing we promised.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error) or type(error).__name__).lower()


def _refuse_constant(name: str) -> float:
    raise ValueError(f"it holds {name}, which is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"it holds {text}, which is too large for a number")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it gives a key twice")
    return found


def _format(value: Any, indent: str) -> str:
    inner = indent + " "
    if isinstance(value, dict) and _nested(value.values()):
        ends = "{}"
        entries = [f"{json.dumps(key)}: {_format(item, inner)}" for key, item in value.items()]
    elif isinstance(value, list) and _nested(value):
        ends = "[]"
        entries = [_format(item, inner) for item in value]
    else:
        return json.dumps(value, allow_nan=False)
    if sum(map(len, entries)) <= _LINE_CHARACTERS and not any("\n" in entry for entry in entries):
        return f"{ends[0]}{', '.join(entries)}{ends[1]}"
    lines = f",\n{inner}".join(entries)
    return f"{ends[0]}\n{inner}{lines}\n{indent}{ends[1]}"


def _nested(values: Iterable[Any]) -> bool:
    return any(isinstance(value, dict | list) for value in values)

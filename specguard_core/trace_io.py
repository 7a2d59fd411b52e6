"""Trace, session, calibration and evidence files. Knows no model and no page.

kind       what a file says it is: trace, session or calibration; a trace also loads as a session
version    `schema_version`; a file of another version is refused, never guessed at
strict     an unknown key, a wrong type, NaN, or an id without its piece refuses the whole file
"""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from specguard_core.errors import TraceFileError
from specguard_core.evidence import DEFAULT_LIMIT_BYTES, Evidence
from specguard_core.files import (
    MAX_FILE_BYTES,
    format_json,
    read_bounded,
    read_json,
    uncollected,
    write_atomically,
)
from specguard_core.sessions import Branch, Session
from specguard_core.trace_check import check_trace
from specguard_core.trace_json import MismatchError, codec
from specguard_core.types import SCHEMA_VERSION, Calibration, Trace

KINDS: dict[str, Any] = {"trace": Trace, "session": Session, "calibration": Calibration}
MAIN_BRANCH = "main"


def save_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace so that `load_trace` gives an equal one; the old file stays on any failure.

    Raises:
        SaveError: it could not be written.
    """
    _save(trace, Path(path))


def load_trace(path: str | Path, limit_bytes: int = MAX_FILE_BYTES) -> Trace:
    """The trace in a file; of a session, its current branch.

    Raises:
        TraceFileError: no such file, broken, foreign, of another version, or over the limit.
    """
    found = _load(Path(path), ("trace", "session"), limit_bytes)
    if isinstance(found, Session):
        found = next(branch.trace for branch in found.branches if branch.name == found.current)
    assert isinstance(found, Trace)
    return found


def save_session(session: Session, path: str | Path) -> None:
    """Write a session so that `load_session` gives an equal one; see save_trace."""
    _save(session, Path(path))


def load_session(path: str | Path, limit_bytes: int = MAX_FILE_BYTES) -> Session:
    """The session in a file; a bare trace becomes its only branch. Raises as load_trace."""
    found = _load(Path(path), ("session", "trace"), limit_bytes)
    if isinstance(found, Trace):
        return Session(branches=(Branch(MAIN_BRANCH, found),), current=MAIN_BRANCH)
    assert isinstance(found, Session)
    return found


def save_calibration(calibration: Calibration, path: str | Path) -> None:
    """Write a calibration so that `load_calibration` gives an equal one; see save_trace."""
    _save(calibration, Path(path))


def load_calibration(path: str | Path) -> Calibration:
    """The calibration in a file. Raises as load_trace."""
    found = _load(Path(path), ("calibration",), MAX_FILE_BYTES)
    assert isinstance(found, Calibration)
    return found


def to_json(value: Trace | Session | Calibration) -> dict[str, Any]:
    """The JSON object a file holds; `from_json` is its inverse."""
    kind = next(name for name, known in KINDS.items() if isinstance(value, known))
    head = {"kind": kind, "schema_version": SCHEMA_VERSION}
    encoded: dict[str, Any] = codec(KINDS[kind]).encode(value)
    return head | encoded


def from_json(data: Any) -> Trace | Session | Calibration:
    """The value of a JSON object that `to_json` made.

    Raises:
        TraceFileError: anything else.
    """
    named = isinstance(data, dict) and isinstance(data.get("kind"), str) and data["kind"] in KINDS
    if not named or "schema_version" not in data:
        raise TraceFileError(
            f"expected a file with a kind out of {', '.join(KINDS)} and a schema_version, got "
            "neither: it is from elsewhere"
        )
    version = data["schema_version"]
    if type(version) is not int or version != SCHEMA_VERSION:
        newer = type(version) is int and version > SCHEMA_VERSION
        advice = "a newer program wrote it, update this one" if newer else "it is from elsewhere"
        raise TraceFileError(f"expected schema_version {SCHEMA_VERSION}, got {version!r}: {advice}")
    kind = KINDS[data["kind"]]
    dropped = ("kind",) if kind is Trace else ("kind", "schema_version")
    try:
        value = codec(kind).decode({k: v for k, v in data.items() if k not in dropped})
        for trace in _traces(value):
            check_trace(trace)
    except MismatchError as mismatch:
        raise TraceFileError(
            f"expected a whole {data['kind']}, got {mismatch}: the file was changed or is broken"
        ) from None
    assert isinstance(value, Trace | Session | Calibration)
    return value


def save_evidence(evidence: Evidence, path: str | Path) -> None:
    """Write attention rows by key; see save_trace."""
    write_atomically(Path(path), evidence_bytes(evidence))


def evidence_bytes(evidence: Evidence) -> bytes:
    """What an evidence file holds; `evidence_from` is its inverse."""
    buffer = io.BytesIO()
    arrays: dict[str, Any] = dict(evidence.items())
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def load_evidence(path: str | Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Evidence:
    """The evidence in a file.

    Raises:
        TraceFileError: no such file, broken, foreign, or over the limit once unpacked.
    """
    return evidence_from(read_bounded(Path(path), limit_bytes), str(path), limit_bytes)


def evidence_from(data: bytes, name: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Evidence:
    """The evidence in the bytes of a file; `name` is what an error calls it. Raises as above."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        if unpacked > limit_bytes:
            raise TraceFileError(
                f"expected evidence of at most {limit_bytes / 2**20:g} MiB, got "
                f"{unpacked / 2**20:.1f} MiB in {name}: it was not read"
            )
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            rows = {key: archive[key] for key in archive.files}
    except TraceFileError:
        raise
    # What numpy and zipfile raise on a broken archive is not a closed set: zlib's error, EOFError,
    # NotImplementedError for a foreign compression, OverflowError or MemoryError for a false shape.
    except Exception as error:
        raise TraceFileError(f"expected an evidence file (.npz) at {name}, got {error}") from error
    for key, value in rows.items():
        if value.dtype != np.float32 or value.ndim != 3 or not np.isfinite(value).all():
            raise TraceFileError(
                f"expected finite float32 rows [layers, m, n + m] in {name}, got "
                f"{value.dtype} {value.shape} at {key}: the file is from elsewhere"
            )
    return Evidence.from_rows(rows, limit_bytes)


def evidence_path(trace_path: str | Path) -> Path:
    """Where the evidence of a trace file lies: NAME.evidence.npz beside NAME.json."""
    path = Path(trace_path)
    return path.with_name(f"{path.stem}.evidence.npz")


def _save(value: Trace | Session | Calibration, path: Path) -> None:
    write_atomically(path, format_json(to_json(value)).encode("utf-8"))


def _load(path: Path, kinds: tuple[str, ...], limit_bytes: int) -> Trace | Session | Calibration:
    with uncollected():
        data = read_json(path, limit_bytes)
        try:
            value = from_json(data)
        except TraceFileError as error:
            raise TraceFileError(f"{path}: {error}") from None
    if not isinstance(value, tuple(KINDS[kind] for kind in kinds)):
        raise TraceFileError(
            f"expected a {' or '.join(kinds)} in {path}, got a {data['kind']}: name another file"
        )
    return value


def _traces(value: Any) -> tuple[Trace, ...]:
    if isinstance(value, Session):
        return tuple(branch.trace for branch in value.branches)
    return (value,) if isinstance(value, Trace) else ()

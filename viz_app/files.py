"""A session as a file, and a file as a session. Knows no model and no gradio.

What is saved is whole: the kept steps of every branch. A step under way is left out.
"""

import base64
import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from specguard_core import trace_io
from specguard_core.errors import TraceFileError, UsageError
from specguard_core.evidence import Evidence
from specguard_core.files import (
    MAX_FILE_BYTES,
    format_json,
    parse_json,
    read_bounded,
    uncollected,
)
from specguard_core.sessions import Branch
from specguard_core.sessions import Session as SavedSession
from specguard_core.types import Trace
from viz_app.breakpoints import checked
from viz_app.history import history_of
from viz_app.session import MAIN, Line, Problem, Session


def to_file(session: Session) -> str:
    """The session as the text of a session file.

    Raises:
        UsageError: there is no run to save.
    """
    if not session.lines:
        raise UsageError("expected a run to save, got none: step it first")
    branches = tuple(
        Branch(
            line.name, _resting(line.history[-1].trace), line.parent, line.forked_at, line.reason
        )
        for line in session.lines
    )
    saved = SavedSession(
        branches, session.current, session.breakpoints, session.notes, session.target_views
    )
    return format_json(trace_io.to_json(saved))


def packed(session: Session) -> str:
    """The text of a session file, compressed, as base64: a tab keeps little."""
    return base64.b64encode(zlib.compress(to_file(session).encode(), 6)).decode()


def unpacked(text: str) -> str:
    """The text of a file that a tab compressed: its copy of a run, or what was dropped on it.

    Raises:
        TraceFileError: it is no such text, or no text at all.
    """
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(text), MAX_FILE_BYTES + 1)
        return data.decode()
    except UnicodeDecodeError as error:
        raise TraceFileError(f"expected a JSON file, got bytes that are none ({error})") from None
    except (ValueError, zlib.error) as error:
        raise TraceFileError(f"expected a compressed file, got {error}") from None


def unpacked_rows(text: str) -> Evidence:
    """The evidence in a file that came as base64.

    Raises:
        TraceFileError: it is no such file, or too large once unpacked.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise TraceFileError(f"expected an evidence file, got {error}: choose another") from None
    return trace_io.evidence_from(data, "what was loaded")


def from_file(text: str) -> Session:
    """The session in the text of a session or trace file.

    Raises:
        TraceFileError: it is neither, broken, of another version, or too large.
    """
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > MAX_FILE_BYTES:
        raise TraceFileError(
            f"expected a file of at most {MAX_FILE_BYTES // 2**20} MiB, got "
            f"{len(data) / 2**20:.0f} MiB: it was not read"
        )
    with uncollected():
        try:
            found: Any = parse_json(data)
        except ValueError as error:
            raise TraceFileError(f"expected a JSON file, got one that is none ({error})") from None
        saved = trace_io.from_json(found)
    if isinstance(saved, Trace):
        saved = SavedSession((Branch(MAIN, saved),), MAIN)
    if not isinstance(saved, SavedSession):
        raise TraceFileError("expected a trace or a session, got a calibration: choose another")
    lines = tuple(
        Line(b.name, history_of(b.trace), b.parent, b.forked_at, b.reason) for b in saved.branches
    )
    shown = next(branch.trace for branch in saved.branches if branch.name == saved.current)
    problem = Problem(shown.problem, shown.gold, shown.problem_id)
    points = tuple(checked(b.kind, b.value, enabled=b.enabled) for b in saved.breakpoints)
    return Session(
        problem,
        shown.config,
        lines,
        saved.current,
        breakpoints=points,
        notes=saved.notes,
        target_views=saved.target_views,
    )


def open_file(path: Path) -> tuple[Session, Evidence]:
    """The session in a session or trace file, and the evidence beside it, empty where none lies.

    Raises as from_file, and where one of the two cannot be read.
    """
    try:
        session = from_file(read_bounded(path).decode())
    except UnicodeDecodeError as error:
        raise TraceFileError(f"expected a JSON file at {path}, got bytes ({error})") from None
    rows = trace_io.evidence_path(path)
    return session, trace_io.load_evidence(rows) if rows.is_file() else Evidence()


def file_name(session: Session) -> str:
    """A name that a file system takes, from the problem's id."""
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in session.problem.problem_id or "")
    return f"specguard-{kept or 'session'}.json"


def _resting(trace: Trace) -> Trace:
    return replace(trace, status="stopped") if trace.status == "running" else trace


def raw_json(trace: Trace) -> str:
    """The trace as indented JSON."""
    return json.dumps(trace_io.to_json(trace), indent=1, ensure_ascii=False)

"""A session as a file, and a file as a session. Pure but for JSON; knows no path and no gradio.

What is saved is whole: the kept steps of every branch. A step under way is left out.
"""

import json
from dataclasses import replace
from typing import Any

from specguard_core import trace_io
from specguard_core.errors import TraceFileError, UsageError
from specguard_core.files import MAX_FILE_BYTES, format_json, parse_json
from specguard_core.types import Branch, Trace
from specguard_core.types import Session as SavedSession
from viz_app.breakpoints import checked
from viz_app.session import MAIN, Line, Problem, Session, history_of


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
    saved = SavedSession(branches, session.current, session.breakpoints)
    return format_json(trace_io.to_json(saved))


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
    if any(branch.trace.blocks for branch in saved.branches):
        raise TraceFileError(
            "expected a run of steps, got one of token blocks: the page shows step strategies only"
        )
    shown = next(branch.trace for branch in saved.branches if branch.name == saved.current)
    problem = Problem(shown.problem, shown.gold, shown.problem_id)
    points = tuple(checked(b.kind, b.value, enabled=b.enabled) for b in saved.breakpoints)
    return Session(problem, shown.config, lines, saved.current, breakpoints=points)


def file_name(session: Session) -> str:
    """A name that a file system takes, from the problem's id."""
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in session.problem.problem_id or "")
    return f"specguard-{kept or 'session'}.json"


def _resting(trace: Trace) -> Trace:
    return replace(trace, status="stopped") if trace.status == "running" else trace


def raw_json(trace: Trace) -> str:
    """The trace as indented JSON."""
    return json.dumps(trace_io.to_json(trace), indent=1, ensure_ascii=False)

"""The notes on steps: the one under the cursor to write, and all of them to read."""

from typing import Any

from specguard_core.sessions import MAX_NOTE_CHARACTERS
from viz_app.notes import note_on
from viz_app.session import Line, Look, Session, place
from viz_app.views.tokens import step_text

_MOST_TEXT = 60


def notes_view(session: Session, look: Look) -> dict[str, Any]:
    """The note on the step that is looked at, and every note by branch and step."""
    trace = session.trace
    if trace is None or not session.lines:
        return {"empty": "Notes on steps will stand here, and are saved with the session."}
    cursor = place(session, look)
    index = session.pace.stop_at(cursor)[0] if cursor else None
    kept = index is not None and index < len(trace.units)
    order = {line.name: place for place, line in enumerate(session.lines)}
    lines = {line.name: line for line in session.lines}
    notes = sorted(session.notes, key=lambda note: (order[note.branch], note.step_index))
    return {
        "unit": session.pace.unit,
        "branch": session.current,
        "step": index,
        "can": kept,
        "text": note_on(session, index) if kept and index is not None else "",
        "most": MAX_NOTE_CHARACTERS,
        "rows": [
            {
                "branch": note.branch,
                "step": note.step_index,
                "text": note.text,
                "about": _about(lines[note.branch], note.step_index),
                "on": (note.branch, note.step_index) == (session.current, index),
            }
            for note in notes
        ],
    }


def _about(line: Line, step_index: int) -> str:
    """The noted step's own text; "" where it is no step."""
    trace = line.history[-1].trace
    if step_index >= len(trace.steps):
        return ""
    return step_text(trace.steps[step_index].output, trace.pieces, _MOST_TEXT)

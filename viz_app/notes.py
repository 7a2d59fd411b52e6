"""A person's notes on steps: one at most per branch and step. Pure; knows no gradio."""

from dataclasses import replace

from specguard_core.errors import UsageError
from specguard_core.sessions import MAX_NOTE_CHARACTERS, Note
from viz_app.session import Session

MOST_NOTES = 1_000


def noted(session: Session, step_index: int, text: str) -> Session:
    """The session with this note on a kept step of the branch on the page; "" takes it away.

    Raises:
        UsageError: no such step, or a note that is too long.
    """
    n_steps = 0 if session.trace is None else len(session.trace.units)
    if not 0 <= step_index < n_steps:
        raise UsageError(
            f"expected a step that was kept, 1 to {n_steps}, got step {step_index + 1}: step to it "
            "first"
        )
    # What is half a character cannot be saved.
    words = text.encode("utf-8", "replace").decode("utf-8").strip()
    if len(words) > MAX_NOTE_CHARACTERS:
        raise UsageError(
            f"expected a note of at most {MAX_NOTE_CHARACTERS:,} characters, got {len(words):,}: "
            "shorten it"
        )
    others = [
        note
        for note in session.notes
        if (note.branch, note.step_index) != (session.current, step_index)
    ]
    if words and len(others) >= MOST_NOTES:
        raise UsageError(f"expected at most {MOST_NOTES:,} notes: delete one first")
    own = [Note(session.current, step_index, words)] if words else []
    return replace(session, notes=(*others, *own), notice=None)


def note_on(session: Session, step_index: int) -> str:
    """The note on a step of the branch on the page; "" where there is none."""
    place = (session.current, step_index)
    return next((n.text for n in session.notes if (n.branch, n.step_index) == place), "")

"""Recorded runs that open without a model, and what the page's menu says of each. Knows no gradio.

index      a JSON list beside the runs, in the order of the menu: file, title and one sentence
name       the file without its ending; `?example=NAME` opens it
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specguard_core.errors import TraceFileError
from specguard_core.evidence import Evidence
from specguard_core.files import parse_json, read_bounded
from specguard_core.trace_io import evidence_path, load_evidence


@dataclass(frozen=True, slots=True)
class Recording:
    """A trace or session file and its row of the menu."""

    path: Path
    title: str
    sentence: str

    @property
    def name(self) -> str:
        return self.path.stem

    def open(self) -> tuple[str, Evidence]:
        """The file's text, and the evidence beside it where there is some.

        Raises:
            TraceFileError: it cannot be read.
        """
        rows = evidence_path(self.path)
        evidence = load_evidence(rows) if rows.is_file() else Evidence()
        return read_bounded(self.path).decode("utf-8"), evidence


def read_index(index: Path) -> tuple[Recording, ...]:
    """The runs that an index names and that are there; none where there is no index.

    Raises:
        TraceFileError: it is no index.
    """
    if not index.is_file():
        return ()
    data = read_bounded(index)
    try:
        found = [
            Recording(index.parent / Path(row["file"]).name, row["title"], row["sentence"])
            for row in parse_json(data)
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise TraceFileError(
            f"expected rows of file, title and sentence in {index}, got something else ({error}): "
            "correct it"
        ) from None
    return tuple(recording for recording in found if recording.path.is_file())


def recording_named(recordings: Sequence[Recording], name: str) -> Recording | None:
    """The one of that name, the first where no name is given; None where there is none."""
    named = (recording for recording in recordings if name in ("", recording.name))
    return next(named, None)

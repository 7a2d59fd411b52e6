"""What leaves the page as a file: a session, its evidence, a report, token signals. Pure.

Text leaves as text, and bytes as base64: both travel to the browser in JSON.
"""

import base64
from collections.abc import Callable
from typing import Any

from specguard_core.errors import UsageError
from specguard_core.evidence import Evidence
from specguard_core.token_table import TableFormat, token_table
from specguard_core.trace_io import evidence_bytes
from viz_app.files import file_name, raw_json, to_file
from viz_app.session import Session

REPORT, CSV, PARQUET, TRACE = "report", "csv", "parquet", "trace"
EVIDENCE = "evidence"


def exported(
    session: Session, what: str, report: Callable[[], str], evidence: Evidence | None = None
) -> dict[str, Any]:
    """A file for the browser to keep: its name, its kind, and its text or bytes.

    Raises:
        UsageError: there is no run, no evidence of it, or no such export.
    """
    stem = file_name(session).removesuffix(".json")
    if what == REPORT:
        return {"name": f"{stem}.html", "type": "text/html", "text": report()}
    if what == CSV:
        return _bytes(f"{stem}-tokens.csv", "text/csv", _table(session, "csv"))
    if what == PARQUET:
        kind = "application/vnd.apache.parquet"
        return _bytes(f"{stem}-tokens.parquet", kind, _table(session, "parquet"))
    if what == TRACE and session.trace is not None:
        return {"copy": True, "text": raw_json(session.trace)}
    if what == EVIDENCE:
        if evidence is None or not evidence.size_bytes:
            raise UsageError("expected attention rows to save, got none: they were not recorded")
        return _bytes(f"{stem}.evidence.npz", "application/zip", evidence_bytes(evidence))
    if what:
        menu = ", ".join((REPORT, CSV, PARQUET, EVIDENCE))
        raise UsageError(f"expected one of {menu} to export, got {what!r}")
    return {"name": f"{stem}.json", "type": "application/json", "text": to_file(session)}


def _table(session: Session, table_format: TableFormat) -> bytes:
    if session.trace is None:
        raise UsageError("expected a run to export, got none: step it first")
    return token_table(session.trace, table_format)


def _bytes(name: str, kind: str, data: bytes) -> dict[str, Any]:
    return {"name": name, "type": kind, "base64": base64.b64encode(data).decode()}

"""Token signals as a table: every token once, what was not measured stays empty, never 0."""

import base64
import csv
import io
import json

import numpy as np
import pytest
from any_traces import traces
from hypothesis import given, settings
from sample_traces import coin_trace

from specguard_core.cli import main
from specguard_core.errors import TraceFileError, UsageError
from specguard_core.evidence import Evidence
from specguard_core.token_table import COLUMNS, rows, token_table
from specguard_core.trace_io import save_trace
from viz_app.exports import exported
from viz_app.files import unpacked_rows
from viz_app.session import Session, opened

parquet = pytest.importorskip("pyarrow.parquet")


def read_csv(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def read_parquet(data: bytes) -> list[dict]:
    return parquet.read_table(io.BytesIO(data)).to_pylist()


def test_every_token_of_every_candidate_is_a_row():
    trace = coin_trace()
    texts = [text for step in trace.steps for text in (*step.candidates, step.written) if text]
    assert len(read_csv(token_table(trace, "csv"))) == sum(len(text.tokens) for text in texts)
    kept = [row for row in read_csv(token_table(trace, "csv")) if row["kept"] == "true"]
    assert [int(row["token_id"]) for row in kept] == [
        token for step in trace.steps for token in step.token_ids
    ]


@settings(max_examples=15)
@given(traces())
def test_csv_and_parquet_say_the_same(trace):
    if trace.blocks:
        with pytest.raises(UsageError, match="a run of steps"):
            token_table(trace, "csv")
        return
    plain, typed = read_csv(token_table(trace, "csv")), read_parquet(token_table(trace, "parquet"))
    assert len(plain) == len(typed) == len(list(rows(trace)))
    for one, other in zip(plain, typed, strict=True):
        for column in COLUMNS:
            value = other[column.name]
            if value is None:
                assert one[column.name] == ""
            elif column.kind is bool:
                assert one[column.name] == str(value).lower()
            else:
                assert column.kind(one[column.name]) == value


def test_what_was_not_measured_is_empty_and_null():
    trace = coin_trace()
    missing = [i for i, row in enumerate(rows(trace)) if row.token.target_logprob is None]
    assert missing
    plain, typed = read_csv(token_table(trace, "csv")), read_parquet(token_table(trace, "parquet"))
    for index in missing:
        assert plain[index]["target_logprob"] == ""
        assert typed[index]["target_logprob"] is None


def test_units_travel_with_the_columns():
    schema = parquet.read_schema(io.BytesIO(token_table(coin_trace(), "parquet")))
    assert schema.field("logprob").metadata[b"unit"] == b"nat"
    assert schema.names == [column.name for column in COLUMNS]


def test_no_field_can_be_taken_for_a_formula():
    for row in read_csv(token_table(coin_trace(), "csv")):
        assert row["text"][0] == '"'
        assert bytes.fromhex(row["bytes"]).decode("utf-8", "replace") == json.loads(row["text"])


@pytest.mark.parametrize("name", ["tokens.csv", "tokens.parquet"])
def test_the_command_line_writes_what_the_page_saves(name, tmp_path):
    save_trace(coin_trace(), tmp_path / "trace.json")
    out = tmp_path / name
    assert main(["export", str(tmp_path / "trace.json"), "--out", str(out)]) == 0
    page = exported(opened(Session(), coin_trace()), out.suffix[1:], report=str)
    assert out.read_bytes() == base64.b64decode(page["base64"])


def test_another_kind_of_table_is_answered_with_those_there_are(tmp_path, capsys):
    save_trace(coin_trace(), tmp_path / "trace.json")
    assert main(["export", str(tmp_path / "trace.json"), "--out", str(tmp_path / "a.xls")]) == 2
    assert "NAME.csv or NAME.parquet" in capsys.readouterr().err


def test_only_what_is_there_can_be_exported():
    session = opened(Session(), coin_trace())
    assert exported(session, "", str)["name"].endswith(".json")
    assert exported(session, "report", lambda: "<html>")["text"] == "<html>"
    with pytest.raises(UsageError, match="one of report, csv, parquet, evidence"):
        exported(session, "pdf", str)
    with pytest.raises(UsageError, match="step it first"):
        exported(Session(), "csv", str)


def test_evidence_leaves_on_request_and_comes_back_equal():
    rows = {"key": np.ones((2, 3, 5), np.float32)}
    evidence = Evidence.from_rows(rows)
    session = opened(Session(), coin_trace())
    again = unpacked_rows(exported(session, "evidence", str, evidence)["base64"])
    assert [(key, value.tolist()) for key, value in again.items()] == [
        (key, value.tolist()) for key, value in rows.items()
    ]
    with pytest.raises(UsageError, match="not recorded"):
        exported(session, "evidence", str, Evidence())


@pytest.mark.parametrize("text", ["", "%%%", base64.b64encode(b"PK no archive").decode()])
def test_what_is_no_evidence_is_one_sentence(text):
    with pytest.raises(TraceFileError, match="expected an evidence file"):
        unpacked_rows(text)

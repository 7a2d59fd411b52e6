"""Token signals of a trace as a table: one row per token of each candidate. Knows no model.

column     a name, its unit and what it means; COLUMNS is the whole table's documentation
None       not measured: an empty field in CSV, null in Parquet, never 0
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from specguard_core.errors import UsageError
from specguard_core.readings import boundary_index
from specguard_core.text import join_pieces
from specguard_core.types import Candidate, Step, TokenSignal, Trace

TableFormat = Literal["csv", "parquet"]
Value = int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class Row:
    """One token, and where it stands. chain, candidate: None where there is none."""

    chain: int | None
    step: Step
    candidate: int | None
    text: Candidate
    index: int
    pieces: Mapping[int, bytes]

    @property
    def token(self) -> TokenSignal:
        return self.text.tokens[self.index]


@dataclass(frozen=True, slots=True)
class Column:
    """unit: "" for a count, an index or a text."""

    name: str
    kind: type
    unit: str
    sentence: str
    of: Callable[[Row], Value]


def _writer(row: Row) -> Value:
    drafted = row.candidate is not None or row.index < row.step.outcome.n_kept
    return "draft" if drafted else row.step.outcome.source


def _text(row: Row) -> Value:
    # Quoted, so that white space is seen and no spreadsheet takes it for a formula.
    return json.dumps(join_pieces([row.token.token_id], row.pieces), ensure_ascii=False)


def _ends(row: Row) -> Value:
    return boundary_index(row.text) == row.index


COLUMNS: tuple[Column, ...] = (
    Column("chain", int, "", "which of several voting chains, from 1", lambda r: r.chain),
    Column("step", int, "", "number of the step, from 1", lambda r: r.step.index + 1),
    Column("attempt", int, "", "which draw of the step, from 1", lambda r: r.step.attempt + 1),
    Column(
        "candidate", int, "", "its number in the step, from 1; none: written", lambda r: r.candidate
    ),
    Column("writer", str, "", "draft, target, or edited by a person", _writer),
    Column("draws", int, "", "how many draws gave this candidate", lambda r: len(r.text.draws)),
    Column("kept", bool, "", "whether the run went on from it", lambda r: r.text is r.step.output),
    Column("position", int, "", "number of the token in its step, from 1", lambda r: r.index + 1),
    Column("token_id", int, "", "id in the tokenizer", lambda r: r.token.token_id),
    Column("text", str, "", "the token as a JSON string", _text),
    Column("bytes", str, "", "its bytes in hex", lambda r: r.pieces[r.token.token_id].hex()),
    Column("boundary", bool, "", "whether it ends the step: it counts in no minimum", _ends),
    Column("logprob", float, "nat", "of the writer, raw softmax; <= 0", lambda r: r.token.logprob),
    Column(
        "sampling_logprob",
        float,
        "nat",
        "in the distribution it was drawn from; <= 0",
        lambda r: r.token.sampling_logprob,
    ),
    Column("entropy", float, "nat", "of the raw softmax; >= 0", lambda r: r.token.entropy),
    Column(
        "grounding",
        float,
        "share",
        "rollout mass on the context, 0 to 1",
        lambda r: r.token.grounding,
    ),
    Column(
        "target_logprob", float, "nat", "as the target reads it", lambda r: r.token.target_logprob
    ),
    Column(
        "target_grounding",
        float,
        "share",
        "the target's rollout mass on the context, 0 to 1",
        lambda r: r.token.target_grounding,
    ),
)


def rows(trace: Trace) -> Iterator[Row]:
    """The trace's tokens: by chain, step, candidate and position; a written step comes last.

    Raises:
        UsageError: a run of blocks, which has no candidates.
    """
    if trace.blocks:
        raise UsageError("expected a run of steps, got one of token blocks: it has no candidates")
    runs: list[tuple[int | None, tuple[Step, ...]]] = [
        (number, chain.units) for number, chain in enumerate(trace.chains, start=1)
    ]
    for number, steps in runs or [(None, trace.steps)]:
        for step in steps:
            texts: list[tuple[int | None, Candidate]] = list(enumerate(step.candidates, start=1))
            if step.written is not None:
                texts.append((None, step.written))
            for candidate, text in texts:
                for index in range(len(text.tokens)):
                    yield Row(number, step, candidate, text, index, trace.pieces)


def token_table(trace: Trace, table_format: TableFormat) -> bytes:
    """The table as a file. Raises as rows, and:

    Raises:
        UsageError: Parquet, and pyarrow is not installed.
    """
    return _csv(trace) if table_format == "csv" else _parquet(trace)


def _csv(trace: Trace) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.name for column in COLUMNS)
    writer.writerows([_field(column.of(row)) for column in COLUMNS] for row in rows(trace))
    return out.getvalue().encode()


def _field(value: Value) -> Value:
    return str(value).lower() if isinstance(value, bool) else value


def _parquet(trace: Trace) -> bytes:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise UsageError(
            "expected pyarrow to write Parquet, got none: pip install pyarrow, or choose CSV"
        ) from None
    types = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    schema = pa.schema(
        [
            pa.field(
                column.name,
                types[column.kind],
                metadata={"unit": column.unit, "description": column.sentence},
            )
            for column in COLUMNS
        ]
    )
    found = list(rows(trace))
    data = {column.name: [column.of(row) for row in found] for column in COLUMNS}
    out = io.BytesIO()
    parquet.write_table(pa.table(data, schema=schema), out)
    return out.getvalue()

"""Faults that real projects of this field shipped: each kind has a test here that would catch it.

row     one kind of fault, by number; a test that holds it at bay carries `@pytest.mark.case(row)`
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROWS = {
    1: "attention silently missing: a score from no data",
    2: "an attention mask that lets future tokens leak, or capture that changes logits",
    3: "left-padded rows that share one position vector",
    4: "fully masked rows that give NaN in half precision",
    5: "a bonus token missing from the draft's cache",
    6: "rounds without drafting that leave the draft's cache stale",
    7: "sliding-window layers that cannot be rolled back",
    8: "a cache whose trim does nothing",
    9: "padded vocabularies of one tokenizer",
    10: "two beginning-of-sequence tokens after chat template and tokenizing",
    11: "a base model with no chat template",
    12: "a list of end-of-sequence ids that is ignored",
    13: "infinity or NaN in saved JSON",
    14: "a draft that takes the argmax while acceptance uses its softmax",
    15: "an embedding model that truncates long steps silently",
    16: "a tokenizer of equal size but other content",
    17: "temperature or top_p near 0 on half-precision logits",
    18: "one candidate's stop ends the batch; a merged or split delimiter is missed",
    19: "running past the context limit",
    20: "attention of a long prompt at the square of its length",
    21: "a lone problem cut after a few steps",
    22: "a stop that hides the output while the model keeps running",
    23: "two visitors who see each other's state",
    24: "token text that runs as code in the page",
    25: "byte-level tokens shown as garbage",
}


def marked(module: ast.Module) -> Iterator[tuple[str, int]]:
    """(test, row) for every mark on a test of a module."""
    for node in module.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            match decorator:
                case ast.Call(func=func, args=rows) if ast.unparse(func) == "pytest.mark.case":
                    yield from ((node.name, ast.literal_eval(row)) for row in rows)


FOUND = [
    (name, row)
    for path in sorted(TESTS.rglob("test_*.py"))
    for name, row in marked(ast.parse(path.read_text("utf-8")))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row} {ROWS[row]}")
def test_every_kind_of_fault_has_a_test_that_would_catch_it(row):
    assert any(row == other for _, other in FOUND)


def test_marks_are_on_tests_and_name_rows_that_exist():
    assert [(name, row) for name, row in FOUND if row not in ROWS] == []
    assert all(name.startswith("test_") for name, _ in FOUND)

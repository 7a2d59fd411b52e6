"""The trace as a tree of its file's names and values, unfolded where a person asked. Pure.

node       a value with others inside it; its path is the names that lead to it, joined by "/"
group      a stretch of a long list, named by its first and last place: "50-99"
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from specguard_core.types import Trace

MOST_ROWS = 400
"""Rows that are sent at once; what lies beyond is counted."""
MOST_OPENED = 100
LONG = 50
"""A list longer than this is shown in groups of so many."""
_MOST_TEXT = 120


def raw_view(trace: Trace | None, opened: frozenset[str]) -> dict[str, Any]:
    """The rows in sight: [depth, path, name, value, state]; a state is open, shut or leaf."""
    if trace is None:
        return {"empty": "The run\u2019s trace will stand here, name by name, as its file has it."}
    rows: list[list[Any]] = []
    left_out = 0
    for row in _rows(trace, "", 0, opened):
        if len(rows) < MOST_ROWS:
            rows.append(row)
        else:
            left_out += 1
    return {"rows": rows, "left_out": left_out}


def toggled(opened: frozenset[str], path: str) -> frozenset[str]:
    """The open nodes with one folded or unfolded; nodes inside a folded one are folded, too."""
    if path in opened:
        return frozenset(
            other for other in opened if other != path and not other.startswith(path + "/")
        )
    return opened | {path} if len(opened) < MOST_OPENED else opened


def _rows(value: object, path: str, depth: int, opened: frozenset[str]) -> Iterator[list[Any]]:
    for name, child in _children(value):
        place = f"{path}/{name}"
        inside = _is_node(child)
        state = ("open" if place in opened else "shut") if inside else "leaf"
        yield [depth, place, name, _text(child), state]
        if state == "open":
            yield from _rows(child, place, depth + 1, opened)


def _is_node(value: object) -> bool:
    if isinstance(value, _Group):
        return True
    if isinstance(value, Mapping | tuple | list):
        return bool(value)
    return is_dataclass(value)


class _Group(list[tuple[str, object]]):
    """Entries of a long list or object that are unfolded together."""


def _children(value: object) -> list[tuple[str, object]]:
    if isinstance(value, _Group):
        return list(value)
    if isinstance(value, Mapping):
        entries = [(str(key), child) for key, child in value.items()]
    elif isinstance(value, tuple | list):
        entries = [(str(index), child) for index, child in enumerate(value)]
    elif is_dataclass(value):
        # A field at its default of None or () is left out of the file as well.
        found = [(field.name, getattr(value, field.name)) for field in fields(value)]
        return [(name, child) for name, child in found if child is not None and child != ()]
    else:
        return []
    if len(entries) <= LONG:
        return entries
    starts = range(0, len(entries), LONG)
    groups = [_Group(entries[start : start + LONG]) for start in starts]
    return [
        (f"{start}-{start + len(group) - 1}", group)
        for start, group in zip(starts, groups, strict=True)
    ]


def _text(value: object) -> str:
    """A leaf as its file has it; of a node, how much it holds."""
    if isinstance(value, _Group):
        return f"{len(value)} of them"
    if isinstance(value, Mapping):
        return f"{{ {len(value)} }}"
    if isinstance(value, tuple | list):
        return f"[ {len(value)} ]"
    if is_dataclass(value):
        return f"{{ {len(_children(value))} }}"
    if isinstance(value, bytes):
        return f"{len(value)} bytes: {value[:16].hex(' ')}{' …' if len(value) > 16 else ''}"
    if isinstance(value, str):
        cut = value if len(value) <= _MOST_TEXT else value[: _MOST_TEXT - 1] + "…"
        return f'"{cut}"'.replace("\n", "↵")
    return json.dumps(value)

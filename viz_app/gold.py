"""Right steps of known problems, to tell a draft's right steps from its wrong ones.

A problem file's lines may carry `steps`; a problem is known by its whole question. Reads one file;
knows no session and no gradio.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from specguard_core.errors import SpecGuardError
from specguard_core.files import parse_json, read_bounded

Gold = Mapping[str, tuple[str, ...]]
"""Question -> its right steps, in order."""
NO_GOLD: Gold = MappingProxyType({})


@lru_cache(maxsize=4)
def gold_steps(path: Path) -> Gold:
    """The right steps in a problem file; a line without any, or no file at all, is passed over."""
    try:
        lines = read_bounded(path).decode("utf-8-sig").split("\n")
    except (SpecGuardError, OSError, UnicodeDecodeError):
        return NO_GOLD
    found: dict[str, tuple[str, ...]] = {}
    for line in filter(str.strip, lines):
        try:
            data = parse_json(line.encode("utf-8"))
        except ValueError:
            continue
        if not isinstance(data, dict):
            continue
        question, steps = data.get("question"), data.get("steps")
        if isinstance(question, str) and isinstance(steps, list) and steps:
            found[question.strip()] = tuple(str(step) for step in steps)
    return MappingProxyType(found)

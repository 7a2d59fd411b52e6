"""A run's text cut into reasoning steps, whatever its units are, so that two runs can be aligned.

passage    one reasoning step of a run's kept text; of a run of blocks, the text up to a delimiter
"""

from dataclasses import dataclass

from specguard_core.text import join_pieces
from specguard_core.types import Step, Trace


@dataclass(frozen=True, slots=True)
class Passage:
    """The text of one step, and the unit it begins in; step is None where units are blocks."""

    text: str
    unit_index: int
    step: Step | None = None


def passages(trace: Trace) -> tuple[Passage, ...]:
    """The kept text, step by step, white space at the ends left out."""
    if trace.blocks:
        return _of_blocks(trace)
    return tuple(
        Passage(_text(step.token_ids, trace, step), step.index, step) for step in trace.steps
    )


def _text(ids: tuple[int, ...], trace: Trace, step: Step) -> str:
    return join_pieces(ids[:-1] if step.ended_by_eos else ids, trace.pieces).strip()


def _of_blocks(trace: Trace) -> tuple[Passage, ...]:
    """A delimiter before any other text ends nothing, as in a run of steps."""
    ends: list[int] = []
    ids: tuple[int, ...] = ()
    for block in trace.blocks:
        ids += block.token_ids
        ends.append(len(join_pieces(ids, trace.pieces)))
    text, delimiter = trace.text, trace.config.delimiter
    found: list[Passage] = []
    begin = 0
    while begin < len(text):
        first = next((i for i in range(begin, len(text)) if not text[i].isspace()), len(text))
        cut = text.find(delimiter, first)
        stop = len(text) if cut < 0 else cut + len(delimiter)
        if words := text[begin:stop].strip():
            index = next((i for i, end in enumerate(ends) if end > first), len(ends) - 1)
            found.append(Passage(words, index))
        begin = stop
    return tuple(found)

"""What a loaded trace must fulfil beyond its types, so that nothing downstream meets a gap.

Knows no file. Parts that do not fit together raise MismatchError, with the place.
"""

from collections.abc import Iterator

from specguard_core.trace_json import MismatchError
from specguard_core.types import Candidate, Step, Trace


def check_trace(trace: Trace) -> None:
    """Every id has its piece, and every table the size of what it is about.

    Raises:
        MismatchError: says what is missing and where.
    """
    missing = next((i for i in _token_ids(trace) if i not in trace.pieces), None)
    if missing is not None:
        raise MismatchError(f"the token id {missing} without its bytes").inside("pieces")
    for step in (*trace.steps, *trace.all_steps):
        n_segments = len(trace.prompt_segments) + step.index
        try:
            _check_step(step, n_segments)
        except MismatchError as mismatch:
            raise mismatch.inside(step.index).inside("units") from None


def _token_ids(trace: Trace) -> Iterator[int]:
    for segment in trace.prompt_segments:
        yield from segment.token_ids
    for block in trace.blocks:
        yield from block.drafted
        yield from block.token_ids
    for step in (*trace.steps, *trace.all_steps):
        for candidate in _all_candidates(step):
            for token in candidate.tokens:
                yield token.token_id
                yield from (alternative.token_id for alternative in token.alternatives)


def _all_candidates(step: Step) -> tuple[Candidate, ...]:
    return step.candidates if step.written is None else (*step.candidates, step.written)


def _check_step(step: Step, n_segments: int) -> None:
    for candidate in _all_candidates(step):
        for token in candidate.tokens:
            if token.attribution is not None and len(token.attribution) != n_segments:
                raise MismatchError(
                    f"an attribution over {len(token.attribution)} segments instead of {n_segments}"
                )
        # A boundary token that was never a query has no row.
        n_rows = 0 if candidate.heatmap is None else len(candidate.heatmap.scales)
        if n_rows > len(candidate.tokens):
            raise MismatchError(f"a heatmap of {n_rows} rows for {len(candidate.tokens)} tokens")
    selection = step.selection
    if selection is not None:
        n_candidates = len(step.candidates)
        sizes = {len(selection.clusters), len(selection.consistency)}
        for matrix in selection.similarity.values():
            sizes |= {len(matrix), *map(len, matrix)}
        if sizes != {n_candidates}:
            raise MismatchError(f"a selection of another size than its {n_candidates} candidates")
    chosen = step.chosen
    if step.verdict is not None and chosen is not None:
        for name, reading in step.verdict.readings.items():
            weakest = reading.weakest_token
            if weakest is not None and not 0 <= weakest < len(chosen.tokens):
                raise MismatchError(f"the weakest token {weakest} of {name} outside its step")

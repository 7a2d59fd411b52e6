"""Whether a run's answer is right. Pure; the comparison of answers is the engine's."""

from functools import lru_cache

from specguard_core.types import Trace


def is_right(trace: Trace | None) -> bool | None:
    """Whether the run's answer equals the gold one; None where either is missing."""
    if trace is None or trace.finish is None or trace.gold is None:
        return None
    return trace.finish.answer is not None and _same(trace.gold, trace.finish.answer)


@lru_cache(maxsize=256)
def _same(gold: str, answer: str) -> bool:
    # The comparison is slow to import: a page that is only looked at does without it.
    from specguard_core.answers import same_answer

    return same_answer(gold, answer)

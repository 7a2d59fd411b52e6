"""Figures about runs: pure functions of numbers and of traces. Knows no model and no file.

kept tokens    tokens of the steps or blocks a run went on from
accept rate    share of the judged steps that the rule accepted
fallback rate  share of all steps that the target wrote, or wrote on
judged token   a drafted token of a block that the acceptance rule spoke of
target-only    what the kept text would have cost, had the target written all of it
AUC            chance that a right one scores above a wrong one, ties counting half
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from specguard_core.types import Cost, Trace

_Z_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Interval:
    """A share in [0, 1] with the bounds of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TargetOnlyTime:
    """Milliseconds, and whether every kept token was really written by the target."""

    milliseconds: float
    basis: Literal["measured", "estimated"]


def wilson_interval(successes: int, total: int) -> Interval | None:
    """The 95 % score interval of a share (Wilson 1927); None of nothing.

    Raises:
        ValueError: successes outside [0, total].
    """
    if not 0 <= successes <= total:
        raise ValueError(f"expected successes from 0 to {total}, got {successes}")
    if total == 0:
        return None
    share, z2 = successes / total, _Z_95**2
    centre = (share + z2 / (2 * total)) / (1 + z2 / total)
    spread = share * (1 - share) / total + z2 / (4 * total**2)
    half = _Z_95 * math.sqrt(spread) / (1 + z2 / total)
    # At the ends the interval touches 0 or 1 exactly; the formula misses by a rounding error.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == total else min(1.0, centre + half)
    return Interval(share, low, high)


def mcnemar_p(gained: int, lost: int) -> float:
    """How likely two equally good ways differ at least this much, in (0, 1].

    McNemar 1947, exact: of the problems that only one of them solves, each is either's by chance.

    Args:
        gained, lost: problems that only the one solves, and only the other.
    """
    n, fewer = gained + lost, min(gained, lost)
    tail = sum(math.comb(n, k) for k in range(fewer + 1))
    return float(min(1.0, 2 * tail / 2**n))


def roc_auc(
    labels: Sequence[bool], scores: Sequence[float], strata: Sequence[int] | None = None
) -> float | None:
    """Area under the ROC curve, in [0, 1]: Mann-Whitney's U over the number of pairs.

    With strata, only pairs within one stratum are compared, pooled over all strata: what is left
    of a signal once the stratum (a step's length, say) is given.

    Returns:
        None where no right one can be compared with a wrong one.
    """
    label = np.asarray(labels, dtype=bool)
    score = np.asarray(scores, dtype=np.float64)
    stratum = np.zeros(len(label), np.int64) if strata is None else np.asarray(strata, np.int64)
    won = pairs = 0.0
    for one in np.unique(stratum):
        inside = stratum == one
        right, wrong = score[inside & label], score[inside & ~label]
        won += _pairs_won(right, wrong)
        pairs += len(right) * len(wrong)
    return won / pairs if pairs else None


def rank_correlation(values: Sequence[float], others: Sequence[float]) -> float | None:
    """Spearman's rho in [-1, 1]: Pearson's correlation of the ranks, ties sharing their mean rank.

    Returns:
        None where one side never changes.
    """
    ranks = [_ranks(np.asarray(side, dtype=np.float64)) for side in (values, others)]
    if any(len(np.unique(side)) < 2 for side in ranks):
        return None
    return float(np.asarray(np.corrcoef(ranks))[0, 1])


def accept_rate(traces: Iterable[Trace]) -> float | None:
    """Share of the judged steps that the rule accepted; None where none was judged."""
    words = [step.verdict.accepted for trace in traces for step in trace.steps if step.verdict]
    return sum(words) / len(words) if words else None


def fallback_rate(traces: Iterable[Trace]) -> float | None:
    """Share of all steps that the target wrote; None where there is no step."""
    sources = [step.outcome.source for trace in traces for step in trace.steps]
    return sources.count("target") / len(sources) if sources else None


def block_accept_rate(traces: Iterable[Trace]) -> float | None:
    """Share of the judged drafted tokens that were accepted; None where none was judged."""
    blocks = [block for trace in traces for block in trace.blocks]
    judged = sum(block.n_judged for block in blocks)
    return sum(block.n_accepted for block in blocks) / judged if judged else None


def tokens_per_block(traces: Iterable[Trace]) -> float | None:
    """Tokens kept per block, which is one target pass each; None where there is no block."""
    lengths = [len(block.token_ids) for trace in traces for block in trace.blocks]
    return sum(lengths) / len(lengths) if lengths else None


def mean_ratio(traces: Iterable[Trace]) -> float | None:
    """Mean of min(1, p / q) over the judged drafted tokens, in [0, 1]: an estimate of alpha, the
    chance that a drafted token is accepted (Leviathan et al. 2023); None where none was judged."""
    ratios = [
        decision.ratio
        for trace in traces
        for block in trace.blocks
        for decision in block.decisions[: block.n_judged]
    ]
    return math.fsum(ratios) / len(ratios) if ratios else None


def expected_lengths(alpha: float, gamma: int) -> tuple[float, ...]:
    """Chances of 0 to gamma accepted tokens in a block, were each accepted with chance alpha."""
    return (*((alpha**n) * (1 - alpha) for n in range(gamma)), alpha**gamma)


def expected_block_tokens(alpha: float, gamma: int) -> float:
    """Tokens kept per block, the target's own included: (1 - alpha^(gamma + 1)) / (1 - alpha),
    gamma + 1 at alpha = 1 (Leviathan et al. 2023, arXiv:2211.17192)."""
    return gamma + 1.0 if alpha == 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)


def kept_tokens(trace: Trace) -> int:
    """Tokens of the kept steps or blocks."""
    return sum(len(unit.token_ids) for unit in trace.units)


def total_cost(traces: Iterable[Trace]) -> Cost:
    """Tokens and milliseconds by role, summed."""
    total = Cost()
    for trace in traces:
        total += trace.cost
    return total


def target_only_time(trace: Trace) -> TargetOnlyTime | None:
    """How long the target alone would have taken for the kept text.

    Measured where it wrote all of it; estimated, from its own milliseconds per token, where it
    wrote some; None where it wrote nothing or the time was not taken.
    """
    written, milliseconds = 0, 0.0
    for step in trace.steps:
        spent = step.cost.roles.get("target_written")
        if step.outcome.source == "target" and spent is not None:
            written += len(step.output.tokens) - step.outcome.n_kept
            milliseconds += spent.milliseconds
    if written == 0 or milliseconds <= 0:
        return None
    kept = kept_tokens(trace)
    if written == kept:
        return TargetOnlyTime(milliseconds, "measured")
    return TargetOnlyTime(milliseconds * kept / written, "estimated")


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    mean_rank: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return mean_rank[place]


def _pairs_won(right: NDArray[np.float64], wrong: NDArray[np.float64]) -> float:
    """Pairs in which the right one scores higher; ties count half."""
    ordered = np.sort(wrong)
    below = np.searchsorted(ordered, right, side="left")
    not_above = np.searchsorted(ordered, right, side="right")
    return float((below + not_above).sum()) / 2

"""What the signals are worth: how well each tells right steps from wrong ones. Pure; knows no file.

sample      the judged draft step of one step of a run, and whether it is right
label       how "right" is told: by the step's equations, by the run's answer, or by whether the
            target's own step has the same equations
variant     a way to compute the readings from the same record: tokens counted, rollout switches
false accept  a wrong step that scores at least the threshold; as a share of the wrong steps
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from specguard_core.config import DecodeConfig
from specguard_core.equations import find_equations
from specguard_core.errors import ConfigError, NotMeasured
from specguard_core.evidence import Evidence, context_before
from specguard_core.metrics import Interval, roc_auc, wilson_interval
from specguard_core.regate import Regate, regate
from specguard_core.text import join_pieces
from specguard_core.types import Step, Trace

Label = Literal["equation", "answer", "target"]
N_BINS = 10
N_RESAMPLES = 1000
LENGTH_BIN_TOKENS = 4
"""Steps are of equal length, and contexts of equal length, within so many tokens."""
CONTEXT_BIN_TOKENS = 32
SCORE = "score"


@dataclass(frozen=True, slots=True)
class Sample:
    """n_tokens of the step, n_context before it; values by signal, the score included."""

    problem_id: str
    right: bool
    n_tokens: int
    n_context: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Worth:
    """What one signal is worth over the samples that have it. AUCs in [0, 1], 0.5 is chance.

    auc              95 % interval by resampling problems
    auc_at_length    among steps of equal length only; None where none can be compared
    auc_at_context   after contexts of equal length only
    with_length, with_context   Spearman's rank correlation, in [-1, 1]; None where one is constant
    """

    signal: str
    n_right: int
    n_wrong: int
    auc: Interval | None
    auc_at_length: float | None
    auc_at_context: float | None
    with_length: float | None
    with_context: float | None


@dataclass(frozen=True, slots=True)
class Bin:
    """Samples of neighbouring scores: their mean, and the share that is right."""

    score: float
    count: int
    right: Interval


@dataclass(frozen=True, slots=True)
class Operating:
    """A threshold on the score and what it does, as shares; None where there is nothing to share.

    false_accept   of the wrong steps, those accepted
    false_refuse   of the right steps, those refused
    """

    threshold: float
    accepted: float
    false_accept: float | None
    false_refuse: float | None


@dataclass(frozen=True, slots=True)
class Study:
    """worths: the score first. operating: by wanted false-accept rate; None: no threshold does."""

    label: Label
    n_problems: int
    n_steps: int
    n_unlabelled: int
    worths: tuple[Worth, ...]
    reliability: tuple[Bin, ...]
    operating: Mapping[float, Operating | None]
    now: Operating


def variants(config: DecodeConfig) -> dict[str, DecodeConfig]:
    """Names and configs of the ways to compute the readings; the config's own is ""."""
    ways: dict[str, dict[str, Any]] = {
        f"over {name} tokens": {"signal_tokens": name}
        for name in ("all", "numeric", "equation", "setup")
        if name != config.signal_tokens
    }
    ways["no residual"] = {"residual": False}
    ways["no residual, not sparsified"] = {"residual": False, "sparsify": 0.0}
    ways["not renormalised"] = {"renormalise": False}
    ways["not sparsified"] = {"sparsify": 0.0}
    ways["first token left out"] = {"sink_tokens": 1}
    ways["last layer only"] = {"rollout_layers": 1}
    named = {name: replace(config, **changes) for name, changes in ways.items()}
    return {"": config} | {name: way for name, way in named.items() if way != config}


def is_right(text: str) -> bool | None:
    """Whether a step's equations hold; None where it has none."""
    found = find_equations(text)
    return all(equation.holds for equation in found) if found else None


def samples_of(
    trace: Trace,
    label: Callable[[Step, str], bool | None],
    evidence: Evidence | None = None,
) -> tuple[list[Sample], int]:
    """The judged steps of a trace that can be labelled, and how many cannot.

    label   of a step and the text that was judged; None where it cannot be told
    """
    judged = _judgements(trace, evidence)
    found: list[Sample] = []
    unlabelled = 0
    for step in trace.steps:
        if step.verdict is None or step.chosen is None:
            continue
        right = label(step, join_pieces(step.chosen.token_ids, trace.pieces))
        if right is None:
            unlabelled += 1
            continue
        values = {SCORE: step.verdict.score} | judged[step.index]
        n_context = len(context_before(trace, step.index))
        found.append(Sample(trace.problem_id, right, len(step.chosen.tokens), n_context, values))
    return found, unlabelled


def study(
    samples: Sequence[Sample],
    *,
    label: Label,
    threshold: float,
    wanted: Iterable[float] = (0.01, 0.05, 0.1, 0.2),
    n_unlabelled: int = 0,
) -> Study:
    """What every signal of the samples is worth.

    Raises:
        NotMeasured: no sample at all.
    """
    if not samples:
        raise NotMeasured(
            "expected judged steps that can be called right or wrong, got none: "
            "use another --label, or problems whose steps hold equations"
        )
    names = sorted({name for sample in samples for name in sample.values} - {SCORE})
    names = [name for name in names if not _is_repeated(name, samples)]
    labels = np.array([sample.right for sample in samples])
    scores = np.array([sample.values[SCORE] for sample in samples])
    return Study(
        label=label,
        n_problems=len({sample.problem_id for sample in samples}),
        n_steps=len(samples),
        n_unlabelled=n_unlabelled,
        worths=tuple(_worth(name, samples) for name in (SCORE, *names)),
        reliability=_reliability(labels, scores),
        operating={rate: _least_threshold(labels, scores, rate) for rate in wanted},
        now=_operating(labels, scores, threshold),
    )


def _rejudged(trace: Trace, config: DecodeConfig, evidence: Evidence | None) -> Regate | None:
    """The trace judged by the config; where that cannot be, by the readings whose rows are kept.

    Evidence holds the draft's rows, so no rollout variant of `target_grounding` can be had.
    """
    kept = tuple((name, weight) for name, weight in config.weights if name != "target_grounding")
    for weights in (config.weights, kept):
        try:
            return regate(trace, replace(config, weights=weights), evidence)
        except (NotMeasured, ConfigError):  # ConfigError: no weight is left
            continue
    return None


def _judgements(trace: Trace, evidence: Evidence | None) -> dict[int, dict[str, float]]:
    """Per step, raw readings by "signal" or "signal, variant"; what is not recorded is left out."""
    found: dict[int, dict[str, float]] = {step.index: {} for step in trace.steps}
    for name, config in variants(trace.config).items():
        judged = _rejudged(trace, config, evidence)
        if judged is None:
            continue
        for index, verdict in enumerate(judged.verdicts):
            if verdict is None:
                continue
            for signal, reading in verdict.readings.items():
                found[index][f"{signal}, {name}" if name else signal] = reading.raw
    return found


def _is_repeated(name: str, samples: Sequence[Sample]) -> bool:
    """Whether a variant changes nothing: confidence knows no rollout."""
    signal = name.partition(", ")[0]
    pairs = [(s.values.get(name), s.values.get(signal)) for s in samples]
    return name != signal and all(one is None or one == other for one, other in pairs)


def _worth(name: str, samples: Sequence[Sample]) -> Worth:
    having = [sample for sample in samples if name in sample.values]
    labels = [sample.right for sample in having]
    values = [sample.values[name] for sample in having]
    lengths = [sample.n_tokens for sample in having]
    contexts = [sample.n_context for sample in having]
    return Worth(
        signal=name,
        n_right=sum(labels),
        n_wrong=len(labels) - sum(labels),
        auc=_auc_interval([sample.problem_id for sample in having], labels, values),
        auc_at_length=roc_auc(labels, values, [n // LENGTH_BIN_TOKENS for n in lengths]),
        auc_at_context=roc_auc(labels, values, [n // CONTEXT_BIN_TOKENS for n in contexts]),
        with_length=_spearman(values, lengths),
        with_context=_spearman(values, contexts),
    )


def _auc_interval(
    problems: Sequence[str], labels: Sequence[bool], values: Sequence[float]
) -> Interval | None:
    """The AUC with its 95 % interval: problems, not steps, are drawn anew, since the steps of one
    problem share its difficulty (cluster bootstrap, Field & Welsh 2007)."""
    auc = roc_auc(labels, values)
    if auc is None:
        return None
    label, value = np.asarray(labels), np.asarray(values)
    names, of = np.unique(problems, return_inverse=True)
    members = [np.flatnonzero(of == number) for number in range(len(names))]
    generator = np.random.default_rng(0)
    drawn: list[float] = []
    for _ in range(N_RESAMPLES):
        taken = generator.integers(len(names), size=len(names))
        rows = np.concatenate([members[number] for number in taken])
        again = roc_auc(label[rows], value[rows])
        if again is not None:
            drawn.append(again)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(auc, float(min(low, auc)), float(max(high, auc)))


def _spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    ranks = np.array([_ranks(first), _ranks(second)])
    if len(first) < 2 or (ranks.std(axis=1) == 0).any():
        return None
    return float(np.corrcoef(ranks)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Ranks from 0, ties at their mean."""
    _, place, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = counts.cumsum() - 1
    return np.asarray((last - (counts - 1) / 2)[place], np.float64)


def _reliability(labels: Any, scores: Any) -> tuple[Bin, ...]:
    """Bins of about equal count, by rising score; equal scores are never parted."""
    order = np.argsort(scores, kind="stable")
    size = math.ceil(len(order) / N_BINS)
    bins: list[Bin] = []
    start = 0
    while start < len(order):
        stop = min(start + size, len(order))
        while stop < len(order) and scores[order[stop]] == scores[order[stop - 1]]:
            stop += 1
        rows = order[start:stop]
        right = wilson_interval(int(labels[rows].sum()), len(rows))
        assert right is not None
        bins.append(Bin(float(scores[rows].mean()), len(rows), right))
        start = stop
    return tuple(bins)


def _operating(labels: Any, scores: Any, threshold: float) -> Operating:
    accepted = scores >= threshold
    wrong, right = ~labels, labels
    return Operating(
        threshold=threshold,
        accepted=float(accepted.mean()),
        false_accept=float(accepted[wrong].mean()) if wrong.any() else None,
        false_refuse=float((~accepted)[right].mean()) if right.any() else None,
    )


def _least_threshold(labels: Any, scores: Any, rate: float) -> Operating | None:
    """The lowest threshold that lets at most this share of the wrong steps through."""
    for threshold in sorted({0.0, *(math.ceil(score * 1000) / 1000 for score in scores), 1.01}):
        found = _operating(labels, scores, threshold)
        if found.false_accept is not None and found.false_accept <= rate:
            return found
    return None

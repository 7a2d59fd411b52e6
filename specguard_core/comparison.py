"""Several strategies on the same problems, problem by problem, each beside the target alone.

row          a strategy with its knobs; one of them is `target_only`, which all are compared with
interleaved  every row does problem 1, then every row problem 2: what slows the machine down slows
             all of them, and a comparison that was stopped has the same problems in every row
together     problems that a row does in the same batches before the next row does them: quicker,
             with the same results, but times that say little of one problem alone
cold         both models forget what they have read before each run, so that no row finds its
             prompt read by the row before it
gained       problems that a row answers and the target alone does not; lost: the other way round
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specguard_core import config as config_module
from specguard_core.config import DecodeConfig
from specguard_core.errors import ConfigError
from specguard_core.evaluation import (
    describe,
    kept_results,
    require_answers,
    require_same,
    run_together,
)
from specguard_core.files import format_json, write_atomically
from specguard_core.lm import Models, OnToken, ShouldStop
from specguard_core.metrics import mcnemar_p
from specguard_core.problem_files import FileProblem
from specguard_core.results import ProblemResult, Summary, load_as, summarise
from specguard_core.trace_json import codec
from specguard_core.types import Calibration

COMPARISON_VERSION = 1
BASELINE = "target_only"
_SAVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Against:
    """A row beside the target alone, on the problems that both did.

    points      accuracy less the target's, in [-1, 1]
    p_value     of McNemar's exact test
    written, passes, positions, seconds   of the target's, as shares of what it took alone; seconds
                of all roles. None where it took nothing
    """

    points: float
    gained: int
    lost: int
    p_value: float
    written: float | None
    passes: float | None
    positions: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy; against is None before the first problem that both did."""

    name: str
    summary: Summary
    against: Against | None
    problems: tuple[ProblemResult, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison's file holds; `config` has the knobs of every row, `baseline` is the name
    of the row that all are compared with: the first `target_only`."""

    baseline: str
    config: Mapping[str, object]
    rows: tuple[Row, ...]


def compare(
    problems: Sequence[FileProblem],
    configs: Mapping[str, DecodeConfig],
    models: Models,
    path: str | Path,
    *,
    problem_file: str = "",
    calibration: Calibration | None = None,
    together: int = 1,
    on_result: Callable[[str, ProblemResult], None] | None = None,
    on_token: OnToken | None = None,
    should_stop: ShouldStop | None = None,
) -> Comparison:
    """Run every row on every problem that the file at `path` does not hold yet.

    Args:
        configs: a row's name and knobs; one of them must be `target_only`.
        together: how many problems, at least 1.
        on_result: told each result, with the row's name.

    Raises:
        ConfigError: no `target_only`, rows whose targets sample otherwise, or a file of others.
        ProblemError: a problem without an answer, or one whose id names another in the file.
        Cancelled: should_stop said so; the file holds what was finished.
        SaveError: the file could not be written.
    """
    _check(configs)
    require_answers(problems)
    described = describe(models, problem_file, calibration)
    described |= {
        "results_version": COMPARISON_VERSION,
        "rows": {name: config_module.to_json(config) for name, config in configs.items()},
    }
    done = _kept(Path(path), described, problems)
    saved_at = models.clock()
    try:
        for first in range(0, len(problems), together):
            for name, config in configs.items():
                found = done.setdefault(name, {})
                group = [p for p in problems[first : first + together] if p.problem_id not in found]
                models.forget()
                results = run_together(
                    group, models, config, calibration, on_token=on_token, should_stop=should_stop
                )
                found |= {result.id: result for result in results}
                for result in results:
                    if on_result is not None:
                        on_result(name, result)
            if models.clock() - saved_at > _SAVE_SECONDS:
                _save(_comparison(described, configs, done), path)
                saved_at = models.clock()
    finally:
        comparison = _comparison(described, configs, done)
        _save(comparison, path)
    return comparison


def load_comparison(path: str | Path) -> Comparison:
    """The comparison in a file.

    Raises:
        TraceFileError: no such file, broken or foreign.
    """
    return load_as(Comparison, path, "a comparison")


def against(row: Sequence[ProblemResult], alone: Sequence[ProblemResult]) -> Against | None:
    """A row's results beside those of the target alone, by problem; None without a common one."""
    by_id = {result.id: result for result in alone}
    pairs = [(result, by_id[result.id]) for result in row if result.id in by_id]
    if not pairs:
        return None
    gained = sum(one.correct and not other.correct for one, other in pairs)
    lost = sum(other.correct and not one.correct for one, other in pairs)
    ours, theirs = (summarise([pair[side] for pair in pairs]) for side in (0, 1))
    return Against(
        points=(gained - lost) / len(pairs),
        gained=gained,
        lost=lost,
        p_value=mcnemar_p(gained, lost),
        written=_share(ours.tokens.get("target_written", 0), theirs.tokens.get("target_written")),
        passes=_share(ours.target_passes, theirs.target_passes),
        positions=_share(ours.target_positions, theirs.target_positions),
        seconds=_share(sum(ours.seconds.values()), sum(theirs.seconds.values())),
    )


def _share(part: float, whole: float | None) -> float | None:
    return part / whole if whole else None


def _check(configs: Mapping[str, DecodeConfig]) -> None:
    if not any(config.strategy == BASELINE for config in configs.values()):
        raise ConfigError(f"expected {BASELINE} among the strategies, got none: add it")
    for knob in ("target_temperature", "target_top_p", "target_top_k"):
        values = {getattr(config, knob) for config in configs.values()}
        if len(values) > 1:
            raise ConfigError(
                f"expected one {knob} in all rows, got {', '.join(map(str, sorted(values)))}: "
                "set it for all of them"
            )


def _kept(
    path: Path, described: Mapping[str, Any], problems: Sequence[FileProblem]
) -> dict[str, dict[str, ProblemResult]]:
    """By row and problem, the results of an earlier run that stand."""
    if not path.exists():
        return {}
    before = load_comparison(path)
    require_same(before.config, described, path)
    return {
        row.name: {result.id: result for result in kept_results(row.problems, problems, path)}
        for row in before.rows
    }


def _comparison(
    described: Mapping[str, Any],
    configs: Mapping[str, DecodeConfig],
    done: Mapping[str, Mapping[str, ProblemResult]],
) -> Comparison:
    results = {name: tuple(done.get(name, {}).values()) for name in configs}
    baseline = next(name for name, config in configs.items() if config.strategy == BASELINE)
    rows = tuple(
        Row(
            name, summarise(results[name]), against(results[name], results[baseline]), results[name]
        )
        for name in configs
    )
    return Comparison(baseline, described, rows)


def _save(comparison: Comparison, path: str | Path) -> None:
    """Write the file; the old one stays on any failure (SaveError)."""
    text = format_json(codec(Comparison).encode(comparison))
    write_atomically(Path(path), text.encode("utf-8"))

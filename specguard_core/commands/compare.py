"""The command `compare`: several strategies on one problem file, as one table.

Times in parentheses, and shares, are of what the target alone took on the same problems.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from specguard_core.commands import lines
from specguard_core.commands.shell import (
    Shell,
    calibration_of,
    check_out,
    load_called,
    preset_name,
)
from specguard_core.comparison import BASELINE, Comparison, Row, compare
from specguard_core.config import DecodeConfig
from specguard_core.errors import Cancelled
from specguard_core.presets import Variant, changed, preset, variants
from specguard_core.problem_files import read_problems
from specguard_core.results import ProblemResult

_NONE = "-"


def run_compare(arguments: Namespace, shell: Shell) -> int:
    """Run several strategies over a problem file in turn; go on where the file ends."""
    console = shell.console
    configs = configs_of(arguments)
    problems = read_problems(arguments.problems, limit=arguments.limit)
    check_out(arguments.out)
    models = load_called(arguments, shell, list(configs.values()))
    places = {problem.problem_id: place for place, problem in enumerate(problems, 1)}

    def on_result(name: str, result: ProblemResult) -> None:
        word = "failed" if result.failure else "right" if result.correct else "wrong"
        console.note(f"[{places[result.id]}/{len(problems)}] {result.id} {name} {word}")
        console.stage("next run")

    try:
        comparison = compare(
            problems,
            configs,
            models,
            arguments.out,
            problem_file=Path(arguments.problems).name,
            calibration=calibration_of(arguments, models),
            on_result=on_result,
            on_token=console.tokens,
        )
    except KeyboardInterrupt:
        raise Cancelled(
            f"stopped; finished runs are in {arguments.out}, the same command goes on from them"
        ) from None
    if arguments.json:
        console.say(Path(arguments.out).read_text("utf-8").rstrip())
    else:
        console.say_all(table_lines(comparison))
    failed = [(row.name, r) for row in comparison.rows for r in row.problems if r.failure]
    if failed:
        name, result = failed[0]
        console.note(
            f"error: {len(failed)} runs failed and count as wrong; {name}, problem {result.id}: "
            f"{result.failure}"
        )
    return 1 if failed else 0


def configs_of(arguments: Namespace) -> dict[str, DecodeConfig]:
    """By row name, the knobs: the preset, then --set and --seed, then what the row changes.

    Raises:
        ConfigError: an unknown name (answered with the menu) or a value out of range.
    """
    rows = variants(arguments.strategies)
    if not any(f"strategy={BASELINE}" in row.settings for row in rows):
        rows = (*variants(BASELINE), *rows)
    return {row.name: _config(row, arguments) for row in rows}


def _config(row: Variant, arguments: Namespace) -> DecodeConfig:
    settings = list(arguments.set)
    if arguments.seed is not None:
        settings.append(f"seed={arguments.seed}")
    return changed(preset(row.preset or preset_name(arguments)), [*settings, *row.settings])


def table_lines(comparison: Comparison) -> Iterator[str]:
    """Three tables in Markdown: how good, what the models did, how long it took."""
    n_problems = max(len(row.problems) for row in comparison.rows)
    yield f"{n_problems} problems of {comparison.config['problems']}"
    yield ""
    yield from _table(
        ["strategy", "accuracy (95 %)", "points", "gained, lost", "p", "accepted", "fallback"],
        [_quality(row, comparison.baseline) for row in comparison.rows],
    )
    yield ""
    yield from _table(
        ["strategy", "target: written", "passes", "positions", *_role_names(("target_written",))],
        [_work(row) for row in comparison.rows],
    )
    yield ""
    yield from _table(
        ["seconds", "all", *_role_names()], [_seconds(row) for row in comparison.rows]
    )


def _quality(row: Row, baseline: str) -> list[str]:
    summary, beside = row.summary, row.against
    cells = [row.name, _NONE if summary.accuracy is None else lines.interval_text(summary.accuracy)]
    if beside is None or row.name == baseline:
        cells += [_NONE] * 3
    else:
        cells += [f"{100 * beside.points:+.1f}", f"{beside.gained}, {beside.lost}"]
        cells.append(f"{beside.p_value:.2g}")
    rates = (summary.accept_rate, summary.fallback_rate)
    return cells + [_NONE if rate is None else f"{rate:.1%}" for rate in rates]


def _work(row: Row) -> list[str]:
    summary, beside = row.summary, row.against
    written = summary.tokens.get("target_written", 0)
    cells = [
        row.name,
        _counted(written, beside.written if beside else None),
        _counted(summary.target_passes, beside.passes if beside else None),
        _counted(summary.target_positions, beside.positions if beside else None),
    ]
    others = [role for role in lines.ROLES if role != "target_written"]
    return cells + [
        f"{summary.tokens[role]:,}" if summary.tokens.get(role) else _NONE for role in others
    ]


def _seconds(row: Row) -> list[str]:
    seconds, beside = row.summary.seconds, row.against
    total = f"{sum(seconds.values()):,.1f}"
    if beside is not None and beside.seconds is not None:
        total += f" ({beside.seconds:.2f})"
    by_role = [f"{seconds[role]:,.1f}" if seconds.get(role) else _NONE for role in lines.ROLES]
    return [row.name, total, *by_role]


def _counted(count: int, share: float | None) -> str:
    return f"{count:,}" if share is None else f"{count:,} ({share:.2f})"


def _role_names(left_out: Sequence[str] = ()) -> list[str]:
    return [role.replace("_", " ") for role in lines.ROLES if role not in left_out]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"

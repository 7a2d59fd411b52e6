"""The command line: flags in, exit code out. One of the two roots that read environment and clock.

Exit codes: 0 done; 1 a run failed or was stopped; 2 the request itself is wrong.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, Unpack, get_args

from specguard_core import bundled
from specguard_core.commands.compare import run_compare
from specguard_core.commands.console import Console
from specguard_core.commands.flags import PlaceOptions, add_place_flags
from specguard_core.commands.models import run_models
from specguard_core.commands.reading import run_export, run_regate, run_show
from specguard_core.commands.running import run_calibrate, run_decode, run_eval
from specguard_core.commands.shell import Shell, exit_code, sentence_of
from specguard_core.commands.study import run_study
from specguard_core.config import KNOB_TYPES, KNOBS, STRATEGY_NAMES, DecodeConfig, Knob
from specguard_core.errors import SpecGuardError, UsageError
from specguard_core.lm import Models
from specguard_core.presets import ABLATIONS, PRESETS
from specguard_core.study import Label
from specguard_core.token_table import COLUMNS


def main(argv: Sequence[str] | None = None, shell: Shell | None = None) -> int:
    """Run one command; its errors become one sentence on the error stream and an exit code."""
    shell = shell or _shell()
    try:
        arguments = build_parser().parse_args(argv)
        code: int = arguments.run(arguments, shell)
    except SystemExit as asked_for_help:
        return int(asked_for_help.code or 0)
    except KeyboardInterrupt:
        shell.console.note("error: stopped")
        return 1
    except SpecGuardError as error:
        shell.console.note(f"error: {sentence_of(error)}")
        return exit_code(error)
    except Exception as error:  # noqa: BLE001  # a person gets a sentence, never a stack trace
        shell.console.note(f"error: {sentence_of(error)}")
        return 1
    return code


class _Parser(argparse.ArgumentParser):
    """Errors are raised, so that they are told like all others."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; `{self.prog} --help` shows what there is")


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; `run` in what it parses is the command's function."""
    parser = _Parser(
        prog="python -m specguard_core",
        description="Decode with a draft model that is trusted, or not, step by step.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    json_flag = _Parser(add_help=False)
    json_flag.add_argument("--json", action="store_true", help="print JSON for machines")
    pair, knobs = _pair_flags(), _knob_flags()
    # What measures signals measures them as `cpu` draws, also for a pair that has no calibration.
    measured = _knob_flags("cpu")
    raw = argparse.RawDescriptionHelpFormatter

    decode = commands.add_parser(
        "decode",
        parents=[pair, knobs, _calibration_flag(), json_flag],
        help="decode one problem, each step printed as it is decided",
        epilog=_knob_menu(),
        formatter_class=raw,
        allow_abbrev=False,
    )
    decode.add_argument("--problem", required=True, metavar="TEXT", help="the problem; - reads it")
    decode.add_argument("--gold", metavar="ANSWER", help="the right answer, kept in the trace")
    decode.add_argument("--out", metavar="TRACE", help="trace file; written when stopped, too")
    decode.add_argument("--evidence", action="store_true", help="save attention rows beside --out")
    decode.set_defaults(run=run_decode)

    show = commands.add_parser(
        "show", parents=[json_flag], help="print a trace or a session", allow_abbrev=False
    )
    show.add_argument("trace", help="trace or session file")
    show.set_defaults(run=run_show)

    evaluate = commands.add_parser(
        "eval",
        parents=[pair, knobs, _calibration_flag(), _problem_flags(), json_flag],
        help="run a strategy over a problem file; the same command resumes",
        epilog=_knob_menu(),
        formatter_class=raw,
        allow_abbrev=False,
    )
    evaluate.add_argument("--out", required=True, metavar="RESULTS", help="results file (JSON)")
    evaluate.add_argument(
        "--batch-size", type=_positive, default=1, metavar="N", help="problems decoded together"
    )
    evaluate.set_defaults(run=run_eval)

    beside = commands.add_parser(
        "compare",
        parents=[pair, _preset_flags(), _calibration_flag(), _problem_flags(), json_flag],
        help="run several strategies in turn and set them beside the target alone",
        epilog=_variant_menu() + _knob_menu(),
        formatter_class=raw,
        allow_abbrev=False,
    )
    beside.add_argument(
        "--strategies", required=True, metavar="A,B,...", help="variants, as explained below"
    )
    beside.add_argument("--out", required=True, metavar="TABLE", help="table file (JSON)")
    beside.set_defaults(run=run_compare)

    again = commands.add_parser(
        "regate", parents=[json_flag], help="judge traces again, at once", allow_abbrev=False
    )
    again.add_argument("traces", nargs="+", metavar="TRACE", help="trace files")
    again.add_argument(
        "--set", nargs="+", required=True, action="extend", metavar="NAME=VALUE", help="knobs"
    )
    again.set_defaults(run=run_regate)

    table = commands.add_parser(
        "export",
        help="write a trace's token signals as a table, CSV or Parquet",
        epilog=_column_menu(),
        formatter_class=raw,
        allow_abbrev=False,
    )
    table.add_argument("trace", help="trace or session file; of a session, the current branch")
    table.add_argument("--out", required=True, metavar="TABLE", help="NAME.csv or NAME.parquet")
    table.set_defaults(run=run_export)

    measure = commands.add_parser(
        "calibrate",
        parents=[pair, measured, _problem_flags(), json_flag],
        help="measure what readings look like for a pair",
        epilog=_knob_menu(),
        formatter_class=raw,
        allow_abbrev=False,
    )
    measure.add_argument("--out", required=True, metavar="FILE", help="calibration file (JSON)")
    measure.set_defaults(run=run_calibrate)

    worth = commands.add_parser(
        "study",
        parents=[pair, measured, _calibration_flag(), _problem_flags(), json_flag],
        help="what each signal is worth on problems: AUC, reliability, thresholds",
        epilog=_knob_menu(),
        formatter_class=raw,
        allow_abbrev=False,
    )
    worth.add_argument(
        "--traces", required=True, metavar="FOLDER", help="where traces are kept; they are resumed"
    )
    worth.add_argument(
        "--label",
        choices=get_args(Label),
        default="equation",
        help="what makes a step right: its equations hold; the run's answer is right; the target's "
        "own step has the same equations",
    )
    worth.add_argument("--out", metavar="REPORT", help="file for the report, Markdown or JSON")
    worth.set_defaults(run=run_study)

    models = commands.add_parser(
        "models",
        parents=[_place_flags(), json_flag],
        help="what a model is, and whether a pair fits",
        allow_abbrev=False,
    )
    models.add_argument(
        "draft", nargs="?", help="folder, hub id or GGUF file; without one, pairs to begin with"
    )
    models.add_argument("target", nargs="?", help="the model it would draft for")
    models.add_argument(
        "--probe", action="store_true", help="load what fits, and time 20 tokens of each model"
    )
    models.set_defaults(run=run_models)
    return parser


def _place_flags() -> _Parser:
    flags = _Parser(add_help=False)
    add_place_flags(flags)
    return flags


def _pair_flags() -> _Parser:
    flags = _Parser(add_help=False, parents=[_place_flags()])
    help_text = "folder, hub id or GGUF file; the bundled one where not given"
    flags.add_argument("--draft", default=str(bundled.DRAFT), metavar="MODEL", help=help_text)
    flags.add_argument(
        "--target",
        default=str(bundled.TARGET),
        metavar="MODEL",
        help="as --draft, or a server: http://host:port/v1?model=NAME ($SPECGUARD_API_KEY)",
    )
    flags.add_argument(
        "--reward", metavar="MODEL", help="reward model of rsd: folder or hub id (as above)"
    )
    return flags


def _knob_flags(preset: str | None = None) -> _Parser:
    flags = _Parser(add_help=False, parents=[_preset_flags(preset)])
    flags.add_argument("--strategy", metavar="NAME", help=f"one of {', '.join(STRATEGY_NAMES)}")
    return flags


def _preset_flags(default: str | None = None) -> _Parser:
    flags = _Parser(add_help=False)
    words = default or "cpu; read for a pair without a calibration"
    flags.add_argument(
        "--preset",
        default=default,
        metavar="NAME",
        help=f"one of {', '.join(PRESETS)} ({words})",
    )
    flags.add_argument(
        "--set", nargs="+", default=[], action="extend", metavar="NAME=VALUE", help="knobs, below"
    )
    flags.add_argument("--seed", metavar="N", help="seed of the whole run (0)")
    return flags


def _calibration_flag() -> _Parser:
    flags = _Parser(add_help=False)
    flags.add_argument(
        "--calibration", metavar="FILE", help="`none`, or a file; the draft folder's own by default"
    )
    return flags


def _problem_flags() -> _Parser:
    flags = _Parser(add_help=False)
    flags.add_argument(
        "--problems", required=True, metavar="FILE", help="JSON lines: question, answer, id"
    )
    flags.add_argument("--limit", type=_positive, metavar="N", help="only the first N problems")
    return flags


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)


def _variant_menu() -> str:
    return (
        f"a variant is a strategy ({', '.join(STRATEGY_NAMES)}),\n"
        "and after @ what it changes, with + between: a preset "
        f"({', '.join(PRESETS)}), an ablation of\n"
        f"specguard ({', '.join(ABLATIONS)}), or name=value, e.g.\n"
        "specguard@best+no-selector+threshold=0.6; target_only is always a row\n\n"
    )


def _column_menu() -> str:
    lines = ["columns, one row per token of each candidate (empty or null: not measured):"]
    for column in COLUMNS:
        unit = f" ({column.unit})" if column.unit else ""
        lines.append(f"  {column.name:<18}{column.sentence}{unit}")
    return "\n".join(lines)


def _knob_menu() -> str:
    lines = ["knobs (--set NAME=VALUE ...), their defaults and ranges:"]
    for name, knob in KNOBS.items():
        lines.append(f"  {name:<23}{knob.sentence} ({_default(name)}{_range(knob)})")
    return "\n".join(lines)


def _default(name: str) -> str:
    value = getattr(DecodeConfig(), name)
    if name == "weights":
        return ",".join(f"{key}:{weight:g}" for key, weight in value)
    return f"{value:g}" if KNOB_TYPES[name] is float else repr(value)


def _range(knob: Knob) -> str:
    return "" if knob.low is None or knob.high is None else f"; {knob.low:,} to {knob.high:,}"


def _shell() -> Shell:
    # Model libraries log to the error stream, where only our sentences belong.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    dumb = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    console = Console(
        out=sys.stdout,
        err=sys.stderr,
        colour=sys.stdout.isatty() and not dumb,
        live=sys.stderr.isatty(),
        clock=time.perf_counter,
    )
    return Shell(console, sys.stdin, _load_models)


def _load_models(
    draft: str | None,
    target: str | None,
    *,
    reward: str | None,
    on_stage: Callable[[str], None] | None,
    on_note: Callable[[str], None] | None,
    **places: Unpack[PlaceOptions],
) -> Models:
    if all(name is None or Path(name).exists() for name in (draft, target, reward)):
        # Nothing is downloaded, so a library's own bars would only break into ours.
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # Imported here: `show` and `regate` need no model library, and start at once.
    from specguard_core.backends.hf import load_models

    return load_models(
        draft,
        target,
        reward=reward,
        api_key=os.environ.get("SPECGUARD_API_KEY"),
        on_stage=on_stage,
        on_note=on_note,
        **places,
    )

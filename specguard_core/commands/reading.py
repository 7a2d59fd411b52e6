"""Commands that decode nothing: `show`, `export` and `regate`.

Every command returns an exit code, or raises an error of errors.py.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specguard_core.commands import lines
from specguard_core.commands.briefs import regate_brief, trace_brief
from specguard_core.commands.shell import Shell, check_out, exit_code, json_text
from specguard_core.errors import SpecGuardError, UsageError
from specguard_core.files import write_atomically
from specguard_core.presets import changed
from specguard_core.regate import Regate, regate
from specguard_core.token_table import TableFormat, token_table
from specguard_core.trace_io import evidence_path, load_evidence, load_session, load_trace
from specguard_core.types import Trace


def run_show(arguments: Namespace, shell: Shell) -> int:
    """Print a trace; of a session, the current branch."""
    console, paint = shell.console, shell.console.paint
    session = load_session(arguments.trace)
    trace = next(b.trace for b in session.branches if b.name == session.current)
    if arguments.json:
        console.say(json_text(trace_brief(trace)))
        return 0
    console.say_all(lines.head_lines(trace, paint))
    for unit in trace.units:
        console.say_all(lines.unit_lines(unit, trace.pieces, paint))
    console.say_all(lines.end_lines(trace, paint))
    others = [branch.name for branch in session.branches if branch.name != session.current]
    if others:
        console.say(f"branch {session.current}; also {', '.join(others)}")
    return 0


def run_export(arguments: Namespace, shell: Shell) -> int:
    """Write the token signals of a trace as a table; the file's name says which kind."""
    check_out(arguments.out)
    out = Path(arguments.out)
    kinds: dict[str, TableFormat] = {".csv": "csv", ".parquet": "parquet"}
    if out.suffix not in kinds:
        raise UsageError(f"expected --out NAME.csv or NAME.parquet, got {out.name}: name one")
    session = load_session(arguments.trace)
    trace = next(b.trace for b in session.branches if b.name == session.current)
    data = token_table(trace, kinds[out.suffix])
    write_atomically(out, data)
    shell.console.say(f"saved in {out}")
    return 0


def run_regate(arguments: Namespace, shell: Shell) -> int:
    """Judge recorded traces again under other knobs; a trace that cannot be is reported."""
    console = shell.console
    code, n_flips, n_steps = 0, 0, 0
    found: list[dict[str, Any]] = []
    for path in arguments.traces:
        try:
            trace, judged = _judged_again(path, arguments.set)
        except SpecGuardError as error:
            console.note(f"error: {error}" if path in str(error) else f"error: {path}: {error}")
            code = max(code, exit_code(error))
            continue
        n_flips += len(judged.flips)
        n_steps += sum(verdict is not None for verdict in judged.verdicts)
        if arguments.json:
            found.append({"trace": path, **regate_brief(judged)})
        else:
            console.say(console.paint(path, "strong"))
            console.say_all(lines.regate_lines(trace, judged))
    if arguments.json:
        console.say(json_text(found))
    elif n_steps:
        console.say(f"{n_flips} of {n_steps} judged steps flip")
    return code


def _judged_again(path: str, settings: Sequence[str]) -> tuple[Trace, Regate]:
    trace = load_trace(path)
    beside = evidence_path(path)
    evidence = load_evidence(beside) if beside.is_file() else None
    return trace, regate(trace, changed(trace.config, settings), evidence)

"""Commands that decode: `decode`, `eval` and `calibrate`.

Every command returns an exit code, or raises an error of errors.py.
"""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from specguard_core.calibration import calibrate
from specguard_core.commands import lines
from specguard_core.commands.briefs import trace_brief
from specguard_core.commands.shell import (
    Shell,
    calibration_of,
    check_out,
    config_of,
    json_text,
    load_called,
    load_named,
    sentence_of,
)
from specguard_core.decoder.step import decode, start
from specguard_core.entropies import with_entropies, writes_blocks
from specguard_core.errors import Cancelled, SaveError, SpecGuardError, UsageError
from specguard_core.evaluation import evaluate
from specguard_core.events import BlockCommitted, ChainsMoved, Committed
from specguard_core.evidence import Evidence
from specguard_core.problem_files import read_problems
from specguard_core.results import Evaluation, ProblemResult
from specguard_core.text import clean_problem
from specguard_core.trace_io import (
    evidence_path,
    save_calibration,
    save_evidence,
    save_trace,
    to_json,
)
from specguard_core.types import Trace


def run_decode(arguments: Namespace, shell: Shell) -> int:
    """Decode one problem, each step printed as it is decided, and save the trace."""
    console = shell.console
    problem = shell.stdin.read() if arguments.problem == "-" else arguments.problem
    clean_problem(problem)
    config = config_of(arguments)
    if arguments.evidence and arguments.out is None:
        raise UsageError("expected --out beside --evidence, got none: name a trace file")
    check_out(arguments.out)
    models = load_called(arguments, shell, [config])
    calibration = calibration_of(arguments, models)
    state = start(problem, models, config, gold=arguments.gold, calibration=calibration)
    trace, evidence = state.trace, Evidence()
    if not arguments.json:
        console.say_all(lines.head_lines(trace, console.paint))
    console.stage("step 1: drafting")
    failure = None
    try:
        for event in decode(state, models, on_token=console.tokens):
            evidence.record(event)
            if isinstance(event, Committed | BlockCommitted | ChainsMoved):
                trace = event.trace
            if not arguments.json:
                console.say_all(lines.event_lines(event, console.paint))
            console.stage(lines.event_progress(event))
    except (KeyboardInterrupt, Cancelled):
        trace = replace(trace, status="stopped")
        noun = "whole block" if trace.blocks else "whole step"
        failure = f"stopped after {_count(len(trace.units), noun)}"
    except Exception as error:  # noqa: BLE001  # whatever it was, what is decoded is saved first
        failure = sentence_of(error)
        trace = replace(trace, status="failed", failure=failure)
    saved = _save(trace, evidence, arguments, failure)
    if failure is not None:
        kept = f"; what was decoded is in {saved}" if saved else ""
        raise SpecGuardError(f"{failure}{kept}")
    if arguments.json:
        console.say(json_text(trace_brief(trace)))
    else:
        console.say_all(lines.end_lines(trace, console.paint))
        if saved:
            console.say(f"saved in {saved}")
    return 0


def run_eval(arguments: Namespace, shell: Shell) -> int:
    """Run a strategy over a problem file; go on where the results file ends."""
    console = shell.console
    config = config_of(arguments)
    problems = read_problems(arguments.problems, limit=arguments.limit)
    check_out(arguments.out)
    models = load_called(arguments, shell, [config])
    began = console.clock()

    def on_problem(result: ProblemResult, so_far: Evaluation) -> None:
        word = "failed" if result.failure else "right" if result.correct else "wrong"
        accuracy = so_far.summary.accuracy
        text = "" if accuracy is None else f" · accuracy {lines.interval_text(accuracy)}"
        console.note(f"[{len(so_far.problems)}/{len(problems)}] {result.id} {word}{text}")
        console.stage("next problem")

    try:
        evaluation = evaluate(
            problems,
            models,
            config,
            arguments.out,
            problem_file=Path(arguments.problems).name,
            calibration=calibration_of(arguments, models),
            batch_size=arguments.batch_size,
            on_problem=on_problem,
            on_token=console.tokens,
        )
    except KeyboardInterrupt:
        raise Cancelled(
            f"stopped; finished problems are in {arguments.out}, the same command goes on from them"
        ) from None
    if arguments.json:
        console.say(Path(arguments.out).read_text("utf-8").rstrip())
    else:
        console.say_all(lines.summary_lines(evaluation.summary, len(evaluation.problems)))
        console.say(f"saved in {arguments.out} ({console.clock() - began:.0f} s)")
    failed = [result for result in evaluation.problems if result.failure is not None]
    if failed:
        first = f"problem {failed[0].id}: {failed[0].failure}"
        console.note(f"error: {len(failed)} problems failed and count as wrong; {first}")
    return 1 if failed else 0


def run_calibrate(arguments: Namespace, shell: Shell) -> int:
    """Measure what readings look like for a pair, and save it."""
    console = shell.console
    config = config_of(arguments)
    problems = read_problems(arguments.problems, limit=arguments.limit)
    check_out(arguments.out)
    models = load_named(arguments, shell, arguments.draft, arguments.target)
    calibration = calibrate(
        problems,
        models,
        config,
        on_problem=lambda n: console.stage(f"{n} of {len(problems)} problems"),
        on_token=console.tokens,
    )
    if writes_blocks(models):
        calibration = with_entropies(
            calibration,
            problems,
            models,
            config,
            on_problem=lambda n: console.stage(f"entropies: {n} of {len(problems)} problems"),
            on_token=console.tokens,
        )
    save_calibration(calibration, arguments.out)
    if arguments.json:
        console.say(json_text(to_json(calibration)))
        return 0
    console.say(f"{calibration.pair}: {calibration.n_steps} steps of {len(problems)} problems")
    for table in calibration.tables:
        console.say(f"  over {table.settings['signal_tokens']} tokens")
        for name, bounds in table.bounds.items():
            console.say(f"    {name:<18}{bounds.low:>8.3f} to {bounds.high:>8.3f}")
        for name, expected in table.expected.items():
            low, high = expected.bounds.low, expected.bounds.high
            console.say(f"    {name:<18}{low:>8.3f} to {high:>8.3f} less the usual at its place")
    for role, entropy in calibration.entropies.items():
        console.say(f"  {role} entropy, 85th percentile {entropy:>8.3f} nat")
    console.say(f"saved in {arguments.out}")
    return 0


def _save(
    trace: Trace, evidence: Evidence, arguments: Namespace, failure: str | None
) -> str | None:
    if arguments.out is None:
        return None
    try:
        save_trace(trace, arguments.out)
        if arguments.evidence:
            save_evidence(evidence, evidence_path(arguments.out))
    except SaveError as error:
        raise SaveError(str(error) if failure is None else f"{failure}; {error}") from error
    return str(arguments.out)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

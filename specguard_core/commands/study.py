"""`study`: decode problems, label their steps, and report what each signal is worth.

kept   every trace is a file in --traces, so that the same command goes on where it stopped, and
       other labels cost no decode
"""

import hashlib
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from specguard_core.answers import same_answer
from specguard_core.commands.shell import (
    Shell,
    calibration_of,
    check_out,
    config_of,
    json_text,
    load_called,
)
from specguard_core.commands.study_text import study_markdown
from specguard_core.decoder.step import decode, start
from specguard_core.equations import equations
from specguard_core.errors import Cancelled, ConfigError, UsageError
from specguard_core.events import Committed
from specguard_core.evidence import Evidence, context_before
from specguard_core.files import write_atomically
from specguard_core.lm import Models, SampleRequest
from specguard_core.problem_files import FileProblem, read_problems
from specguard_core.strategies import step_strategy
from specguard_core.study import Label, Sample, is_right, samples_of, study
from specguard_core.text import join_pieces
from specguard_core.trace_io import (
    evidence_path,
    load_evidence,
    load_trace,
    save_evidence,
    save_trace,
)
from specguard_core.types import Step, Trace


def run_study(arguments: Namespace, shell: Shell) -> int:
    """Decode what the folder lacks, then report on all of it."""
    console = shell.console
    config = config_of(arguments)
    if step_strategy(config).judge != "signals":
        raise UsageError(
            f"expected a strategy that judges by signals, got {config.strategy}: use specguard"
        )
    problems = read_problems(arguments.problems, limit=arguments.limit)
    check_out(arguments.out)
    folder = Path(arguments.traces)
    _make(folder)
    models = load_called(arguments, shell, [config])
    calibration = calibration_of(arguments, models)
    samples: list[Sample] = []
    unlabelled = 0
    label: Label = arguments.label
    try:
        for number, problem in enumerate(problems, start=1):
            console.stage(f"{number} of {len(problems)} problems")
            path = folder / f"{_file_name(problem)}.json"
            if not path.exists():
                state = start(
                    problem.question,
                    models,
                    config,
                    gold=problem.answer,
                    problem_id=problem.problem_id,
                    calibration=calibration,
                )
                trace, evidence = state.trace, Evidence()
                for event in decode(state, models, on_token=console.tokens):
                    evidence.record(event)
                    if isinstance(event, Committed):
                        trace = event.trace
                save_evidence(evidence, evidence_path(path))
                save_trace(trace, path)
            trace = load_trace(path)
            if trace.config != config:
                raise ConfigError(
                    f"expected traces of this config in {folder}, {path.name} has another: "
                    "name another folder or use the same settings"
                )
            rows = evidence_path(path)
            known = load_evidence(rows) if rows.is_file() else None
            found, without = samples_of(trace, _labeller(label, trace, models), known)
            samples += found
            unlabelled += without
    except KeyboardInterrupt:
        raise Cancelled(
            f"stopped; finished problems are in {folder}, the same command goes on from them"
        ) from None
    report = study(samples, label=label, threshold=config.threshold, n_unlabelled=unlabelled)
    text = json_text(asdict(report)) if arguments.json else study_markdown(report)
    if arguments.out is not None:
        write_atomically(Path(arguments.out), (text + "\n").encode())
    console.say(text)
    return 0


def _labeller(label: Label, trace: Trace, models: Models) -> Callable[[Step, str], bool | None]:
    """What calls a step of this trace right or wrong."""
    if label == "equation":
        return lambda step, text: is_right(text)
    if label == "answer":
        answer = None if trace.finish is None else trace.finish.answer
        if trace.gold is None:
            return lambda step, text: None
        right = answer is not None and same_answer(trace.gold, answer)
        return lambda step, text: right

    def as_the_target(step: Step, text: str) -> bool | None:
        own = equations(_target_text(step, trace, models))
        return equations(text) == own if own else None

    return as_the_target


def _target_text(step: Step, trace: Trace, models: Models) -> str:
    """The step as the target writes it after the same context, greedily."""
    config = trace.config
    request = SampleRequest(
        prefix=context_before(trace, step.index),
        seeds=(0,),
        temperature=0.0,
        top_p=1.0,
        top_k=0,
        delimiter=config.delimiter,
        max_tokens=config.max_step_tokens,
        n_alternatives=0,
        n_capture_layers=0,
        feed_boundary=False,
        want_hidden=False,
    )
    ids = models.need_target().sample_steps([request])[0].draws[0].token_ids
    return join_pieces(ids, {token_id: models.vocabulary.piece(token_id) for token_id in ids})


def _file_name(problem: FileProblem) -> str:
    """A name that a file system takes; ids that differ never share one."""
    plain = "".join(c if c.isalnum() or c in "-_" else "-" for c in problem.problem_id)[:60]
    if plain == problem.problem_id:
        return plain
    return f"{plain}-{hashlib.sha256(problem.problem_id.encode()).hexdigest()[:8]}"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"expected a folder for traces, {folder} cannot be made ({error.strerror}): "
            "name another"
        ) from None

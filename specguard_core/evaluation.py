"""A strategy over a problem file, one problem after the other, into a results file.

resumable   the file is written after each problem; with the same config it goes on where it ended,
            and a problem that failed is tried again
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specguard_core import config as config_module
from specguard_core.config import DecodeConfig
from specguard_core.decoder.step import decode, start
from specguard_core.errors import ConfigError, ModelError, PairError, ProblemError
from specguard_core.events import BlockCommitted, ChainsMoved, Committed
from specguard_core.lm import Models, OnToken, ShouldStop
from specguard_core.problem_files import FileProblem
from specguard_core.results import (
    Evaluation,
    ProblemResult,
    failed_result,
    load_evaluation,
    result_of,
    save_evaluation,
    summarise,
)
from specguard_core.text import clean_problem
from specguard_core.trace_io import to_json
from specguard_core.trace_json import codec
from specguard_core.types import Calibration, ModelInfo

RESULTS_VERSION = 1


def evaluate(
    problems: Sequence[FileProblem],
    models: Models,
    config: DecodeConfig,
    path: str | Path,
    *,
    problem_file: str = "",
    calibration: Calibration | None = None,
    on_problem: Callable[[ProblemResult, Evaluation], None] | None = None,
    on_token: OnToken | None = None,
    should_stop: ShouldStop | None = None,
) -> Evaluation:
    """Decode every problem that the results file at `path` does not hold yet.

    Args:
        problem_file: the name that the results file records.
        on_problem: told each result, with the evaluation so far.

    Raises:
        ConfigError: the file holds results of another config.
        ProblemError: a problem without an answer, or one whose id names another in the file.
        Cancelled: should_stop said so; the file holds what was finished.
        SaveError: the file could not be written.
    """
    described = describe(models, config, problem_file, calibration)
    for problem in problems:
        if problem.answer is None:
            raise ProblemError(
                f"expected an answer to problem {problem.problem_id}, got none: add it to the file"
            )
    done = _kept(Path(path), described, problems)
    evaluation = Evaluation(described, summarise(done), done)
    finished = {result.id for result in done}
    for problem in problems:
        if problem.problem_id in finished:
            continue
        result = run_problem(
            problem, models, config, calibration, on_token=on_token, should_stop=should_stop
        )
        results = (*evaluation.problems, result)
        evaluation = Evaluation(described, summarise(results), results)
        save_evaluation(evaluation, path)
        if on_problem is not None:
            on_problem(result, evaluation)
    return evaluation


def run_problem(
    problem: FileProblem,
    models: Models,
    config: DecodeConfig,
    calibration: Calibration | None = None,
    *,
    on_token: OnToken | None = None,
    should_stop: ShouldStop | None = None,
) -> ProblemResult:
    """Decode one problem; one that does not fit, or on which a model fails, makes a failed result.

    Raises:
        Cancelled: should_stop said so.
        PairError, NotMeasured: the config asks for what this pair cannot give.
    """
    try:
        state = start(
            problem.question,
            models,
            config,
            gold=problem.answer,
            problem_id=problem.problem_id,
            calibration=calibration,
        )
    except ProblemError as error:
        answer = problem.answer or ""
        return failed_result(problem.problem_id, problem.question, answer, str(error))
    trace = state.trace
    try:
        for event in decode(state, models, on_token=on_token, should_stop=should_stop):
            if isinstance(event, Committed | BlockCommitted | ChainsMoved):
                trace = event.trace
    except PairError:
        raise
    except ModelError as error:
        trace = replace(trace, status="failed", failure=str(error))
    return result_of(trace)


def describe(
    models: Models, config: DecodeConfig, problem_file: str, calibration: Calibration | None
) -> dict[str, Any]:
    """The `config` of a results file: two runs may share a file only where it is equal."""

    def model(info: ModelInfo) -> dict[str, Any]:
        return {name: getattr(info, name) for name in ("name", "revision", "n_parameters", "dtype")}

    return {
        "results_version": RESULTS_VERSION,
        "problems": problem_file,
        "draft": None if models.draft is None else model(models.draft.info),
        "target": None if models.target is None else model(models.target.info),
        "reward": None if models.reward is None else model(models.reward.info),
        "tokenizer": models.vocabulary.tokenizer_hash,
        "calibration": None if calibration is None else to_json(calibration),
        "decode": config_module.to_json(config),
    }


def _kept(
    path: Path, described: Mapping[str, Any], problems: Sequence[FileProblem]
) -> tuple[ProblemResult, ...]:
    """Results of an earlier run that stand: those that did not fail."""
    if not path.exists():
        return ()
    before = load_evaluation(path)
    plain = codec(Mapping[str, object])
    for name, value in plain.decode(plain.encode(described)).items():
        if before.config.get(name) != value:
            raise ConfigError(
                f"expected results of this config in {path}, got another {name}: "
                "name another file or use the same settings"
            )
    asked = {problem.problem_id: problem for problem in problems}
    for result in before.problems:
        problem = asked.get(result.id)
        if problem is not None and not _is_same(problem, result):
            raise ProblemError(
                f"expected problem {result.id} as {path} has it, got another: name another file"
            )
    return tuple(result for result in before.problems if result.failure is None)


def _is_same(problem: FileProblem, result: ProblemResult) -> bool:
    # A trace holds the question as it was cleaned; a failed result as it was given.
    asked = (problem.question, clean_problem(problem.question))
    return result.answer == problem.answer and result.question in asked

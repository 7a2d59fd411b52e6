"""A strategy over a problem file, one problem or several together, into a results file.

resumable   the file is written after each batch of problems; with the same config it goes on where
            it ended, and a problem that failed is tried again
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from specguard_core import config as config_module
from specguard_core.config import DecodeConfig
from specguard_core.decoder.step import Finished, State, advance_many, decode, start
from specguard_core.errors import (
    ConfigError,
    ModelError,
    NotMeasured,
    PairError,
    ProblemError,
)
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
from specguard_core.strategies import STRATEGIES, BlockStrategy
from specguard_core.text import clean_problem
from specguard_core.trace_io import to_json
from specguard_core.trace_json import codec
from specguard_core.types import Calibration, ModelInfo

RESULTS_VERSION = 2
_SAID = {"rows": "strategies or their settings", "decode": "settings", "tokenizer": "tokens"}


def evaluate(
    problems: Sequence[FileProblem],
    models: Models,
    config: DecodeConfig,
    path: str | Path,
    *,
    problem_file: str = "",
    calibration: Calibration | None = None,
    batch_size: int = 1,
    on_problem: Callable[[ProblemResult, Evaluation], None] | None = None,
    on_token: OnToken | None = None,
    should_stop: ShouldStop | None = None,
) -> Evaluation:
    """Decode every problem that the results file at `path` does not hold yet.

    Args:
        problem_file: the name that the results file records.
        batch_size: problems decoded together, at least 1; the results are the same.
        on_problem: told each result, with the evaluation so far.

    Raises:
        ConfigError: the file holds results of another config.
        ProblemError: a problem without an answer, or one whose id names another in the file.
        Cancelled: should_stop said so; the file holds what was finished.
        SaveError: the file could not be written.
    """
    described = describe(models, problem_file, calibration)
    described["decode"] = config_module.to_json(config)
    require_answers(problems)
    done = _kept(Path(path), described, problems)
    evaluation = Evaluation(described, summarise(done), done)
    finished = {result.id for result in done}
    waiting = [problem for problem in problems if problem.problem_id not in finished]
    for first in range(0, len(waiting), batch_size):
        found = run_together(
            waiting[first : first + batch_size],
            models,
            config,
            calibration,
            on_token=on_token,
            should_stop=should_stop,
        )
        so_far = []
        for result in found:
            results = (*evaluation.problems, result)
            evaluation = Evaluation(described, summarise(results), results)
            so_far.append(evaluation)
        save_evaluation(evaluation, path)
        if on_problem is not None:
            for result, then in zip(found, so_far, strict=True):
                on_problem(result, then)
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

    A grade that is no digit is such a failure, too: other problems may well be graded.

    Raises:
        Cancelled: should_stop said so.
        PairError, NotMeasured: the config asks for what this pair cannot give; told at the start.
    """
    state = _begun(problem, models, config, calibration)
    if isinstance(state, ProblemResult):
        return state
    trace = state.trace
    try:
        for event in decode(state, models, on_token=on_token, should_stop=should_stop):
            if isinstance(event, Committed | BlockCommitted | ChainsMoved):
                trace = event.trace
    except PairError:
        raise
    except (ModelError, NotMeasured) as error:
        trace = replace(trace, status="failed", failure=str(error))
    return result_of(trace)


def run_together(
    problems: Sequence[FileProblem],
    models: Models,
    config: DecodeConfig,
    calibration: Calibration | None = None,
    *,
    on_token: OnToken | None = None,
    should_stop: ShouldStop | None = None,
) -> tuple[ProblemResult, ...]:
    """As run_problem for each, but a transition of all problems at a time, in the same batches.

    The results are the same, times apart: those are shares of the batches. Blocks are not batched,
    and models keep a few runs' caches only: their problems are done one after the other.
    """
    alone = partial(
        run_problem,
        models=models,
        config=config,
        calibration=calibration,
        on_token=on_token,
        should_stop=should_stop,
    )
    if len(problems) == 1 or isinstance(STRATEGIES[config.strategy], BlockStrategy):
        return tuple(map(alone, problems))
    states = {
        problem.problem_id: _begun(problem, models, config, calibration) for problem in problems
    }
    try:
        while going := {
            name: state
            for name, state in states.items()
            if not isinstance(state, Finished | ProblemResult)
        }:
            moved = advance_many(
                list(going.values()), models, on_token=on_token, should_stop=should_stop
            )
            states |= dict(zip(going, (state for state, _ in moved), strict=True))
    except PairError:
        raise
    except (ModelError, NotMeasured):
        # Whichever problem it was fails alone.
        return tuple(map(alone, problems))
    return tuple(
        state if isinstance(state, ProblemResult) else result_of(state.trace)
        for state in states.values()
    )


def _begun(
    problem: FileProblem, models: Models, config: DecodeConfig, calibration: Calibration | None
) -> State | ProblemResult:
    """The first state; the result of a problem that cannot be started."""
    try:
        return start(
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


def require_answers(problems: Sequence[FileProblem]) -> None:
    """
    Raises:
        ProblemError: a problem without an answer.
    """
    for problem in problems:
        if problem.answer is None:
            raise ProblemError(
                f"expected an answer to problem {problem.problem_id}, got none: add it to the file"
            )


def describe(models: Models, problem_file: str, calibration: Calibration | None) -> dict[str, Any]:
    """What a results file says of its making: two runs may share a file only where it is equal."""

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
    }


def _kept(
    path: Path, described: Mapping[str, Any], problems: Sequence[FileProblem]
) -> tuple[ProblemResult, ...]:
    """Results of an earlier run that stand: those that did not fail."""
    if not path.exists():
        return ()
    before = load_evaluation(path)
    require_same(before.config, described, path)
    return kept_results(before.problems, problems, path)


def require_same(before: Mapping[str, object], now: Mapping[str, Any], path: Path) -> None:
    """
    Raises:
        ConfigError: the file at `path` says another thing of its making; the sentence names it.
    """
    plain = codec(Mapping[str, object])
    known: dict[str, Any] = dict(before)
    # A knob that is newer than the file has its default.
    if isinstance(decode := known.get("decode"), Mapping):
        known["decode"] = _with_every_knob(decode)
    if isinstance(rows := known.get("rows"), Mapping):
        known["rows"] = {name: _with_every_knob(row) for name, row in rows.items()}
    earlier = plain.decode(plain.encode(known))
    for name, value in plain.decode(plain.encode(now)).items():
        if earlier.get(name) != value:
            raise ConfigError(
                f"expected results of this run in {path}, those there differ by their "
                f"{_SAID.get(name, name)}: name another file or use the same settings"
            )


def _with_every_knob(config: Mapping[str, Any]) -> dict[str, Any]:
    return config_module.to_json(config_module.from_json(config))


def kept_results(
    results: Sequence[ProblemResult], problems: Sequence[FileProblem], path: Path
) -> tuple[ProblemResult, ...]:
    """Of an earlier run's results those that stand, because they did not fail.

    Raises:
        ProblemError: a result of another problem with the id of one asked now.
    """
    asked = {problem.problem_id: problem for problem in problems}
    for result in results:
        problem = asked.get(result.id)
        if problem is not None and not _is_same(problem, result):
            raise ProblemError(
                f"expected problem {result.id} as {path} has it, got another: name another file"
            )
    return tuple(result for result in results if result.failure is None)


def _is_same(problem: FileProblem, result: ProblemResult) -> bool:
    # A trace holds the question as it was cleaned; a failed result as it was given.
    asked = (problem.question, clean_problem(problem.question))
    return result.answer == problem.answer and result.question in asked

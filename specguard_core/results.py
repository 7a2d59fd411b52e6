"""What an evaluation leaves behind: a result per problem, their summary, and the file of both.

correct     the answer found equals the gold one; a failed problem counts as wrong
rates       are of steps (of drafted tokens, where blocks are judged), pooled over all problems,
            not means of rates
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from specguard_core.answers import same_answer
from specguard_core.errors import TraceFileError
from specguard_core.files import format_json, read_json, write_atomically
from specguard_core.metrics import Interval, wilson_interval
from specguard_core.trace_json import MismatchError, codec
from specguard_core.types import Role, Trace

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ProblemResult:
    """One problem: what was asked, what came, and what it took.

    answer, given      the gold answer, and the one found in the text
    failure            the sentence of what went wrong, where the run did not end
    n_steps, n_blocks  units; of every chain, where several vote
    n_judged           steps the rule spoke of, or drafted tokens; n_accepted of them it accepted
    n_fallback         steps the target wrote
    target_passes      forward passes of the target, and the positions processed in them
    """

    id: str
    question: str
    answer: str
    given: str | None
    correct: bool
    finish: str | None
    failure: str | None
    text: str
    n_steps: int
    n_blocks: int
    n_judged: int
    n_accepted: int
    n_fallback: int
    tokens: Mapping[Role, int]
    seconds: Mapping[Role, float]
    target_passes: int
    target_positions: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Over all problems in the file; None where there is nothing to take a share of."""

    accuracy: Interval | None
    tokens: Mapping[Role, int]
    seconds: Mapping[Role, float]
    target_passes: int
    target_positions: int
    fallback_rate: float | None
    accept_rate: float | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a results file holds."""

    config: Mapping[str, object]
    summary: Summary
    problems: tuple[ProblemResult, ...]


def result_of(trace: Trace) -> ProblemResult:
    """What a trace says of its problem. The trace must know the gold answer."""
    gold = trace.gold or ""
    given = None if trace.finish is None else trace.finish.answer
    verdicts = [step.verdict for step in trace.all_steps if step.verdict is not None]
    cost = trace.cost
    return ProblemResult(
        id=trace.problem_id,
        question=trace.problem,
        answer=gold,
        given=given,
        correct=given is not None and same_answer(gold, given),
        finish=None if trace.finish is None else trace.finish.reason,
        failure=trace.failure,
        text=trace.text,
        n_steps=len(trace.all_steps),
        n_blocks=len(trace.blocks),
        n_judged=len(verdicts) + sum(block.n_judged for block in trace.blocks),
        n_accepted=sum(verdict.accepted for verdict in verdicts)
        + sum(block.n_accepted for block in trace.blocks),
        n_fallback=sum(step.outcome.source == "target" for step in trace.all_steps),
        tokens={role: spent.tokens for role, spent in cost.roles.items()},
        seconds={role: spent.milliseconds / 1000 for role, spent in cost.roles.items()},
        target_passes=cost.target_passes,
        target_positions=cost.target_positions,
    )


def failed_result(problem_id: str, question: str, answer: str, failure: str) -> ProblemResult:
    """The result of a problem that could not even be started."""
    return ProblemResult(
        id=problem_id,
        question=question,
        answer=answer,
        given=None,
        correct=False,
        finish=None,
        failure=failure,
        text="",
        n_steps=0,
        n_blocks=0,
        n_judged=0,
        n_accepted=0,
        n_fallback=0,
        tokens={},
        seconds={},
        target_passes=0,
        target_positions=0,
    )


def summarise(results: Sequence[ProblemResult]) -> Summary:
    """Pooled over problems, not means of rates."""
    tokens: dict[Role, int] = {}
    seconds: dict[Role, float] = {}
    for result in results:
        for role, count in result.tokens.items():
            tokens[role] = tokens.get(role, 0) + count
        for role, spent in result.seconds.items():
            seconds[role] = seconds.get(role, 0.0) + spent
    n_steps = sum(result.n_steps for result in results)
    n_judged = sum(result.n_judged for result in results)
    n_fallback = sum(result.n_fallback for result in results)
    n_accepted = sum(result.n_accepted for result in results)
    return Summary(
        accuracy=wilson_interval(sum(r.correct for r in results), len(results)),
        tokens=tokens,
        seconds=seconds,
        target_passes=sum(result.target_passes for result in results),
        target_positions=sum(result.target_positions for result in results),
        fallback_rate=n_fallback / n_steps if n_steps else None,
        accept_rate=n_accepted / n_judged if n_judged else None,
    )


def save_evaluation(evaluation: Evaluation, path: str | Path) -> None:
    """Write a results file; the old one stays on any failure (SaveError)."""
    text = format_json(codec(Evaluation).encode(evaluation))
    write_atomically(Path(path), text.encode("utf-8"))


def load_evaluation(path: str | Path) -> Evaluation:
    """The evaluation in a results file.

    Raises:
        TraceFileError: no such file, broken or foreign.
    """
    return load_as(Evaluation, path, "a results file")


def load_as(kind: type[Value], path: str | Path, what: str) -> Value:
    """The value of a type in a JSON file; `what` names it in errors.

    Raises:
        TraceFileError: no such file, broken or foreign.
    """
    hint: Any = kind  # mypy does not count a type variable's class as hashable
    try:
        value = codec(hint).decode(read_json(Path(path)))
    except MismatchError as mismatch:
        raise TraceFileError(
            f"expected {what} at {path}, got {mismatch}: name another file"
        ) from None
    assert isinstance(value, kind)
    return value

"""Problem files: JSON lines with `question`, `answer` and an optional `id`. Knows no model.

Other keys of a line are left alone. A line without an id is named by its number, from 1.
"""

from dataclasses import dataclass
from pathlib import Path

from specguard_core.errors import ProblemError, TraceFileError
from specguard_core.files import parse_json, read_bounded
from specguard_core.text import clean_problem


@dataclass(frozen=True, slots=True)
class FileProblem:
    """One line of a problem file; answer is None where the line gives none."""

    problem_id: str
    question: str
    answer: str | None


def read_problems(path: str | Path, *, limit: int | None = None) -> tuple[FileProblem, ...]:
    """The first `limit` problems of a file (all where None), each line checked.

    Raises:
        ProblemError: the file cannot be read, or a line is no problem; the sentence has its number.
    """
    try:
        text = read_bounded(Path(path)).decode("utf-8-sig")
    except TraceFileError as error:
        raise ProblemError(str(error)) from None
    except UnicodeDecodeError:
        raise ProblemError(f"expected JSON lines in UTF-8 in {path}, got other bytes") from None
    return problems_in(text, str(path), limit=limit)


def problems_in(text: str, name: str, *, limit: int | None = None) -> tuple[FileProblem, ...]:
    """The first `limit` problems in the text of a problem file, which errors call `name`.

    Raises:
        ProblemError: a line is no problem, or there is none; the sentence has its number.
    """
    problems: list[FileProblem] = []
    seen: set[str] = set()
    for number, line in enumerate(text.split("\n"), start=1):
        if len(problems) == limit:
            break
        if not line.strip():
            continue
        try:
            problem = _problem(line, number)
        except ValueError as error:
            raise ProblemError(f"{name}, line {number}: {error}") from None
        if problem.problem_id in seen:
            raise ProblemError(
                f"{name}, line {number}: expected an id of its own, got {problem.problem_id!r} "
                "again: rename one"
            )
        seen.add(problem.problem_id)
        problems.append(problem)
    if not problems:
        raise ProblemError(f"expected at least one problem in {name}, got none")
    return tuple(problems)


def _problem(line: str, number: int) -> FileProblem:
    try:
        data = parse_json(line.encode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise ProblemError(f"expected a JSON object, got text that is none ({error})") from None
    if not isinstance(data, dict):
        raise ProblemError(f"expected a JSON object, got {type(data).__name__}")
    question, answer, name = (data.get(key) for key in ("question", "answer", "id"))
    if not isinstance(question, str):
        raise ProblemError("expected a question as text, got none: add a key 'question'")
    clean_problem(question)
    if answer is not None and not _is_label(answer):
        raise ProblemError(f"expected an answer as text or a number, got {answer!r}")
    if name is not None and not _is_label(name):
        raise ProblemError(f"expected an id as text or a number, got {name!r}")
    return FileProblem(
        problem_id=str(number if name is None else name),
        question=question,
        answer=None if answer is None else str(answer),
    )


def _is_label(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)

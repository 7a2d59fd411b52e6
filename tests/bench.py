"""The command line around scripted models, for tests: what it wrote and what it returned.

The draft's second step is wrong and is refused; the target writes it right.
"""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from specguard_core.backends.scripted import ScriptedModel, ScriptedStep, scripted_info
from specguard_core.cli import main
from specguard_core.commands.console import Console
from specguard_core.commands.shell import Shell
from specguard_core.lm import Models

FIRST, WRONG, RIGHT = "2 + 3 = 5.\n\n", "5 * 2 = 11.\n\n", "5 * 2 = 10.\n\n"
LAST = "The answer is \\boxed{10}."
PROBLEM = "Ann has 2 apples. She buys 3 more and doubles them."

DRAFT_SCRIPT = {
    "": [ScriptedStep(FIRST, -0.1, 1.0)],
    FIRST: [ScriptedStep(WRONG, -9.0, 0.1)],
    FIRST + RIGHT: [ScriptedStep(LAST, -0.1, 1.0)],
    FIRST + WRONG: [ScriptedStep(LAST, -0.1, 1.0)],
}
TARGET_SCRIPT = {FIRST: [ScriptedStep(RIGHT, -0.2)]}


@dataclass
class Run:
    """One call of the command line: what it wrote and what it returned."""

    code: int
    out: str
    err: str


@dataclass
class Bench:
    """The command line around scripted models."""

    draft: ScriptedModel = field(
        default_factory=lambda: ScriptedModel(DRAFT_SCRIPT, info=scripted_info("small"))
    )
    target: ScriptedModel = field(
        default_factory=lambda: ScriptedModel(TARGET_SCRIPT, info=scripted_info("large"))
    )
    loaded: list[tuple[str | None, str | None]] = field(default_factory=list)
    stdin: str = ""
    colour: bool = False
    live: bool = False
    clock: Callable[[], float] = time.perf_counter

    def load(self, draft: str | None, target: str | None, **_: Any) -> Models:
        self.loaded.append((draft, target))
        return Models(
            self.draft.vocabulary,
            draft=self.draft if draft else None,
            target=self.target if target else None,
        )

    def __call__(self, *arguments: str | Path) -> Run:
        out, err = io.StringIO(), io.StringIO()
        console = Console(out, err, self.colour, self.live, self.clock)
        code = main([str(a) for a in arguments], Shell(console, io.StringIO(self.stdin), self.load))
        return Run(code, out.getvalue(), err.getvalue())


def one_sentence(run: Run) -> bool:
    """Exactly one line on the error stream, an error, and no stack trace."""
    return run.err.startswith("error: ") and run.err.count("\n") == 1 and "Traceback" not in run.err


def decode(bench: Bench, *more: str | Path) -> Run:
    return bench("decode", "--problem", PROBLEM, "--set", "normalisation=fixed", *more)


def renamed(model: ScriptedModel, name: str) -> ScriptedModel:
    """The same script under another name: another model, to whoever compares."""
    return ScriptedModel(model.script, info=replace(model.info, name=name))

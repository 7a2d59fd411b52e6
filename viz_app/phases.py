"""What the models are asked for at a time, as values: each may be sent to another process.

phase      one call of the models: values in, a value out, nothing changed in place
hands      how whoever waits is told of tokens, and says stop
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, assert_never

from specguard_core.calibration import calibrate
from specguard_core.config import DecodeConfig
from specguard_core.decoder.states import (
    AwaitingBlock,
    AwaitingChains,
    AwaitingCommit,
    AwaitingDraft,
    AwaitingSelection,
    AwaitingVerdict,
    Finished,
    State,
)
from specguard_core.decoder.step import advance
from specguard_core.events import Event
from specguard_core.lm import Models, ReadRequest, StepReading
from specguard_core.problem_files import FileProblem
from specguard_core.readings import SIGNALS
from specguard_core.strategies import step_strategy
from specguard_core.types import Calibration

Answer_co = TypeVar("Answer_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Hands:
    """on_token: told how far a phase is; should_stop: polled before each token."""

    on_token: Callable[[int], None] = lambda n_tokens: None
    should_stop: Callable[[], bool] = lambda: False


class Phase(Protocol[Answer_co]):
    """n_tokens: most tokens its models write or read one after the other; 0: none is called."""

    @property
    def n_tokens(self) -> int: ...

    def run(self, models: Models, hands: Hands) -> Answer_co: ...


@dataclass(frozen=True, slots=True)
class Advance:
    """One transition of a run."""

    state: State

    @property
    def n_tokens(self) -> int:
        return _most_tokens(self.state)

    def run(self, models: Models, hands: Hands) -> tuple[State, Event]:
        return advance(self.state, models, on_token=hands.on_token, should_stop=hands.should_stop)


@dataclass(frozen=True, slots=True)
class Read:
    """One pass of the target over a step."""

    request: ReadRequest

    @property
    def n_tokens(self) -> int:
        return 1

    def run(self, models: Models, hands: Hands) -> StepReading:
        target = models.need_target()
        return target.read_steps([self.request], should_stop=hands.should_stop)[0]


@dataclass(frozen=True, slots=True)
class Measure:
    """A calibration on these problems; `on_token` is told the problems that are done."""

    problems: Sequence[FileProblem]
    config: DecodeConfig

    @property
    def n_tokens(self) -> int:
        return len(self.problems) * self.config.max_step_tokens

    def run(self, models: Models, hands: Hands) -> Calibration:
        return calibrate(
            self.problems,
            models,
            self.config,
            on_problem=hands.on_token,
            should_stop=hands.should_stop,
        )


def _most_tokens(state: State) -> int:
    config = state.trace.config
    match state:
        case Finished():
            return 0
        case AwaitingSelection():
            # The one similarity that is a model.
            return 1 if config.selection_method == "sentence-transformers" else 0
        case AwaitingChains(chains=chains):
            return max(map(_most_tokens, chains))
        case AwaitingBlock():
            return config.gamma + 1
        case AwaitingDraft():
            return config.max_step_tokens if step_strategy(config).drafts(config) else 0
        case AwaitingVerdict():
            return 1 if _judge_calls(config) else 0
        case AwaitingCommit(plan=plan):
            return config.max_step_tokens if plan.source == "target" else 0
        case _:
            assert_never(state)


def _judge_calls(config: DecodeConfig) -> bool:
    """Whether a model is asked about a step before the rule speaks."""
    judge = step_strategy(config).judge
    if judge == "signals":
        return any(SIGNALS[name].reads_target for name in config.weight)
    return judge in ("grade", "reward")

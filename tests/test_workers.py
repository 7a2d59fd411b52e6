"""A phase in a forked worker gives the answer it gives here, and its parent goes on from there."""

import sys
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from forking import Forks
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core.backends.scripted import ScriptedModel
from specguard_core.config import STRATEGY_NAMES, DecodeConfig
from specguard_core.decoder.step import AwaitingDraft, Finished, State, advance, start
from specguard_core.errors import Cancelled, ModelError, NotMeasured, out_of_memory
from specguard_core.lm import Models
from specguard_core.types import Block, Decision, Trace
from tests.builders import PROBLEM, configured, pair, states_of
from tests.tiny_pairs import tiny_pair
from viz_app.calibrating import Calibrate
from viz_app.driving import AskTarget, Edit, drive
from viz_app.phases import Advance, Hands
from viz_app.session import Look, Problem, Session
from viz_app.work import Loaded, Pair, Room, Task
from viz_app.workers import LEAST_SECONDS, MOST_SECONDS, Workplace, most_seconds, zero_gpu

BUDGETS = {"max_steps": 3, "max_step_tokens": 8, "max_new_tokens": 24, "n_chains": 2}


def config_of(strategy: str) -> DecodeConfig:
    return configured(
        strategy=strategy,
        n_candidates=3,
        weights={"confidence": 0.4, "grounding": 0.3, "target_confidence": 0.3},
        normalisation="fixed",
        threshold=0.5,
        system_prompt="",
        **BUDGETS,
    )


def driven(loaded: Models, config: DecodeConfig, fork: Forks | None) -> tuple[Session, Room]:
    """A run of the page to its end: a step, then the rest, a look of the target, an edit."""
    whole = Pair(lambda: Loaded(loaded, None), ("draft", "target"), fork=fork)
    session, room = Session(Problem("2 + 3?"), config), Room()
    moves: list[Any] = ["step", "run"]
    if config.strategy not in ("speculative", "easd", "rsd_majority"):
        moves += [AskTarget(Look()), Edit(0, "So 5."), "run"]
    for move in moves:
        *_, last = drive(session, move, whole, room)
        session = last.session
        assert session.notice is None
    return session, room


def traces_of(session: Session) -> list[list[Trace]]:
    """Every state's trace of every branch; blocks to the rounding that their caches bring."""
    return [[to_rounding(state.trace) for state in line.history] for line in session.lines]


def to_rounding(trace: Trace) -> Trace:
    units = [
        replace(unit, decisions=tuple(map(rounded, unit.decisions)))
        if isinstance(unit, Block)
        else unit
        for unit in trace.units
    ]
    return replace(trace, units=tuple(units))


def rounded(decision: Decision) -> Decision:
    names = ("draft_prob", "target_prob", "ratio", "draft_entropy", "target_entropy")
    values = {name: getattr(decision, name) for name in names}
    return replace(decision, **{n: v and round(v, 4) for n, v in values.items()})


@pytest.mark.parametrize("kept", [False, True], ids=["fresh", "kept"])
@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_a_run_whose_phases_are_forked_is_the_run_that_is_not(strategy, kept):
    config, fork = config_of(strategy), Forks(kept=kept)
    here, _ = driven(tiny_pair("llama", "qwen2"), config, None)
    there, room = driven(tiny_pair("llama", "qwen2"), config, fork)
    assert traces_of(there) == traces_of(here)
    assert [view.logprobs for view in there.target_views] == [
        view.logprobs for view in here.target_views
    ]
    assert fork.n_workers == (1 if kept else len(fork.seconds))
    assert len(fork.seconds) >= 2
    if strategy == "specguard":
        assert room.evidence.size_bytes > 0


def test_phases_in_workers_and_here_take_turns_in_one_run():
    loaded = tiny_pair("gemma3", "llama")
    fork = Forks(kept=True)
    there = Workplace(lambda: loaded, fork)
    state: State = start("2 + 3?", loaded, config_of("specguard"))
    expected = states_of(state, loaded)
    for number, after in enumerate(expected[1:]):
        if number % 3:
            state, _ = there.run(Advance(state), Hands())
        else:
            state, _ = advance(state, loaded)
        assert state == after
    assert isinstance(state, Finished)


def test_a_calibration_is_measured_in_a_worker():
    from specguard_core.problem_files import FileProblem

    problems = tuple(FileProblem(str(n), f"{n} + {n}?", None) for n in range(12))
    made = []
    for fork in (None, Forks(kept=False)):
        whole = Pair(lambda: Loaded(tiny_pair("llama", "qwen2"), None), ("a", "b"), fork=fork)
        session = Session(Problem("2 + 3?"), config_of("specguard"))
        *_, last = drive(session, Calibrate(problems), whole, Room())
        made.append((last.session.notice, last.session.calibration))
    assert made[0] == made[1]
    assert made[0][1] is not None


@dataclass
class Failing(ScriptedModel):
    """Raises what it was given."""

    error: Exception = field(default_factory=MemoryError)

    def sample_steps(self, requests, **options):
        raise self.error


class Unsendable(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("CUDA out of memory")
        self.held = lambda: None


@pytest.mark.parametrize(
    "error",
    [
        ModelError("expected a shorter step, got none: try again"),
        NotMeasured("expected attention, got none: set beta=1"),
        MemoryError("out of memory"),
        Unsendable(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_out_of_a_worker_with_its_sentence(error):
    loaded = replace(pair(), draft=Failing(error=error))
    place = Workplace(lambda: loaded, Forks(kept=True))
    state = start(PROBLEM, loaded)
    with pytest.raises(Exception, match=str(error)) as raised:
        place.run(Advance(state), Hands())
    assert out_of_memory(raised.value) == out_of_memory(error)
    if not isinstance(error, Unsendable):
        assert type(raised.value) is type(error)


@dataclass
class Patient(ScriptedModel):
    """Takes its time over every token."""

    def sample_steps(self, requests, *, on_token=None, should_stop=None):
        def waiting(n_tokens):
            time.sleep(0.02)
            on_token(n_tokens)

        return super().sample_steps(requests, on_token=waiting, should_stop=should_stop)


def test_tokens_are_told_across_and_a_stop_reaches_the_worker():
    script = {"": [*pair().draft.script.get("", ())]}
    loaded = replace(pair(), draft=Patient(script))
    place = Workplace(lambda: loaded, Forks(kept=True))
    state = start(PROBLEM, loaded, configured(n_candidates=1, max_step_tokens=400, delimiter="@"))
    told: list[int] = []
    began = time.monotonic()
    with pytest.raises(Cancelled):
        place.run(Advance(state), Hands(told.append, lambda: len(told) >= 2))
    assert time.monotonic() - began < 8
    assert told
    assert max(told) < 400
    again, _ = place.run(Advance(start(PROBLEM, loaded, configured(n_candidates=1))), Hands())
    assert again.candidates


class Silent:
    """A model that must not be called."""

    def __init__(self, model: Any) -> None:
        self.info = model.info

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was called")


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_a_phase_that_asks_for_no_tokens_calls_no_model(strategy):
    loaded = tiny_pair("llama", "qwen2")
    silent = replace(
        loaded,
        draft=Silent(loaded.draft),
        target=Silent(loaded.target),
        reward=Silent(loaded.reward),
    )
    n_free = 0
    for judged in ({"confidence": 1.0}, {"confidence": 0.5, "target_confidence": 0.5}):
        config = replace(config_of(strategy), weights=tuple(judged.items()))
        states = states_of(start("2 + 3?", loaded, config), loaded)
        for state, after in pairwise(states):
            if Advance(state).n_tokens == 0:
                n_free += 1
                assert Advance(state).run(silent, Hands())[0] == after
            else:
                with pytest.raises((AssertionError, AttributeError)):
                    Advance(state).run(silent, Hands())
    assert n_free or strategy in ("speculative", "easd")


@settings(max_examples=30)
@given(st.integers(1, 100_000))
def test_seconds_asked_for_grow_with_the_tokens_and_are_bounded(n_tokens):
    state = start(PROBLEM, pair(), configured(max_step_tokens=n_tokens))
    assert isinstance(state, AwaitingDraft)
    asked = most_seconds(Advance(state))
    assert LEAST_SECONDS < asked <= MOST_SECONDS
    less = start(PROBLEM, pair(), configured(max_step_tokens=max(n_tokens // 2, 1)))
    assert most_seconds(Advance(less)) <= asked


def test_the_space_is_asked_for_a_gpu_by_the_phase_and_its_refusal_is_one_sentence(monkeypatch):
    given_seconds = []

    class Refusal(Exception):
        message = "You have exceeded your quota. Try again in 1:00:00."

    def gpu(work, duration):
        def call(phase):
            given_seconds.append(duration(phase))
            if len(given_seconds) > 1:
                raise Refusal
            return work(phase)

        return call

    monkeypatch.setitem(sys.modules, "spaces", SimpleNamespace(GPU=gpu))
    loaded = pair()
    place = Workplace(lambda: loaded, zero_gpu())
    state, _ = place.run(Advance(start(PROBLEM, loaded)), Hands())
    assert given_seconds == [most_seconds(Advance(start(PROBLEM, loaded)))]
    with pytest.raises(ModelError, match=r"expected a GPU .* exceeded your quota"):
        place.run(Advance(start(PROBLEM, loaded)), Hands())
    after, _ = place.run(Advance(state), Hands())
    assert after != state


def test_zero_gpu_without_its_package_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "spaces", None)
    with pytest.raises(ModelError, match=r"add it to requirements\.txt"):
        zero_gpu()


def test_a_task_knows_the_request_it_works_for():
    from contextvars import ContextVar

    request: ContextVar[str] = ContextVar("request")
    request.set("a visitor's")
    assert Task(request.get).result() == "a visitor's"

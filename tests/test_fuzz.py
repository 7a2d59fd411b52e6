"""Any configuration on any architecture: a run ends for a reason that is true, inside its budgets.

config     every knob at random; knobs that only cost time are kept small
refused    a configuration that these models cannot run: one sentence before anything is decoded
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from specguard_core.answers import has_closed_box
from specguard_core.config import KNOB_TYPES, KNOBS, READING_NAMES, STRATEGY_NAMES, DecodeConfig
from specguard_core.decoder.step import Finished, State, advance, start
from specguard_core.errors import SpecGuardError
from specguard_core.lm import Models
from specguard_core.regate import regate
from specguard_core.strategies import STRATEGIES, BlockStrategy
from specguard_core.trace_io import load_trace, save_trace
from specguard_core.types import Finish, FinishReason, Step, Trace
from tests.tiny_models import CAPTURED, EAGER_ONLY, OWN_ATTENTION
from tests.tiny_pairs import tiny_pair

ARCHITECTURES = CAPTURED + EAGER_ONLY + OWN_ATTENTION
EXAMPLES = 64
"""Configurations for each of the strategies; over 500 in all."""
PROBLEMS = ("2 + 3?", "A 1. B 22.\nHow many, then?", "\U0001f600 \\boxed{")
CONTEXTS = (40, 256)
"""Tokens: the short one is filled before most budgets are spent."""
SMALL: dict[str, tuple[int, int]] = {
    "n_candidates": (1, 4),
    "target_samples": (1, 3),
    "n_chains": (1, 3),
    "gamma": (1, 6),
    "max_steps": (1, 4),
    "max_step_tokens": (1, 9),
    "max_new_tokens": (1, 30),
    "repeat_limit": (2, 3),
    "n_alternatives": (0, 4),
}
TEXTS: dict[str, tuple[str, ...]] = {
    "delimiter": ("\n\n", "\n", "a", " the"),
    "system_prompt": ("", "Think."),
    "grade_prompt": ("Grade: ", "?"),
}
LEFT_OUT = {
    "selection_method": ("sentence-transformers",),
    "grounding_correction": ("position",),
    "enable_thinking": ("on", "off"),
}
"""Values that need other weights, a calibration or a template; tests of their own have them."""


def values(name: str) -> st.SearchStrategy[Any]:
    """Values of one knob, over all of its range unless they cost time."""
    kind, knob = KNOB_TYPES[name], KNOBS[name]
    if name == "weights":
        shares = st.dictionaries(st.sampled_from(READING_NAMES), st.floats(0.01, 1), min_size=1)
        return shares.map(lambda weights: tuple(weights.items()))
    if name in TEXTS:
        return st.sampled_from(TEXTS[name])
    if name in SMALL:
        return st.integers(*SMALL[name])
    if get_origin(kind) is Literal:
        return st.sampled_from([one for one in get_args(kind) if one not in LEFT_OUT.get(name, ())])
    if kind is bool:
        return st.booleans()
    assert knob.low is not None and knob.high is not None
    default = getattr(DecodeConfig(), name)
    if kind is int:
        return st.sampled_from([default, int(knob.low), int(knob.high)]) | st.integers(0, 8).filter(
            lambda value: knob.low <= value
        )
    return st.just(default) | st.floats(knob.low, knob.high)


CONFIGS = {
    strategy: st.builds(
        DecodeConfig,
        strategy=st.just(strategy),
        **{name: values(name) for name in KNOBS if name != "strategy"},
    )
    for strategy in STRATEGY_NAMES
}


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_any_run_ends_truly_keeps_its_budgets_and_is_judged_again_as_it_was(strategy):
    decoded: list[Trace] = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        CONFIGS[strategy],
        st.sampled_from(ARCHITECTURES),
        st.sampled_from(ARCHITECTURES),
        st.sampled_from(PROBLEMS),
        st.sampled_from(CONTEXTS),
    )
    def holds(config, draft, target, problem, context_length):
        pair = tiny_pair(draft, target, context_length)
        state = begun(problem, pair, config)
        if state is None:
            event("refused")
            return
        while not isinstance(state, Finished):
            state, _ = advance(state, pair)
        trace = state.trace
        event(f"{trace.finish.reason}")
        decoded.append(trace)
        assert trace.status == "finished"
        for alone in chains_of(trace):
            check_end(alone, context_length)
        check_file(trace)
        check_verdicts(trace)

    holds()
    assert len(decoded) > EXAMPLES // 2


def begun(problem: str, pair: Models, config: DecodeConfig) -> State | None:
    """The first state of a run; None where one sentence says what these models cannot do."""
    try:
        return start(problem, pair, config)
    except SpecGuardError as error:
        said = str(error)
    assert said.startswith("expected ")
    assert "\n" not in said
    return None


def chains_of(trace: Trace) -> list[Trace]:
    """The trace of each of its chains; itself where it has none."""
    own = [
        replace(trace, units=chain.units, finish=chain.finish, chains=(), vote=None)
        for chain in trace.chains
    ]
    return own or [trace]


def check_end(trace: Trace, context_length: int) -> None:
    """The budgets are kept to the token, and the reason for the end is a fact."""
    config, finish = trace.config, trace.finish
    assert finish is not None
    n_written = len(trace.context_ids) - len(trace.prompt_ids)
    assert 1 <= n_written <= config.max_new_tokens
    assert len(trace.context_ids) <= context_length
    match finish.reason:
        case "eos":
            assert trace.units[-1].ended_by_eos
        case "answer":
            assert has_closed_box(trace.text)
        case "context_limit":
            assert len(trace.context_ids) == context_length
        case "max_new_tokens":
            assert n_written == config.max_new_tokens
        case _:
            assert finish.reason in get_args(FinishReason)
    if not isinstance(STRATEGIES[config.strategy], BlockStrategy):
        check_steps(trace.steps, config, finish)


def check_steps(steps: Sequence[Step], config: DecodeConfig, finish: Finish) -> None:
    assert max(len(step.token_ids) for step in steps) <= config.max_step_tokens
    assert len(steps) <= config.max_steps
    if finish.reason == "max_steps":
        assert len(steps) == config.max_steps
    last = {step.token_ids for step in steps[-config.repeat_limit :]}
    repeated = len(steps) >= config.repeat_limit and len(last) == 1
    assert finish.reason != "repeated_steps" or repeated
    for step in steps:
        spent = {role: cost.tokens for role, cost in step.cost.roles.items()}
        n_kept = len(step.token_ids) if step.outcome.source == "draft" else step.outcome.n_kept
        assert spent.get("draft_kept", 0) == n_kept
        if config.target_temperature == 0 or config.target_samples == 1:
            assert spent.get("target_written", 0) == len(step.token_ids) - n_kept


def check_file(trace: Trace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        save_trace(trace, path)
        assert load_trace(path) == trace


def check_verdicts(trace: Trace) -> None:
    """Judged again under the same knobs, every step gets the verdict it got."""
    judged = regate(trace, trace.config)
    assert judged.flips == ()
    assert judged.unmeasured == {}
    assert list(judged.verdicts) == [step.verdict for step in trace.steps]

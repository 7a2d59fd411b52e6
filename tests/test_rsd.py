"""Reward-guided decoding and its majority, on scripted pairs, a scripted reward and the bundle."""

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core import bundled
from specguard_core.backends.scripted import ScriptedStep, scripted_info
from specguard_core.calibration import calibrate
from specguard_core.config import DecodeConfig
from specguard_core.decoder.step import (
    AwaitingChains,
    Finished,
    advance,
    advance_many,
    decode,
    resume,
    rewound,
    start,
)
from specguard_core.errors import Cancelled, ConfigError, ModelError, PairError
from specguard_core.evaluation import evaluate
from specguard_core.events import ChainsMoved, Committed
from specguard_core.lm import Models, RewardReading, RewardRequest
from specguard_core.presets import PRESETS, preset
from specguard_core.problem_files import FileProblem
from specguard_core.regate import regate
from specguard_core.trace_io import from_json, load_trace, save_trace, to_json
from specguard_core.types import ModelInfo, Trace
from specguard_core.verification import reward_verdict
from tests.bench import Bench, one_sentence
from tests.builders import PROBLEM, events_of, pair, recited, run, scripted, trace_from

unit = st.floats(0, 1)
RIGHT = ("5 + 4 = 9 pens.\n\n", "The answer is \\boxed{9}.")
WRONG = ("5 + 4 = 8 pens.\n\n", "The answer is \\boxed{8}.")
needs_bundle = pytest.mark.bundled(bundled.DRAFT, bundled.TARGET, bundled.REWARD)


@dataclass
class ScriptedReward:
    """Rewards by a step's text; steps it does not know get `otherwise`."""

    rewards: dict[str, float] = field(default_factory=dict)
    otherwise: float = 1.0
    asked: list[RewardRequest] = field(default_factory=list)
    info: ModelInfo = field(default_factory=lambda: scripted_info("judge"))

    def score_steps(self, requests: list[RewardRequest]) -> list[RewardReading]:
        self.asked += requests
        return [
            RewardReading(tuple(self.rewards.get(s, self.otherwise) for s in r.steps), 7, 1.0)
            for r in requests
        ]


def judged(reward: ScriptedReward, models: Models | None = None) -> Models:
    models = models or pair(recited(*WRONG), recited(*RIGHT))
    return replace(models, reward=reward)


def config(strategy: str = "rsd", **knobs: object) -> DecodeConfig:
    return DecodeConfig(strategy=strategy, **knobs)  # type: ignore[arg-type]


def answer_of(trace: Trace) -> str | None:
    assert trace.finish is not None
    return trace.finish.answer


@given(unit, unit, unit)
def test_a_stricter_threshold_never_accepts_more(reward, a, b):
    low, high = sorted((a, b))
    if reward_verdict(reward, config(reward_threshold=high)).accepted:
        assert reward_verdict(reward, config(reward_threshold=low)).accepted


@given(unit, unit)
def test_a_higher_reward_is_never_refused_where_a_lower_one_is_kept(a, b):
    low, high = sorted((a, b))
    assert reward_verdict(high, config()).accepted >= reward_verdict(low, config()).accepted


@pytest.mark.parametrize(("reward", "kept"), [(0.69, False), (0.7, True), (1.0, True), (0, False)])
def test_a_step_is_kept_from_seven_tenths_on(reward, kept):
    verdict = reward_verdict(reward, config())
    assert (verdict.accepted, verdict.score, verdict.threshold) == (kept, reward, 0.7)
    assert verdict.readings["reward"].raw == reward
    # The threshold of the signals, which a preset moves, is another knob.
    for name in PRESETS:
        assert reward_verdict(reward, preset(name)) == verdict


def forgiving() -> Models:
    """The draft errs in its first step, but goes on rightly after a right one."""
    draft = {"": (ScriptedStep(WRONG[0]),), RIGHT[0]: (ScriptedStep(RIGHT[1]),)}
    return pair(draft, recited(*RIGHT))


def test_a_refused_step_is_written_by_the_target_unchecked():
    reward = ScriptedReward({WRONG[0]: 0.2})
    trace = run(judged(reward, forgiving()), config())
    first, second = trace.steps
    assert (first.outcome.source, second.outcome.source) == ("target", "draft")
    assert first.verdict is not None and not first.verdict.accepted
    # The target's own step is not sent for a reward: the draft's two alone were judged.
    assert [request.steps for request in reward.asked] == [WRONG[:1], RIGHT]
    assert answer_of(trace) == "9"


def test_the_draft_is_greedy_and_sampled_once():
    trace = run(judged(ScriptedReward()), config(n_candidates=8))
    assert all(len(step.candidates) == 1 and step.selection is None for step in trace.steps)
    assert answer_of(trace) == "8"
    assert run(judged(ScriptedReward()), config(seed=5)).text == trace.text


def test_the_reward_model_reads_the_problem_and_whole_steps_as_text():
    reward = ScriptedReward()
    run(judged(reward), config())
    assert reward.asked == [RewardRequest(PROBLEM, WRONG[:1]), RewardRequest(PROBLEM, WRONG)]


def test_its_cost_is_counted_and_its_model_is_in_the_trace():
    trace = run(judged(ScriptedReward()), config())
    assert trace.cost.roles["verification"].tokens == 14
    assert trace.cost.target_passes == 0
    assert trace.reward is not None and trace.reward.name == "judge"


@pytest.mark.parametrize("strategy", ["rsd", "rsd_majority"])
def test_another_reward_threshold_flips_recorded_verdicts_without_a_model(strategy):
    trace = run(judged(ScriptedReward({WRONG[0]: 0.75, WRONG[1]: 0.9})), config(strategy))
    assert regate(trace, replace(trace.config, reward_threshold=0.8)).flips == (0,)
    assert regate(trace, replace(trace.config, threshold=0.8)).flips == ()
    assert regate(trace, trace.config).flips == ()


@pytest.mark.parametrize("strategy", ["rsd", "rsd_majority"])
def test_a_trace_from_before_the_knob_is_judged_by_the_threshold_it_was_judged_by(strategy):
    models = judged(ScriptedReward({WRONG[0]: 0.66, WRONG[1]: 0.9}))
    data = to_json(run(models, config(strategy, threshold=0.65, reward_threshold=0.65)))
    del data["config"]["reward_threshold"]
    trace = from_json(data)
    assert isinstance(trace, Trace)
    assert trace.config.reward_threshold == 0.65
    assert regate(trace, trace.config).flips == ()
    assert [step.verdict for step in trace.steps] == list(regate(trace, trace.config).verdicts)


def test_a_trace_with_rewards_and_votes_survives_its_file(tmp_path):
    for strategy in ("rsd", "rsd_majority"):
        trace = run(judged(ScriptedReward({WRONG[0]: 0.2})), config(strategy))
        save_trace(trace, tmp_path / "t.json")
        assert load_trace(tmp_path / "t.json") == trace


@pytest.mark.parametrize("reward", [math.nan, -0.1, 1.5, math.inf])
def test_a_reward_outside_its_range_is_one_sentence_and_the_state_stands(reward):
    models = judged(ScriptedReward({}, otherwise=reward))
    state = start(PROBLEM, models, config())
    for _ in range(2):
        state, _ = advance(state, models)
    with pytest.raises(ModelError, match=r"expected 1 rewards in \[0, 1\] from judge, got"):
        advance(state, models)
    good, _ = advance(state, judged(ScriptedReward()))
    assert good.trace == state.trace


def test_a_missing_reward_model_is_told_before_anything_is_written():
    with pytest.raises(PairError, match="judges steps by a reward model, and none is loaded"):
        start(PROBLEM, pair(), config())


@pytest.mark.parametrize("n_chains", [0, 65])
def test_the_number_of_chains_has_a_range(n_chains):
    with pytest.raises(ConfigError, match=f"n_chains from 1 to 64, got {n_chains}"):
        config("rsd_majority", n_chains=n_chains)


def invented(**fields: object) -> Models:
    """A pair that writes what it likes, differently for each seed."""
    return replace(pair(), reward=ScriptedReward(**fields))  # type: ignore[arg-type]


SHORT = {"max_steps": 3, "max_step_tokens": 20}


def test_chains_are_independent_runs_with_seeds_of_their_own():
    models = invented()
    four = run(models, config("rsd_majority", n_chains=4, **SHORT))
    two = run(models, config("rsd_majority", n_chains=2, **SHORT))
    assert [chain.units for chain in two.chains] == [chain.units for chain in four.chains[:2]]
    texts = {tuple(step.token_ids for step in chain.units) for chain in four.chains}
    assert len(texts) > 1


def test_the_trace_holds_every_chain_and_shows_the_chosen_one():
    trace = run(invented(otherwise=0.5), config("rsd_majority", n_chains=3, **SHORT))
    assert len(trace.chains) == 3
    assert trace.vote is not None
    assert trace.units == trace.chains[trace.vote.chosen].units
    assert len(trace.all_steps) == sum(len(chain.units) for chain in trace.chains)
    tokens = sum(s.cost.roles["target_written"].tokens for s in trace.all_steps)
    assert trace.cost.roles["target_written"].tokens == tokens


def chains_of(answers: list[str], rewards: list[float]) -> Models:
    """The draft's k-th draw gives the k-th answer, with its reward."""
    steps = tuple(ScriptedStep(f"The answer is \\boxed{{{a}}}.", -0.1) for a in answers)
    by_text = {step.text: reward for step, reward in zip(steps, rewards, strict=True)}
    draft = scripted({"": steps}, "draft", choose="seed")
    return judged(ScriptedReward(by_text), pair(draft))


def test_the_majority_is_taken_and_its_answer_is_the_finish():
    models = chains_of(["8", "9", "9.0"], [0.9, 0.7, 0.8])
    trace = run(models, config("rsd_majority", n_chains=12))
    counts = {b.answer: len(b.chains) for b in trace.vote.ballots}  # type: ignore[union-attr]
    assert sum(counts.values()) == 12
    nines = sum(n for answer, n in counts.items() if answer in ("9", "9.0"))
    assert (answer_of(trace) in ("9", "9.0")) == (nines > counts.get("8", 0))
    assert len(counts) == 2


def test_every_transition_moves_all_chains_that_go_on():
    models = invented()
    events = events_of(models, config("rsd_majority", n_chains=3, **SHORT))
    assert all(isinstance(event, ChainsMoved) for event in events)
    last = events[-1]
    assert isinstance(last, ChainsMoved)
    assert last.finish == last.trace.finish is not None
    kept = [e for event in events for _, e in event.moved if isinstance(e, Committed)]  # type: ignore[union-attr]
    assert len(kept) == len(last.trace.all_steps)


def test_a_majority_beside_other_runs_is_what_it_is_alone():
    models = invented()
    wanted = [
        config("rsd_majority", n_chains=2, **SHORT),
        config(**SHORT),
        config("rsd_majority", n_chains=3, seed=4, **SHORT),
    ]
    states = [start(PROBLEM, models, one) for one in wanted]
    alone = [trace_from(state, models) for state in states]
    while not all(isinstance(state, Finished) for state in states):
        going = [i for i, state in enumerate(states) if not isinstance(state, Finished)]
        moved = advance_many([states[i] for i in going], models)
        for i, (after, _) in zip(going, moved, strict=True):
            states[i] = after
    assert [state.trace for state in states] == alone


def test_a_stopped_majority_goes_on_from_whole_steps_to_the_same_end():
    texts = ("1 + 1 = 2.\n\n", "2 + 1 = 3.\n\n", "3 + 1 = 4.\n\n")
    models = judged(ScriptedReward({texts[1]: 0.1}), pair(recited(*texts), recited(*texts)))
    state = start(PROBLEM, models, config("rsd_majority", n_chains=3, max_steps=3))
    whole = trace_from(state, models)
    for _ in range(6):
        state, _ = advance(state, models)
    stopped = replace(state.trace, status="stopped")
    assert 0 < len(stopped.all_steps) < len(whole.all_steps)
    assert trace_from(resume(stopped), models) == whole
    with pytest.raises(Cancelled):
        list(decode(resume(stopped), models, should_stop=lambda: True))


def test_a_stop_between_chains_of_unequal_length_is_no_end():
    steps = (ScriptedStep(RIGHT[1]), ScriptedStep("2 + 2 = 4.\n\n"))
    models = judged(ScriptedReward(), pair(scripted({"": steps}, "draft", choose="seed")))
    wanted = config("rsd_majority", n_chains=8, max_steps=3, max_step_tokens=40)
    state = start(PROBLEM, models, wanted)
    whole = trace_from(state, models)
    assert len({len(chain.units) for chain in whole.chains}) > 1
    for _ in range(4):
        state, _ = advance(state, models)
    assert {chain.finish is None for chain in state.trace.chains} == {True, False}
    assert trace_from(resume(state.trace), models) == whole


def test_a_finished_majority_is_finished_and_rewinding_it_begins_again():
    models = invented()
    state = start(PROBLEM, models, config("rsd_majority", n_chains=2, **SHORT))
    whole = trace_from(state, models)
    assert resume(whole) == Finished(whole)
    again = resume(rewound(whole, 0))
    assert isinstance(again, AwaitingChains)
    assert trace_from(again, models) == whole


@settings(max_examples=10)
@given(st.integers(1, 5), st.integers(0, 3))
def test_one_vote_a_chain(n_chains, seed):
    trace = run(invented(), config("rsd_majority", n_chains=n_chains, seed=seed, **SHORT))
    assert trace.vote is not None
    assert sorted(i for b in trace.vote.ballots for i in b.chains) == list(range(n_chains))


@pytest.mark.case(21)
@pytest.mark.parametrize("strategy", ["rsd", "rsd_majority"])
def test_an_eight_step_problem_has_eight_steps(strategy):
    texts = (*(f"{i} + 1 = {i + 1}.\n\n" for i in range(7)), "The answer is \\boxed{7}.")
    trace = run(judged(ScriptedReward(), pair(recited(*texts))), config(strategy))
    assert len(trace.steps) == 8


def test_evaluation_counts_the_steps_of_every_chain(tmp_path):
    models = judged(ScriptedReward({WRONG[0]: 0.1}), forgiving())
    problems = [FileProblem("a", PROBLEM, "9")]
    result = evaluate(problems, models, config("rsd_majority", n_chains=3), tmp_path / "r.json")
    (one,) = result.problems
    assert (one.correct, one.given, one.n_steps, one.n_fallback >= 3) == (True, "9", 6, True)


def test_the_command_line_decodes_shows_and_asks_for_a_reward_model(tmp_path):
    bench = Bench()
    refused = bench("decode", "--problem", "x", "--strategy", "rsd", "--draft", "elsewhere/a")
    assert (refused.code, one_sentence(refused)) == (2, True)
    assert "expected --reward" in refused.err
    zero = bench("decode", "--problem", "x", "--strategy", "rsd_majority", "--set", "n_chains=0")
    assert (zero.code, one_sentence(zero)) == (2, True)
    trace = run(chains_of(["8", "9"], [0.9, 0.7]), config("rsd_majority", n_chains=5))
    save_trace(trace, tmp_path / "t.json")
    shown = bench("show", tmp_path / "t.json")
    assert shown.code == 0
    assert "votes (chains" in shown.out


def test_calibration_leaves_rewards_alone():
    problems = [FileProblem(str(i), f"{PROBLEM} {i}", None) for i in range(10)]
    found = calibrate(problems, invented(), DecodeConfig(max_steps=3, max_step_tokens=20))
    assert all("reward" not in table.bounds for table in found.tables)


@needs_bundle
@pytest.mark.parametrize("strategy", ["rsd", "rsd_majority"])
def test_the_bundled_models_decode_end_to_end(tmp_path, strategy):
    question = json.loads(bundled.PROBLEMS.read_text("utf-8").splitlines()[0])["question"]
    trace = run(bundled_models(), config(strategy, n_chains=3), problem=question)
    assert answer_of(trace) is not None
    assert trace.reward is not None and trace.reward.n_parameters <= 3_000_000
    rewards = [s.verdict.readings["reward"].raw for s in trace.all_steps if s.verdict]
    assert rewards and all(0 <= reward <= 1 for reward in rewards)
    save_trace(trace, Path(tmp_path) / "t.json")
    assert load_trace(Path(tmp_path) / "t.json") == trace


def bundled_models() -> Models:
    from specguard_core.backends.hf import load_models

    return load_models(bundled.DRAFT, bundled.TARGET, reward=bundled.REWARD)


@needs_bundle
def test_the_bundled_reward_model_tells_wrong_numbers_from_right_ones():
    from specguard_core.backends.reward import load_reward

    rows = [json.loads(line) for line in bundled.PROBLEMS.read_text("utf-8").splitlines()[:12]]
    model, right, wrong = load_reward(bundled.REWARD), [], []
    for row in rows:
        step = row["steps"][0] + "\n\n"
        result = step.rsplit("= ", 1)[1].split()[0].rstrip(".")
        spoilt = step.replace(f"= {result}", f"= {int(result) + 10}")
        requests = [RewardRequest(row["question"], (text,)) for text in (step, spoilt)]
        good, bad = model.score_steps(requests)
        right.append(good.rewards[0])
        wrong.append(bad.rewards[0])
    assert sum(right) / len(right) > 0.7
    assert sum(wrong) / len(wrong) < 0.3

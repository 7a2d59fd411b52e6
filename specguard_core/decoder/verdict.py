"""Judging: the rule's word on the chosen candidate, after the target has read it where needed."""

from collections.abc import Sequence
from dataclasses import replace

from specguard_core.decoder.grading import (
    choice_request,
    digit_chances,
    grade_by_logprob,
    grade_in_words,
)
from specguard_core.decoder.rewarding import read_rewards
from specguard_core.decoder.signals import with_target_reading
from specguard_core.decoder.states import AwaitingCommit, AwaitingVerdict
from specguard_core.events import Verified
from specguard_core.lm import (
    ChoiceReading,
    Models,
    ReadRequest,
    RewardReading,
    ShouldStop,
    StepReading,
)
from specguard_core.readings import SIGNALS, scales_of
from specguard_core.strategies import step_strategy
from specguard_core.types import Candidate, Cost, Outcome, RoleCost, Verdict
from specguard_core.verification import grade_verdict, n_standing, reward_verdict, verify

Judgement = tuple[AwaitingCommit, Verified]


def judge(
    states: Sequence[AwaitingVerdict], models: Models, should_stop: ShouldStop | None
) -> list[Judgement]:
    """A verdict and a plan for each state."""
    wanted = [(i, j) for i, state in enumerate(states) for j in _to_read(state)]
    if wanted:
        requests = [_read_request(states[i], j) for i, j in wanted]
        readings = models.need_target().read_steps(requests, should_stop=should_stop)
        found = dict(zip(wanted, readings, strict=True))
        states = [
            _with_readings(state, {j: r for (place, j), r in found.items() if place == i})
            for i, state in enumerate(states)
        ]
    grades = _ask(states, models, should_stop)
    rewards = read_rewards(states, models)
    return [_judged(state, models, grades.get(i), rewards.get(i)) for i, state in enumerate(states)]


def _ask(
    states: Sequence[AwaitingVerdict], models: Models, should_stop: ShouldStop | None
) -> dict[int, ChoiceReading]:
    """The target's answers where it grades in words."""
    asked = {
        i: choice_request(
            state.trace.context_ids + _chosen(state).token_ids,
            state.trace.config,
            models.vocabulary,
        )
        for i, state in enumerate(states)
        if step_strategy(state.trace.config).judge == "grade"
        and state.trace.config.grade_method != "logprob"
    }
    if not asked:
        return {}
    answers = models.need_grader().read_choices(list(asked.values()), should_stop=should_stop)
    return dict(zip(asked, answers, strict=True))


def _chosen(state: AwaitingVerdict) -> Candidate:
    return state.candidates[0 if state.selection is None else state.selection.chosen]


def _to_read(state: AwaitingVerdict) -> tuple[int, ...]:
    config = state.trace.config
    chosen = 0 if state.selection is None else state.selection.chosen
    judge = step_strategy(config).judge
    if judge == "grade" and config.grade_method == "logprob":
        return (chosen,)
    if judge != "signals":
        return ()
    if not any(SIGNALS[name].reads_target for name in config.weight):
        return ()
    if config.normalisation == "candidates":
        return tuple(range(len(state.candidates)))
    return (chosen,)


def _read_request(state: AwaitingVerdict, index: int) -> ReadRequest:
    config = state.trace.config
    layers = config.rollout_layers if "target_grounding" in config.weight else 0
    return ReadRequest(state.trace.context_ids, state.candidates[index].token_ids, layers)


def _with_readings(state: AwaitingVerdict, readings: dict[int, StepReading]) -> AwaitingVerdict:
    n_context, config = len(state.trace.context_ids), state.trace.config
    cost = state.cost
    candidates = list(state.candidates)
    for index, reading in readings.items():
        read = RoleCost(len(candidates[index].tokens), reading.milliseconds)
        cost += Cost({"verification": read}, reading.passes, reading.positions)
        candidates[index] = with_target_reading(candidates[index], reading, n_context, config)
    return replace(state, candidates=tuple(candidates), cost=cost)


def _judged(
    state: AwaitingVerdict,
    models: Models,
    answer: ChoiceReading | None,
    reading: RewardReading | None,
) -> Judgement:
    trace = state.trace
    began = models.clock()
    verdict = None
    match step_strategy(trace.config).judge:
        case "signals":
            verdict = verify(
                state.candidates,
                state.selection,
                trace.config,
                scales=scales_of(trace),
                pieces=trace.pieces,
            )
            kept = verdict.accepted
        case "grade":
            if answer is None:
                verdict = grade_verdict(grade_by_logprob(_chosen(state)), trace.config)
            else:
                grade, digits = grade_in_words(answer, trace.config), digit_chances(answer)
                verdict = grade_verdict(grade, trace.config, digits)
            kept = verdict.accepted
        case "reward":
            assert reading is not None
            verdict = reward_verdict(reading.rewards[-1], trace.config)
            kept = verdict.accepted
        case "always":
            kept = True
        case "never":
            kept = False
    spent = Cost({"verification": RoleCost(0, (models.clock() - began) * 1000)})
    if answer is not None:
        read = RoleCost(len(_chosen(state).tokens), answer.milliseconds)
        spent += Cost({"verification": read}, answer.passes, answer.positions)
    if reading is not None:
        spent += Cost({"verification": RoleCost(reading.n_tokens, reading.milliseconds)})
    after = AwaitingCommit(
        trace,
        state.attempt,
        state.candidates,
        state.selection,
        verdict,
        Outcome("draft") if kept else Outcome("target", n_kept=_n_standing(state, verdict)),
        state.cost + spent,
    )
    return after, Verified(len(trace.units), verdict)


def _n_standing(state: AwaitingVerdict, verdict: Verdict | None) -> int:
    """The draft's tokens that a fallback goes on from."""
    if verdict is None:
        return 0
    trace = state.trace
    scales, pieces = scales_of(trace), trace.pieces
    return n_standing(verdict, _chosen(state), trace.config, scales=scales, pieces=pieces)

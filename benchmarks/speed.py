"""What is timed: sampling, capture, whole steps, reading. Knows no command line.

A benchmark takes a subject, a plan (how much) and a clock, and gives one Result. Its sides do the
same work, and each times itself, so that what a side needs beforehand does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks.pairing import Clock, Result, Rounds, in_turn, seconds_of
from benchmarks.subjects import (
    CAPTURE_LAYERS,
    N_DRAWS,
    TEMPERATURE,
    TOP_P,
    Subject,
    raw_model,
    sample,
)
from specguard_core import DecodeConfig, decode, start
from specguard_core.backends.attention import Member
from specguard_core.backends.cache import WorkingCache
from specguard_core.lm import ReadRequest


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured: tokens, and rounds that count.

    prefix, tokens   before a step and in it
    rounds, pairs    that count; pairs are those of capture, on and off
    warmups          before them; a round of the real shape is long enough to need none
    pair_tokens      tokens of a draw there
    problems         of the bundled pair, whole, in a round
    context          tokens before the step, and layers of the model, where memory is measured
    memory_layers
    """

    prefix: int = 512
    tokens: int = 64
    rounds: int = 2
    warmups: int = 0
    pairs: int = 10
    pair_tokens: int = 8
    problems: int = 4
    context: int = 4000
    memory_layers: int = 4


PLANS = {"real": Plan(), "bundled": Plan(rounds=9, warmups=1, pairs=20, pair_tokens=64)}
QUICK: dict[str, Any] = {"rounds": 1, "pairs": 3, "pair_tokens": 8, "problems": 2}
SMALLEST = Plan(
    prefix=24, tokens=4, rounds=1, pairs=2, pair_tokens=4, problems=1, context=400, memory_layers=3
)


def candidates(subject: Subject, plan: Plan, clock: Clock) -> Result:
    """Sampling against generate, and the floor beside it."""
    draft, raw = subject.draft, raw_model(subject.draft)
    engine, ids = draft._engine, torch.tensor([subject.prefix])

    def ours() -> float:
        engine.store.clear()
        return seconds_of(lambda: sample(draft, subject.prefix, plan.tokens), clock)

    def generate() -> None:
        found = raw.generate(
            ids,
            do_sample=True,
            temperature=TEMPERATURE,
            top_p=TOP_P,
            top_k=0,
            num_return_sequences=N_DRAWS,
            max_new_tokens=plan.tokens,
            pad_token_id=0,
        )
        assert tuple(found.shape) == (N_DRAWS, len(subject.prefix) + plan.tokens)

    def stock() -> float:
        own = raw.config._attn_implementation
        raw.set_attn_implementation("sdpa")
        took = seconds_of(generate, clock)
        raw.set_attn_implementation(own)
        return took

    @torch.inference_mode()
    def passes() -> None:
        path, _, _ = engine.read_prefix(engine.chunks(subject.prefix), None)
        room = len(subject.prefix) + plan.tokens
        member = Member(WorkingCache(N_DRAWS, path, room), None)
        row = engine.ids([[subject.prefix[0]]] * N_DRAWS)
        for _ in range(plan.tokens):
            engine.forward(row, [member])

    def floor() -> float:
        engine.store.clear()
        return seconds_of(passes, clock)

    rounds = in_turn(
        {"engine": ours, "generate": stock, "floor": floor}, plan.rounds, warmups=plan.warmups
    )
    return _result(
        "candidates",
        subject,
        rounds,
        ("engine", "generate"),
        0.60,
        beside={"floor / generate": rounds.ratio("floor", "generate").value},
        note=f"{N_DRAWS} x {plan.tokens} tokens after {plan.prefix}, prefix read each time",
    )


def capture(subject: Subject, plan: Plan, clock: Clock) -> Result:
    """Sampling with and without recorded attention."""

    def side(captured: bool) -> Callable[[], float]:
        return lambda: seconds_of(
            lambda: sample(subject.draft, subject.prefix, plan.pair_tokens, capture=captured),
            clock,
        )

    rounds = in_turn({"on": side(True), "off": side(False)}, plan.pairs)
    goal = 1.08 if subject.bundled else 1.03
    note = f"{N_DRAWS} x {plan.pair_tokens} tokens after {plan.prefix}, prefix known"
    return _result("capture", subject, rounds, ("on", "off"), goal, note=note)


def overhead(subject: Subject, plan: Plan, clock: Clock) -> Result:
    """Whole decodes; every model's forward is timed inside them."""
    config = DecodeConfig()
    if not subject.bundled:
        config = replace(config, threshold=0.0, max_step_tokens=plan.tokens, max_steps=1)
    loops, rests = [], []
    for number in range(-plan.warmups, plan.rounds):
        with forwards_timed(subject, clock) as forwards:
            began = clock()
            for place in range(plan.problems if subject.bundled else 1):
                asked = (number + plan.warmups) * plan.problems + place
                state = start(
                    subject.problems[asked % len(subject.problems)],
                    subject.models,
                    replace(config, seed=asked),
                    calibration=subject.calibration,
                )
                for _ in decode(state, subject.models):
                    pass
            loop = clock() - began
        if number >= 0:
            loops.append(loop)
            rests.append(loop - sum(forwards))
    rounds = Rounds({"all else": tuple(rests), "loop": tuple(loops)})
    goal = 0.15 if subject.bundled else 0.05
    asked_of = (
        f"{plan.problems} whole problems"
        if subject.bundled
        else f"whole steps of {plan.tokens} tokens"
    )
    return _result("overhead", subject, rounds, ("all else", "loop"), goal, note=asked_of)


def reading(subject: Subject, plan: Plan, clock: Clock) -> Result:
    """The target reads a step it has not seen, and writes one of that length."""
    target, prefix = subject.target, subject.prefix
    taken = iter(range(10**9))

    def read() -> float:
        first = 1 + next(taken)
        step = tuple(prefix[(first + place) % len(prefix)] for place in range(plan.tokens))
        request = ReadRequest(prefix, step, n_capture_layers=CAPTURE_LAYERS)
        return seconds_of(lambda: target.read_steps([request]), clock)

    def write() -> float:
        return seconds_of(
            lambda: sample(target, prefix, plan.tokens, draws=1, temperature=0, capture=False),
            clock,
        )

    sample(target, prefix, 1, draws=1)
    rounds = in_turn({"read": read, "write": write}, plan.rounds, warmups=plan.warmups)
    note = f"{plan.tokens} tokens after {plan.prefix}, prefix known, written greedily"
    return _result("reading", subject, rounds, ("read", "write"), 0.06, note=note)


BENCHMARKS: dict[str, Callable[[Subject, Plan, Clock], Result]] = {
    "candidates": candidates,
    "capture": capture,
    "overhead": overhead,
    "reading": reading,
}


@contextmanager
def forwards_timed(subject: Subject, clock: Clock) -> Iterator[list[float]]:
    """The seconds of every forward pass of the pair while open."""
    seconds: list[float] = []

    def timed(forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            began = clock()
            output = forward(*arguments, **options)
            seconds.append(clock() - began)
            return output

        return run

    pair = (subject.models.draft, subject.models.target)
    models = {id(raw): raw for raw in map(raw_model, pair)}.values()
    for model in models:
        model.forward = timed(model.forward)
    try:
        yield seconds
    finally:
        for model in models:
            del model.forward


def _result(
    name: str,
    subject: Subject,
    rounds: Rounds,
    sides: tuple[str, str],
    goal: float,
    *,
    beside: dict[str, float] | None = None,
    note: str,
) -> Result:
    ratio = rounds.ratio(*sides)
    return Result(
        name, subject.name, ratio, goal, rounds.count, rounds.medians(), beside or {}, note
    )

"""What is timed: sampling, capture, whole steps, reading. Knows no command line.

A benchmark takes a subject, a plan (how much) and a clock, and gives one Result. Its sides do the
same work, and each times itself, so that what a side needs beforehand does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks.pairing import Clock, Result, Rounds, in_turn, seconds_of
from benchmarks.passes import by_rows, forwards_timed, nothing_played
from benchmarks.subjects import (
    CAPTURE_LAYERS,
    N_DRAWS,
    TEMPERATURE,
    TOP_P,
    UNWRITTEN,
    Subject,
    raw_model,
    sample,
)
from specguard_core import DecodeConfig, decode, start
from specguard_core.backends.attention import Member, passing
from specguard_core.backends.cache import WorkingCache
from specguard_core.backends.loading import cache_argument
from specguard_core.backends.prefixes import read_prefix
from specguard_core.backends.prepacking import PrepackedLinear
from specguard_core.evaluation import run_together
from specguard_core.lm import ReadRequest
from specguard_core.problem_files import FileProblem
from specguard_core.results import ProblemResult


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured: tokens, and rounds that count.

    prefix, tokens   before a step and in it
    rounds, pairs    that count; pairs are those of capture, on and off
    warmups          before them; the real shape has one engine for all, and needs none
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


WIDTHS = (1, 2, N_DRAWS, 8)

PLANS = {
    "real": Plan(),
    "pair": Plan(warmups=1),
    "bundled": Plan(rounds=9, warmups=1, pairs=20, pair_tokens=64),
}
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

    def begun() -> tuple[torch.Tensor, Member]:
        engine.store.clear()
        path = read_prefix(engine, engine.chunks(subject.prefix), None).path
        room = len(subject.prefix) + plan.tokens
        row = engine.ids([[subject.prefix[0]]] * N_DRAWS)
        return row, Member(WorkingCache(N_DRAWS, path, room), None)

    @torch.inference_mode()
    def model_passes() -> None:
        row, member = begun()
        options = {cache_argument(raw): member.cache, "use_cache": True, "logits_to_keep": 1}
        with passing([member]):
            for _ in range(plan.tokens):
                raw(input_ids=row, **options)

    @torch.inference_mode()
    def engine_passes() -> None:
        row, member = begun()
        for _ in range(plan.tokens):
            engine.forward(row, [member])

    def of(passes: Callable[[], None]) -> Callable[[], float]:
        return lambda: seconds_of(passes, clock)

    sides = {"engine": ours, "generate": stock}
    floors = {"floor": of(model_passes)}
    # Nothing is played of a large model: both would be the same.
    if subject.bundled:
        floors["own floor"] = of(engine_passes)
    rounds = in_turn(sides | floors, plan.rounds, warmups=plan.warmups)
    return _result(
        "candidates",
        subject,
        rounds,
        ("engine", "generate"),
        0.60,
        beside={f"{name} / generate": rounds.ratio(name, "generate").value for name in floors},
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
    """Whole decodes; every forward pass is timed inside them, be it played or the model's own."""
    config = DecodeConfig()
    if not subject.bundled:
        config = replace(config, threshold=0.0, max_step_tokens=plan.tokens, max_steps=1)
    # Nothing is played of a large model: both would be the same.
    ways = {"": nullcontext, "own ": nothing_played} if subject.bundled else {"": nullcontext}
    seconds: dict[str, list[float]] = {}

    def decoded(number: int) -> tuple[float, float]:
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
        return loop - sum(forwards), loop

    for number in range(-plan.warmups, plan.rounds):
        for way, passes in ways.items():
            with passes(subject.models):
                rest, loop = decoded(number)
            if number >= 0:
                seconds.setdefault(f"{way}all else", []).append(rest)
                seconds.setdefault(f"{way}loop", []).append(loop)
    rounds = Rounds({side: tuple(values) for side, values in seconds.items()})
    goal = 0.15 if subject.bundled else 0.05
    asked_of = (
        f"{plan.problems} whole problems"
        if subject.bundled
        else f"whole steps of {plan.tokens} tokens"
    )
    beside = (
        {"by the model's own passes": rounds.ratio("own all else", "own loop").value}
        if subject.bundled
        else {}
    )
    return _result(
        "overhead",
        subject,
        rounds,
        ("all else", "loop"),
        goal,
        beside=beside,
        note=asked_of,
    )


def verification(subject: Subject, plan: Plan, clock: Clock) -> Result:
    """Whole steps judged by the draft's own signals, against the same draws and nothing else."""
    config = replace(
        DecodeConfig(), threshold=0.0, max_step_tokens=plan.tokens, max_steps=1, delimiter=UNWRITTEN
    )
    problem, models = subject.problems[0], subject.endless
    asked = start(problem, models, config, calibration=subject.calibration)
    prefix = tuple(token for segment in asked.trace.prompt_segments for token in segment.token_ids)

    def step() -> None:
        for _ in decode(asked, models):
            pass

    def draws() -> None:
        sample(subject.draft, prefix, plan.tokens, capture=False, hidden=False)

    sample(subject.draft, prefix, 1, draws=1)
    sides = {"step": lambda: seconds_of(step, clock), "draws": lambda: seconds_of(draws, clock)}
    rounds = in_turn(sides, plan.rounds, warmups=plan.warmups)
    note = (
        f"capture, rollout, confidence, selection: {N_DRAWS} x {plan.tokens} tokens, prompt known"
    )
    goal = 1.08 if subject.bundled else 1.03
    return _result("verification", subject, rounds, ("step", "draws"), goal, note=note)


def width(subject: Subject, plan: Plan, clock: Clock) -> Result:
    """k candidates drawn together, against one: what a further candidate costs."""

    def side(draws: int) -> Callable[[], float]:
        return lambda: seconds_of(
            lambda: sample(subject.draft, subject.prefix, plan.tokens, draws=draws), clock
        )

    sample(subject.draft, subject.prefix, 1, draws=1)
    sides = {f"k = {draws}": side(draws) for draws in WIDTHS}
    rounds = in_turn(sides, plan.rounds, warmups=plan.warmups)
    speeds = {
        f"tokens a second at k = {draws}": draws * plan.tokens / rounds.medians()[f"k = {draws}"]
        for draws in WIDTHS
    }
    note = f"{plan.tokens} tokens a candidate after {plan.prefix}, prefix known"
    return _result(
        "width", subject, rounds, (f"k = {N_DRAWS}", "k = 1"), 2.0, beside=speeds, note=note
    )


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

    def write_unplayed() -> float:
        with nothing_played(subject.endless):
            return write()

    sample(target, prefix, 1, draws=1)
    sides = {"read": read, "write": write}
    # Nothing is played of a large model: both would be the same.
    if subject.bundled:
        sides["own passes"] = write_unplayed
    rounds = in_turn(sides, plan.rounds, warmups=plan.warmups)
    beside = (
        {"against writing by the model's own passes": rounds.ratio("read", "own passes").value}
        if subject.bundled
        else {}
    )
    note = f"{plan.tokens} tokens after {plan.prefix}, prefix known, written greedily"
    return _result("reading", subject, rounds, ("read", "write"), 0.06, beside=beside, note=note)


def layout(subject: Subject, plan: Plan, clock: Clock) -> Result:
    """Passes of one token with prepacked weights, and with rows as a checkpoint has them."""
    raw = raw_model(subject.draft)
    layers = [
        (parent, name, child, by_rows(child))
        for parent in raw.modules()
        for name, child in parent.named_children()
        if isinstance(child, PrepackedLinear)
    ]
    ids = torch.tensor([subject.prefix])
    last: dict[bool, torch.Tensor] = {}

    @torch.inference_mode()
    def side(prepacked: bool) -> float:
        for parent, name, blocks, rows in layers:
            setattr(parent, name, blocks if prepacked else rows)
        cache = WorkingCache(1, [], len(subject.prefix) + plan.tokens + 1)
        options = {cache_argument(raw): cache, "use_cache": True, "logits_to_keep": 1}

        def passes() -> None:
            for _ in range(plan.tokens):
                last[prepacked] = raw(input_ids=ids[:, :1], **options).logits

        with passing([Member(cache, None)]):
            raw(input_ids=ids, **options)
            raw(input_ids=ids[:, :1], **options)
            return seconds_of(passes, clock)

    sides = {"blocks": lambda: side(True), "rows": lambda: side(False)}
    rounds = in_turn(sides, plan.rounds, warmups=plan.warmups)
    side(True)
    if not torch.equal(last[True], last[False]):
        raise AssertionError("both layouts give the same bits")
    note = f"{plan.tokens} passes of one token after {plan.prefix}, the same logits"
    return _result("layout", subject, rounds, ("blocks", "rows"), 0.80, note=note)


def together(subject: Subject, plan: Plan, clock: Clock) -> Result:
    """The same problems four at a time, as `eval --batch-size 4` does them, and one by one."""
    problems = [
        FileProblem(str(place), question, "0")
        for place, question in enumerate(subject.problems[: plan.problems])
    ]
    config, calibration = DecodeConfig(), subject.calibration
    if not subject.bundled:
        config = replace(config, threshold=0.0, max_step_tokens=plan.tokens, max_steps=1)
    answers: dict[int, list[str | None]] = {}

    def side(size: int) -> Callable[[], float]:
        def run() -> None:
            found: list[ProblemResult] = []
            for first in range(0, len(problems), size):
                group = problems[first : first + size]
                found += run_together(group, subject.models, config, calibration)
            answers[size] = [result.given for result in found]

        return lambda: seconds_of(run, clock)

    rounds = in_turn({"four": side(4), "one": side(1)}, plan.rounds, warmups=plan.warmups)
    if answers[4] != answers[1]:
        raise AssertionError("problems done together have the answers of one by one")
    note = f"{len(problems)} whole problems, answers the same"
    return _result("together", subject, rounds, ("four", "one"), 0.5, note=note)


BENCHMARKS: dict[str, Callable[[Subject, Plan, Clock], Result]] = {
    "candidates": candidates,
    "capture": capture,
    "overhead": overhead,
    "verification": verification,
    "width": width,
    "reading": reading,
    "layout": layout,
    "together": together,
}


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

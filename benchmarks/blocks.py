"""What speculative decoding costs, in ratios: two things in turn in one process, on the CPU.

    python benchmarks/blocks.py [--only NAME ...] [--rounds N] [--json]

bundled   `speculative`, greedy, gamma 5, on the pair that ships, against transformers'
          `generate(assistant_model=)` with a constant schedule of 5 and no confidence threshold:
          the same models, prompts and tokens
real      the same with a target of Qwen2.5-0.5B's shape and a draft of 4 such layers, both of
          random weights; how much of a draft is accepted is printed beside the figure
alone     `speculative` against `target_only` on the pair that ships

The figures in README.md come from here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# Before OpenMP loads: threads that spin while they wait stall everyone on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

from benchmarks.engine import machine, shown
from benchmarks.pairing import Clock, Result, in_turn, seconds_of
from benchmarks.subjects import (
    DEFAULT_SPREAD,
    QWEN,
    TOY,
    NumberedVocabulary,
    random_ids,
    random_model,
    raw_model,
)
from specguard_core import DecodeConfig, advance, load_models, start
from specguard_core.backends.hf import HfModel
from specguard_core.backends.loading import prepare
from specguard_core.backends.sources import Source
from specguard_core.bundled import DRAFT, PROBLEMS, TARGET
from specguard_core.decoder.states import Finished, State
from specguard_core.lm import Models, TokenIds
from specguard_core.metrics import block_accept_rate
from specguard_core.problem_files import read_problems
from specguard_core.types import Trace

GAMMA = 5
DRAFT_LAYERS = 4
_LIMITS: dict[str, Any] = {"max_steps": 10_000, "max_step_tokens": 100_000, "repeat_limit": 1_000}


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair and the problems it is asked; n_tokens: the most it writes on each."""

    name: str
    models: Models
    questions: tuple[str, ...]
    n_tokens: int
    small: bool


def bundled_pair(n_problems: int) -> Pair:
    """The pair that ships, on its held-out problems, each to its end."""
    questions = tuple(p.question for p in read_problems(PROBLEMS, limit=n_problems))
    return Pair("bundled pair", load_models(DRAFT, TARGET), questions, 256, small=True)


def random_pair(n_prefix: int, n_tokens: int, dtype: str, *, toy: bool) -> Pair:
    """A target of the real shape and its small draft, with one vocabulary."""
    shape = TOY if toy else QWEN
    vocabulary: Any = NumberedVocabulary(shape.n_ids, random_ids(n_prefix, shape.n_ids))

    def model(layers: int) -> HfModel:
        raw = random_model(replace(shape, layers=layers), dtype, DEFAULT_SPREAD)
        return HfModel(raw, prepare(raw, Source(shape.name, shape.name, {})), vocabulary)

    draft_layers = min(DRAFT_LAYERS, shape.layers - 1)
    models = Models(vocabulary, draft=model(draft_layers), target=model(shape.layers))
    return Pair(f"{shape.name} + {draft_layers} layers", models, ("a problem",), n_tokens, toy)


def written(pair: Pair, question: str, strategy: str) -> Trace:
    """A whole decode from cold caches."""
    limits = _LIMITS | {"max_new_tokens": pair.n_tokens}
    config = DecodeConfig(strategy=strategy, gamma=GAMMA, **limits)  # type: ignore[arg-type]
    pair.models.forget()
    state: State = start(question, pair.models, config)
    while not isinstance(state, Finished):
        state, _ = advance(state, pair.models)
    return state.trace


@contextmanager
def stock_attention(pair: Pair) -> Iterator[tuple[Any, Any]]:
    """Draft and target as transformers itself would run them."""
    raws = [raw_model(model) for model in (pair.models.draft, pair.models.target)]
    own = [raw.config._attn_implementation for raw in raws]
    for raw in raws:
        raw.set_attn_implementation("sdpa")
    try:
        yield raws[0], raws[1]
    finally:
        for raw, name in zip(raws, own, strict=True):
            raw.set_attn_implementation(name)


def assisted(draft: Any, target: Any, prompt: TokenIds, n_tokens: int) -> TokenIds:
    """What transformers' own speculative decoding writes."""
    settings = draft.generation_config
    settings.num_assistant_tokens = GAMMA
    settings.num_assistant_tokens_schedule = "constant"
    settings.assistant_confidence_threshold = 0.0
    ids = torch.tensor([prompt])
    found = target.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        assistant_model=draft,
        do_sample=False,
        max_new_tokens=n_tokens,
        pad_token_id=0,
    )
    return tuple(found[0, len(prompt) :].tolist())


def against_generate(pair: Pair, rounds: int, n_problems: int, clock: Clock) -> Result:
    """Whole runs of both, on the same problems; that they write the same is checked first."""
    traces = {question: written(pair, question, "speculative") for question in pair.questions}
    with stock_attention(pair) as (draft, target):
        for question, trace in traces.items():
            theirs = assisted(draft, target, trace.prompt_ids, pair.n_tokens)
            if theirs != trace.context_ids[len(trace.prompt_ids) :]:
                raise AssertionError(f"expected the same tokens of both for {question!r}")
    groups = [_groups(pair, n_problems) for _ in range(2)]

    def ours() -> float:
        questions = next(groups[0])
        return seconds_of(lambda: [written(pair, q, "speculative") for q in questions], clock)

    def generate() -> float:
        prompts = [traces[question].prompt_ids for question in next(groups[1])]
        with stock_attention(pair) as (draft, target):
            return seconds_of(
                lambda: [assisted(draft, target, prompt, pair.n_tokens) for prompt in prompts],
                clock,
            )

    found = in_turn({"engine": ours, "generate": generate}, rounds)
    accepted = block_accept_rate(traces.values())
    return Result(
        "speculative",
        pair.name,
        found.ratio("engine", "generate"),
        1.0,
        found.count,
        found.medians(),
        {"accepted": 0.0 if accepted is None else accepted},
        f"greedy, gamma {GAMMA}, against generate(assistant_model=), same tokens; "
        f"{n_problems} problems a round, prompts read each time",
    )


def against_target(pair: Pair, rounds: int, n_problems: int, clock: Clock) -> Result:
    """Whole runs of both strategies on the same problems. No goal was set: 1.0 is even."""
    groups = {strategy: _groups(pair, n_problems) for strategy in ("speculative", "target_only")}

    def side(strategy: str) -> Callable[[], float]:
        return lambda: seconds_of(
            lambda: [written(pair, q, strategy) for q in next(groups[strategy])], clock
        )

    found = in_turn({strategy: side(strategy) for strategy in groups}, rounds)
    return Result(
        "alone",
        pair.name,
        found.ratio("speculative", "target_only"),
        1.0,
        found.count,
        found.medians(),
        {},
        f"greedy, gamma {GAMMA}, against target_only; {n_problems} problems a round",
    )


def _groups(pair: Pair, n_problems: int) -> Iterator[list[str]]:
    """Problem after problem, so many at a time, over and over."""
    questions = cycle(pair.questions)
    while True:
        yield [next(questions) for _ in range(n_problems)]


def results(options: argparse.Namespace) -> Iterator[Result]:
    """Every figure asked for, as soon as it is there."""
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    torch.set_num_threads(options.threads or torch.get_num_threads())
    if "bundled" in options.only or "alone" in options.only:
        n_problems = 1 if options.toy else 4
        pair = bundled_pair(n_problems * (1 if options.toy else 3))
        threads = torch.get_num_threads()
        # As the engine does for a model of this size; generate gets the same.
        torch.set_num_threads(1)
        if "bundled" in options.only:
            yield against_generate(pair, options.rounds, n_problems, clock)
        if "alone" in options.only:
            yield against_target(pair, options.rounds, n_problems, clock)
        torch.set_num_threads(threads)
    if "real" in options.only:
        sizes = (24, 8) if options.toy else (128, 32)
        pair = random_pair(*sizes, options.dtype, toy=options.toy)
        yield against_generate(pair, options.rounds, 1, clock)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments(arguments)
    about = machine(options)
    if not options.json:
        print(", ".join(f"{name} {value}" for name, value in about.items()), flush=True)
    found = []
    for result in results(options):
        found.append(asdict(result) | {"met": result.met})
        if not options.json:
            print(shown(result), flush=True)
    if options.json:
        print(json.dumps({"machine": about, "results": found}, indent=1))
    return 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    every = ["bundled", "real", "alone"]
    parser.add_argument("--only", nargs="+", choices=every, default=every, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5, help="that count, after one that does not")
    parser.add_argument("--dtype", default="auto", help="of the real shape")
    parser.add_argument("--threads", type=int, help="of the real shape (default: torch's own)")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--toy", action="store_true", help="tiny sizes: only to see that it runs")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    parser.set_defaults(spread=DEFAULT_SPREAD)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

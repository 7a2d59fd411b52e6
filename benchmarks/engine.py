"""What the engine costs, in ratios: two things in turn in one process, on the CPU.

    python benchmarks/engine.py [--quick] [--only NAME ...] [--subject real bundled] [--json]
    python benchmarks/engine.py --pair DRAFT TARGET       # a pair of your own, with its weights

candidates   k = 4 candidates of 64 tokens after 512, with all that is recorded of them, against
             `generate(num_return_sequences=4)` with the same sampling; the floor is the same
             forward passes with nothing else
capture      sampling with attention rows recorded, against without
overhead     all of whole steps (propose, select, verify, commit) that is not a model's forward
verification whole steps of k = 4 candidates, judged by signals read from the draft, against the
             same draws with nothing recorded
width        4 candidates drawn together against one; tokens a second of k = 1, 2, 4, 8
reading      a 64-token step read by a model that did not write it, rows recorded, against writing
layout       passes with weights laid out for the processor, against those of the checkpoint (bf16)
together     problems decoded four at a time, against one by one (bundled only)
memory       extra peak memory of grounding, against eager `output_attentions` (memory.py)

real         Qwen2.5-0.5B's shape, random weights built here; the precision is the engine's choice
             for this processor unless --dtype says otherwise
bundled      the pair that ships

The figures in README.md come from here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# Before OpenMP loads: threads that spin while they wait stall everyone on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
import transformers

from benchmarks.memory import memory_result
from benchmarks.pairing import Result
from benchmarks.speed import BENCHMARKS, PLANS, QUICK, SMALLEST, Plan
from benchmarks.subjects import (
    DEFAULT_SPREAD,
    QWEN,
    TOY,
    bundled_subject,
    pair_subject,
    prepacked,
    random_subject,
)


def results(options: argparse.Namespace) -> Iterator[Result]:
    """Every figure asked for, as soon as it is there."""
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    names = [name for name in BENCHMARKS if name in options.only]
    kinds = ["pair"] if options.pair else options.subject
    for kind in kinds if names else ():
        plan = _plan(kind, options)
        n_problems = plan.problems * (plan.rounds + plan.warmups)
        if kind == "bundled":
            subject = bundled_subject(plan.prefix, n_problems)
        elif kind == "pair":
            draft, target = options.pair
            title = f"{Path(draft).name} + {Path(target).name}"
            subject = pair_subject(
                draft, target, plan.prefix, n_problems, dtype=options.dtype, name=title
            )
        else:
            shape = TOY if options.toy else QWEN
            subject = random_subject(shape, plan.prefix, options.dtype, options.spread)
        before = torch.get_num_threads()
        # As the engine does for a model of this size; generate and the floor get the same.
        small = kind == "bundled" or options.toy
        torch.set_num_threads(1 if small else options.threads or before)
        for name in names:
            if name == "together" and kind != "bundled" and not options.toy:
                continue
            if name == "layout" and not prepacked(subject.draft):
                continue
            yield BENCHMARKS[name](subject, plan, clock)
        torch.set_num_threads(before)
        del subject
    if "memory" in options.only and "real" in kinds:
        plan = _plan("real", options)
        yield memory_result(
            context=plan.context,
            tokens=plan.tokens,
            layers=plan.memory_layers,
            dtype=options.dtype,
            toy=options.toy,
        )


def _plan(kind: str, options: argparse.Namespace) -> Plan:
    if options.toy:
        return SMALLEST
    return replace(PLANS[kind], **QUICK) if options.quick else PLANS[kind]


def machine(options: argparse.Namespace) -> dict[str, Any]:
    """What the figures depend on besides the code."""
    return {
        "processors": os.cpu_count(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": options.threads or torch.get_num_threads(),
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY"),
        "load": round(os.getloadavg()[0], 2),
        "clock": options.clock,
        "dtype": options.dtype,
        "spread": options.spread,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def shown(result: Result) -> str:
    """One result in three lines."""
    ratio, word = result.ratio, "met" if result.met else "MISSED"
    made_of = [f"{side} {_amount(result, value)}" for side, value in result.medians.items()]
    made_of += [f"{name} = {value:.3g}" for name, value in result.beside.items()]
    return (
        f"{result.benchmark:11} {result.subject:20} {ratio.value:.3g}"
        f"  ({ratio.low:.3g} to {ratio.high:.3g}, {result.rounds} rounds)"
        f"  goal <= {result.goal:.3g}: {word}\n"
        f"{'':11} {', '.join(made_of)}\n{'':11} {result.note}"
    )


def _amount(result: Result, value: float) -> str:
    if result.benchmark == "memory":
        return f"{value / 2**20:,.0f} MiB"
    return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"


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
    every = [*BENCHMARKS, "memory"]
    parser.add_argument("--only", nargs="+", choices=every, default=every, metavar="NAME")
    parser.add_argument(
        "--subject", nargs="+", choices=("real", "bundled"), default=["real", "bundled"]
    )
    parser.add_argument(
        "--pair", nargs=2, metavar=("DRAFT", "TARGET"), help="measure these, and no other subject"
    )
    parser.add_argument("--dtype", default="auto", help="of large models: auto, float32, bfloat16")
    parser.add_argument(
        "--spread", type=float, default=DEFAULT_SPREAD, help="of its logits; 0.6 is flat"
    )
    parser.add_argument("--threads", type=int, help="of the real shape (default: torch's own)")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: for a machine with other work",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="fewer rounds")
    size.add_argument("--toy", action="store_true", help="tiny sizes: only to see that it runs")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

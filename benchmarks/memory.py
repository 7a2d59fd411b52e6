"""Extra peak memory of grounding, against that of eager `output_attentions`.

    python benchmarks/memory.py grounding|eager [--context N] [--tokens M] [--layers L] [--toy]

extra      highest resident memory with the attention wanted, less that of the same work without,
           done first in the same process; each side has a process of its own. Where the system lets
           a process forget its peak (Linux), that of loading does not hide either
grounding  k candidates are sampled after the context, rows of the last layers recorded
eager      context and one step in a single pass, logits of the last token only: every layer gives
           its [heads, n + m, n + m] weights, and k candidates would need k such passes

All of a 24-layer model's eager weights do not fit into an ordinary machine: the models here have
the published shape but fewer layers, which favours eager. What grounding needs does not depend on
the number of layers below the recorded ones.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.pairing import Result, Spread

SideName = Literal["grounding", "eager"]
GOAL = 1 / 50


def memory_result(*, context: int, tokens: int, layers: int, dtype: str, toy: bool) -> Result:
    """Both sides, each in its own process."""
    flags = ["--context", context, "--tokens", tokens, "--layers", layers, "--dtype", dtype]
    found = {
        side: _in_child([side, *map(str, flags), *(["--toy"] if toy else [])])
        for side in get_args(SideName)
    }
    extra = {side: float(figures["extra"]) for side, figures in found.items()}
    ratio = extra["grounding"] / extra["eager"]
    shape = found["eager"]
    whole = extra["eager"] + shape["missing_layers"] * shape["bytes_of_a_layer"]
    return Result(
        "memory",
        shape["name"],
        Spread(ratio, ratio, ratio),
        GOAL,
        1,
        extra,
        {"computed for all layers": extra["grounding"] / whole},
        f"extra bytes at {context} tokens of context; measured on {layers} of "
        f"{layers + shape['missing_layers']} layers",
    )


def extra_peak(side: SideName, options: argparse.Namespace) -> dict[str, Any]:
    """Bytes of one side, measured in this process."""
    from benchmarks.subjects import DEFAULT_SPREAD, QWEN, TOY, random_subject, raw_model

    whole = TOY if options.toy else QWEN
    shape = replace(whole, layers=options.layers)
    subject = random_subject(shape, options.context, options.dtype, DEFAULT_SPREAD)
    if side == "grounding":
        without, wanted = _sampling(subject, options.tokens)
    else:
        without, wanted = _eager(subject, options.tokens)
    without()
    forget_peak()
    without()
    before = peak_bytes()
    forget_peak()
    wanted()
    length = options.context + options.tokens
    size = raw_model(subject.draft).dtype.itemsize
    return {
        "name": whole.name,
        "extra": peak_bytes() - before,
        "missing_layers": whole.layers - shape.layers,
        "bytes_of_a_layer": shape.heads * length**2 * size,
    }


def _sampling(subject: Any, tokens: int) -> tuple[Any, Any]:
    from benchmarks.subjects import sample

    return (
        lambda: sample(subject.draft, subject.prefix, tokens, capture=False),
        lambda: sample(subject.draft, subject.prefix, tokens, capture=True),
    )


def _eager(subject: Any, tokens: int) -> tuple[Any, Any]:
    import torch

    from benchmarks.subjects import raw_model

    model = raw_model(subject.draft)
    ids = torch.tensor([subject.prefix + subject.prefix[:tokens]])

    def run(attention: str) -> None:
        model.set_attn_implementation(attention)
        wanted = {"output_attentions": True} if attention == "eager" else {}
        with torch.inference_mode():
            output = model(input_ids=ids, use_cache=False, logits_to_keep=1, **wanted)
        assert attention != "eager" or len(output.attentions) == model.config.num_hidden_layers

    return lambda: run("sdpa"), lambda: run("eager")


def forget_peak() -> None:
    """The peak is from now on; it stays as it is where the system has no such thing."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "utf-8")


def peak_bytes() -> int:
    """Highest resident memory of this process so far, or since it was forgotten."""
    most = _status_bytes("VmHWM")
    if most is not None:
        # Not getrusage: on Linux a child's begins with its parent's.
        return most
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else 1024 * used


def resident_bytes() -> int:
    """Resident memory of this process now; the highest so far where the system does not say."""
    now = _status_bytes("VmRSS")
    return peak_bytes() if now is None else now


def _status_bytes(name: str) -> int | None:
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = status.read_text("utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def _in_child(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("side", choices=get_args(SideName))
    parser.add_argument("--context", type=int, default=4000)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--toy", action="store_true")
    options = parser.parse_args()
    print(json.dumps(extra_peak(options.side, options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

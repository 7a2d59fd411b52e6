"""Where a model's weights go, in which numbers, and what memory that takes. Reads no weights.

place      a device, a precision, and the bits of packed weights where they are packed
spread     a device name of ours: over all devices, then the processor's memory, then the disk, as
           accelerate divides them
packed     8- or 4-bit weights by bitsandbytes, on a CPU 4-bit ones; embeddings, norms and the
           output layer stay as they are
prepacked  weights in the processor's own layout, see prepacking.py
free       bytes that can be taken now, without what other programs could give back
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import nn
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from specguard_core.backends.sources import SMALL_MODEL_PARAMETERS
from specguard_core.errors import ModelError, UsageError
from specguard_core.sizes import size_text

SPREAD = "spread"
BITS = (8, 4)
_DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
_CONTAINER = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of a model's parameters; shared weights count once.

    linear   those of linear layers inside the model, the ones that can be packed
    tied     those of an output layer that are the embedding's, too
    """

    total: int
    linear: int
    tied: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """device: as torch names it, or SPREAD; bits: of packed weights, None where they are not."""

    device: str
    dtype: torch.dtype
    bits: int | None = None

    @property
    def prepacks(self) -> bool:
        """Whether the weights are laid out anew for this processor."""
        return self.device == "cpu" and self.dtype == torch.bfloat16 and computes_in_bf16()

    def weight_bytes(self, counts: Counts) -> int:
        """Memory of the parameters; what two layers share is there twice where it is prepacked."""
        packed = 0 if self.bits is None else counts.linear
        whole = counts.total - packed + (counts.tied if self.prepacks else 0)
        return whole * self.dtype.itemsize + packed * (self.bits or 0) // 8

    def load_options(self) -> dict[str, Any]:
        """What from_pretrained is told of the place."""
        options: dict[str, Any] = {"dtype": self.dtype}
        if self.bits is not None:
            eight = self.bits == 8
            options["quantization_config"] = BitsAndBytesConfig(
                load_in_8bit=eight, load_in_4bit=not eight, bnb_4bit_compute_dtype=self.dtype
            )
            if self.device == "cpu":
                # Else they would be packed on a GPU, where there is one.
                options["device_map"] = {"": "cpu"}
        if self.device == SPREAD:
            options["device_map"] = "auto"
        elif self.device.startswith("cuda"):
            # Straight there: a model that fits a GPU may be larger than what the processor has.
            options["device_map"] = {"": self.device}
        return options


def dtype_name(dtype: torch.dtype, bits: int | None) -> str:
    """`bfloat16`, or `4-bit, bfloat16` where weights are packed and computed in another."""
    name = str(dtype).removeprefix("torch.")
    return name if bits is None else f"{bits}-bit, {name}"


def choose_place(
    device: str, dtype: str, bits: int | None, config: Any, n_parameters: int
) -> Place:
    """
    Raises:
        UsageError: a device, a precision or a packing that is unknown or not to be had here.
    """
    place = choose_device(device)
    precision = choose_dtype(dtype, place, config, n_parameters)
    if bits is not None:
        _require_packing(bits, place)
    return Place(place, precision, bits)


def choose_device(device: str) -> str:
    """ "auto" is the first accelerator there is, else the CPU.

    Raises:
        UsageError: an unknown name, or a device that this machine does not have.
    """
    if device == SPREAD:
        return device
    if device == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        named = torch.device(device)
    except RuntimeError:
        raise UsageError(
            f"expected a device out of auto, cpu, cuda, cuda:1, mps, {SPREAD}, got {device!r}: "
            "choose one"
        ) from None
    n_there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(_has_mps())}
    if (named.index or 0) >= n_there.get(named.type, 1):
        count = n_there[named.type]
        there = "none that this torch can use" if count == 0 else f"{count}, counted from 0"
        raise UsageError(f"expected the device {device}, this machine has {there}: name another")
    return "cuda" if device == "cuda:0" else device


def _has_mps() -> bool:
    return torch.backends.mps.is_available()


def choose_dtype(dtype: str, device: str, config: Any, n_parameters: int) -> torch.dtype:
    """ "auto" is the checkpoint's own on an accelerator. On a CPU it is bf16 where the processor
    computes in it, else fp32; a small model is fp32 on any, which costs nothing there.

    Raises:
        UsageError: an unknown name.
    """
    if dtype in _DTYPES:
        return _DTYPES[dtype]
    if dtype != "auto":
        menu = ", ".join(["auto", *_DTYPES])
        raise UsageError(f"expected a dtype out of {menu}, got {dtype!r}: choose one")
    if device == "cpu" or (device == SPREAD and not torch.cuda.is_available()):
        half = computes_in_bf16() and n_parameters > SMALL_MODEL_PARAMETERS
        return torch.bfloat16 if half else torch.float32
    stored = getattr(config, "dtype", None)
    return stored if isinstance(stored, torch.dtype) else torch.bfloat16


def computes_in_bf16() -> bool:
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def _require_packing(bits: int, device: str) -> None:
    if bits not in BITS:
        raise UsageError(f"expected weights of 8 or 4 bits, got {bits}: choose one")
    # On a CPU a product of 8-bit weights takes ten times as long as one of bf16, and one of 4-bit
    # weights is fast where the processor computes in bf16.
    on_cpu = (device, bits) == ("cpu", 4) and computes_in_bf16()
    if not device.startswith("cuda") and not on_cpu:
        raise UsageError(
            f"expected a CUDA GPU for {bits}-bit weights, or 4 bits on a CPU with bf16 arithmetic, "
            f"got {device}: choose one, or leave the bits away"
        )
    if find_spec("bitsandbytes") is None:
        raise UsageError(
            f"expected the bitsandbytes package for {bits}-bit weights, got none: "
            "pip install bitsandbytes first"
        )


def count_parameters(config: Any) -> Counts:
    """Counted on a model without memory."""
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    tied = head is not None and head.weight is embedding.weight
    linear = (m for m in model.modules() if isinstance(m, nn.Linear) and m is not head)
    return Counts(
        total=sum(parameter.numel() for parameter in model.parameters()),
        linear=sum(module.weight.numel() for module in linear),
        tied=head.weight.numel() if tied else 0,
    )


def free_bytes(device: str) -> int | None:
    """Bytes free on a device now, swap included; None where nothing says so, or disks help."""
    if device == SPREAD:
        return None
    kind = torch.device(device)
    if kind.type == "cuda":
        return int(torch.cuda.mem_get_info(kind)[0])
    if kind.type != "cpu":
        return None
    machine = psutil.virtual_memory().available + psutil.swap_memory().free
    return int(max(0, min(machine, _container_free())))


def _container_free() -> float:
    """What a container may still take, by the system's own count; infinite outside of one."""
    try:
        limit, used, stat = (
            (_CONTAINER / name).read_text("utf-8")
            for name in ("memory.max", "memory.current", "memory.stat")
        )
        # Pages of files that were read lately are given back as soon as somebody needs them.
        cached = next(line.split()[1] for line in stat.splitlines() if "inactive_file" in line)
        return int(limit) - int(used) + int(cached)
    except (OSError, ValueError, StopIteration):
        return math.inf


def require_room(needed: Mapping[str, int]) -> None:
    """Refuse what cannot fit before anything is read; a spread model always finds its room.

    Args:
        needed: bytes by device.

    Raises:
        ModelError: says how much more it would take.
    """
    for device, n_bytes in needed.items():
        free = free_bytes(device)
        if free is not None and n_bytes > free:
            raise ModelError(
                f"expected {size_text(n_bytes)} of memory on {device} for the weights, "
                f"{size_text(free)} is free: close other programs, name smaller models, or spread "
                f"them with the device {SPREAD!r}"
            )

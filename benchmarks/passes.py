"""Forward passes watched, or done another way, while something is measured. Knows no benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks.pairing import Clock
from benchmarks.subjects import Subject
from specguard_core.backends.prepacking import PrepackedLinear
from specguard_core.lm import Models


@contextmanager
def nothing_played(models: Models) -> Iterator[None]:
    """While open, every pass is the model's own forward."""
    engines: list[Any] = [model._engine for model in (models.draft, models.target)]
    for engine in engines:
        engine._tape = lambda rows: None
    try:
        yield
    finally:
        for engine in engines:
            del engine._tape


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

    engines: list[Any] = [subject.models.draft._engine, subject.models.target._engine]
    for engine in engines:
        engine._run, engine._played = timed(engine._run), timed(engine._played)
    try:
        yield seconds
    finally:
        for engine in engines:
            del engine._run, engine._played


def by_rows(prepacked: PrepackedLinear) -> torch.nn.Linear:
    """The layer as it was before it was prepacked."""
    weight = prepacked.weight.to_dense()
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=prepacked.bias is not None)
    linear.weight = torch.nn.Parameter(weight, requires_grad=False)
    linear.bias = prepacked.bias
    return linear

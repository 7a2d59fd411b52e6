"""The training loop: restartable, one checkpoint file, one log line a while. Knows no model.

schedule  the rate warms up, stays, and falls linearly to zero over the last `decay_share` of the
          iterations; resuming with another number of iterations is how a run is lengthened, or
          ended early on a busy machine
average   of the weights over about the last 1 / (1 - decay) iterations: what is exported
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

Batch = TypeVar("Batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a run learns how fast; `average` is the decay of the average, per iteration."""

    iterations: int
    learning_rate: float = 3e-3
    warmup: int = 100
    decay_share: float = 0.25
    average: float = 0.99

    def rate_at(self, iteration: int) -> float:
        """Learning rate at 0-based `iteration`."""
        rising = min(1.0, (iteration + 1) / self.warmup)
        left = (self.iterations - iteration) / max(1.0, self.iterations * self.decay_share)
        return self.learning_rate * min(rising, 1.0, left)


class Run(ABC, Generic[Batch]):
    """A model in training with everything a checkpoint must hold.

    kind    what a checkpoint says it holds; one of another kind is refused
    share   an optimiser's group may hold a `share` of the schedule's rate; 1 where it holds none
    """

    def __init__(
        self,
        kind: str,
        schedule: Schedule,
        model: nn.Module,
        optimizers: list[torch.optim.Optimizer],
    ) -> None:
        self.kind = kind
        self.schedule = schedule
        self.model = model
        self.optimizers = optimizers
        self.iteration = 0
        self.average = [p.detach().clone() for p in model.parameters()]

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """A scalar, in nats."""

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """The endless stream from the present iteration on; a function of its number alone."""

    def step(self, batch: Batch) -> float:
        """One iteration on one batch; returns its loss."""
        rate = self.schedule.rate_at(self.iteration)
        loss = self.loss(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * group.get("share", 1.0)
            optimizer.step()
            optimizer.zero_grad()
        self.iteration += 1
        weight = max(1 - self.schedule.average, 1 / self.iteration)
        with torch.no_grad():
            torch._foreach_lerp_(self.average, list(self.model.parameters()), weight)
        return float(loss.detach())

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        torch.save(
            {
                "kind": self.kind,
                "iteration": self.iteration,
                "model": self.model.state_dict(),
                "average": self.average,
                "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            },
            fresh,
        )
        fresh.replace(path)

    def resume(self, path: Path) -> None:
        """Takes up a checkpoint; the schedule may name other iterations, never another model."""
        held: dict[str, Any] = torch.load(path, weights_only=True)
        if held["kind"] != self.kind:
            raise ValueError(f"{path} holds a {held['kind']}, not a {self.kind}")
        self.iteration = held["iteration"]
        self.model.load_state_dict(held["model"])
        self.average = held["average"]
        for optimizer, state in zip(self.optimizers, held["optimizers"], strict=True):
            optimizer.load_state_dict(state)


def train(
    run: Run[Batch],
    checkpoint: Path | None = None,
    *,
    save_every: int = 200,
    log_every: int = 50,
    log: Callable[[str], None] = print,
) -> None:
    """Runs `run` to its schedule's end, saving now and then and at the end."""
    schedule, batches = run.schedule, run.batches()
    recent, began, first = 0.0, time.perf_counter(), run.iteration
    while run.iteration < schedule.iterations:
        loss = run.step(next(batches))
        recent = loss if not recent else 0.95 * recent + 0.05 * loss
        if run.iteration % log_every == 0:
            pace = (run.iteration - first) / (time.perf_counter() - began)
            log(
                f"{run.iteration}/{schedule.iterations} loss {recent:.4f}"
                f" rate {schedule.rate_at(run.iteration):.1e} {pace:.2f}/s"
            )
        at_end = run.iteration == schedule.iterations
        if checkpoint and (run.iteration % save_every == 0 or at_end):
            run.save(checkpoint)


def resumed_and_trained(run: Run[Batch], checkpoint: Path, *, save_every: int = 200) -> None:
    """Takes up the checkpoint where there is one, and runs to the end, saying so on the screen."""
    if checkpoint.exists():
        run.resume(checkpoint)
    train(run, checkpoint, save_every=save_every, log=lambda line: print(line, flush=True))

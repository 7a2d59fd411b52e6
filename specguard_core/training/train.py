"""The training loop: restartable, one checkpoint file, one log line a while. Knows no problem text.

The schedule warms up, stays, and falls linearly to zero over the last `decay_share` of the
iterations. Resuming with another number of iterations is how a run is lengthened, or ended early on
a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specguard_core.training.batches import IGNORED, Batch, training_batches
from specguard_core.training.models import Role, build_model
from specguard_core.training.optimizers import optimizers_for


@dataclass(frozen=True, slots=True)
class Recipe:
    """What decides a run; two runs of equal recipes end in equal weights on one machine."""

    role: Role
    iterations: int
    batch_size: int = 48
    learning_rate: float = 3e-3
    warmup: int = 100
    decay_share: float = 0.25
    average: float = 0.99
    """Decay of the running average of the weights, which is what is exported; per iteration."""
    practice: float = 0.0
    """Share of rows that are bare equations."""
    seed: int = 0

    def rate_at(self, iteration: int) -> float:
        """Learning rate at 0-based `iteration`."""
        rising = min(1.0, (iteration + 1) / self.warmup)
        left = (self.iterations - iteration) / max(1.0, self.iterations * self.decay_share)
        return self.learning_rate * min(rising, 1.0, left)


class Run:
    """A model in training with everything a checkpoint must hold."""

    def __init__(self, recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> None:
        self.recipe = recipe
        self.tokenizer = tokenizer
        self.iteration = 0
        self.model = build_model(recipe.role, tokenizer, recipe.seed)
        self.optimizers = optimizers_for(self.model, recipe.learning_rate)
        self.average = [p.detach().clone() for p in self.model.parameters()]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        torch.save(
            {
                "role": self.recipe.role,
                "iteration": self.iteration,
                "model": self.model.state_dict(),
                "average": self.average,
                "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            },
            fresh,
        )
        fresh.replace(path)

    def resume(self, path: Path) -> None:
        """Takes up a checkpoint; the recipe may name other iterations, never another model."""
        held: dict[str, Any] = torch.load(path, weights_only=True)
        if held["role"] != self.recipe.role:
            raise ValueError(f"{path} holds a {held['role']}, not a {self.recipe.role}")
        self.iteration = held["iteration"]
        self.model.load_state_dict(held["model"])
        self.average = held["average"]
        for optimizer, state in zip(self.optimizers, held["optimizers"], strict=True):
            optimizer.load_state_dict(state)

    def averaged_model(self) -> LlamaForCausalLM:
        model = build_model(self.recipe.role, self.tokenizer)
        with torch.no_grad():
            torch._foreach_copy_(list(model.parameters()), self.average)
        return model

    def step(self, batch: Batch) -> float:
        """One iteration on one batch; returns its loss in nats per solution token."""
        rate = self.recipe.rate_at(self.iteration)
        loss = solution_loss(self.model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        self.iteration += 1
        weight = max(1 - self.recipe.average, 1 / self.iteration)
        with torch.no_grad():
            torch._foreach_lerp_(self.average, list(self.model.parameters()), weight)
        return float(loss.detach())


def solution_loss(model: LlamaForCausalLM, batch: Batch) -> torch.Tensor:
    """Mean negative log-likelihood of the solution's tokens only; logits are made for no others."""
    ids, labels = batch
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
    counted = labels != IGNORED
    return functional.cross_entropy(model.lm_head(hidden[counted]), labels[counted])


def train(
    run: Run,
    checkpoint: Path | None = None,
    *,
    save_every: int = 200,
    log: Callable[[str], None] = print,
) -> None:
    """Runs `run` to its recipe's end, saving now and then and at the end."""
    recipe = run.recipe
    batches = training_batches(
        run.tokenizer, recipe.batch_size, recipe.seed, run.iteration, recipe.practice
    )
    recent, began, first = 0.0, time.perf_counter(), run.iteration
    while run.iteration < recipe.iterations:
        loss = run.step(next(batches))
        recent = loss if not recent else 0.95 * recent + 0.05 * loss
        if run.iteration % 50 == 0:
            pace = (run.iteration - first) / (time.perf_counter() - began)
            rate = recipe.rate_at(run.iteration)
            log(
                f"{run.iteration}/{recipe.iterations} loss {recent:.4f}"
                f" rate {rate:.1e} {pace:.2f}/s"
            )
        if checkpoint and (run.iteration % save_every == 0 or run.iteration == recipe.iterations):
            run.save(checkpoint)

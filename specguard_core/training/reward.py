"""The bundled reward model: a token classifier that says of each step whether it is right.

body      the target's own layers, as they are: what they expected of each token, and which came
top       layers on the body, the only ones that are trained; what the body gives them is computed
          once for each example
label     at the last token of a step: 1 right, 0 wrong; the reward is the softmax of 1
"""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForTokenClassification,
    LlamaModel,
    PreTrainedTokenizerFast,
)

from specguard_core.training.batches import IGNORED
from specguard_core.training.optimizers import optimizers_for
from specguard_core.training.reward_data import Labelled, held_out
from specguard_core.training.tokenizer import prompt_text

_SHAPE = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "rope_parameters",
    "rms_norm_eps",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
)


@dataclass(frozen=True, slots=True)
class RewardRecipe:
    """What decides a run; n_layers: of the top."""

    iterations: int
    n_layers: int = 2
    batch_size: int = 32
    learning_rate: float = 2e-3
    warmup: int = 20
    decay_share: float = 0.5
    average: float = 0.98

    def rate_at(self, iteration: int) -> float:
        """Learning rate at 0-based `iteration`."""
        rising = min(1.0, (iteration + 1) / self.warmup)
        left = (self.iterations - iteration) / max(1.0, self.iterations * self.decay_share)
        return self.learning_rate * min(rising, 1.0, left)


@dataclass(frozen=True, slots=True)
class RewardBatch:
    """ids and labels are [rows, length]; a label is 1 or 0 at a step's last token, else `IGNORED`.

    features   [rows, length, width] of the body, in half precision; None until they are computed
    """

    ids: Tensor
    labels: Tensor
    features: Tensor | None = None


def classifier(body: LlamaForCausalLM, n_layers: int, seed: int = 0) -> LlamaForTokenClassification:
    """A fresh classifier of two labels in the body's shape; added layers begin as identities."""
    own: dict[str, Any] = body.config.to_dict()
    shape: dict[str, Any] = {name: own[name] for name in _SHAPE}
    labels: dict[str, Any] = {
        "id2label": {0: "wrong", 1: "right"},
        "label2id": {"wrong": 0, "right": 1},
        "classifier_dropout": 0.0,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForTokenClassification(
            LlamaConfig(**shape, **labels, num_hidden_layers=n_layers)
        )
    with torch.no_grad():
        model.model.norm.load_state_dict(body.model.norm.state_dict())
        added: Any
        for added in model.model.layers:
            added.self_attn.o_proj.weight.zero_()
            added.mlp.down_proj.weight.zero_()
    return model


def collate(tokenizer: PreTrainedTokenizerFast, examples: Sequence[Labelled]) -> RewardBatch:
    """Right-padded rows; a step's label stands at its last token."""
    prompts = [prompt_text(example.question) for example in examples]
    texts = [p + "".join(e.steps) for p, e in zip(prompts, examples, strict=True)]
    encoded = tokenizer(texts, return_offsets_mapping=True)
    length = max(map(len, encoded["input_ids"]))
    ids = torch.full((len(examples), length), int(tokenizer.pad_token_id))
    labels = torch.full_like(ids, IGNORED)
    for row, example in enumerate(examples):
        own = torch.tensor(encoded["input_ids"][row])
        stops = [stop for _, stop in encoded["offset_mapping"][row]]
        ids[row, : len(own)] = own
        border = len(prompts[row])
        for step, right in zip(example.steps, example.right, strict=True):
            border += len(step)
            labels[row, stops.index(border)] = int(right)
    return RewardBatch(ids, labels)


def by_length(examples: Sequence[Labelled], size: int) -> list[list[Labelled]]:
    """Groups of examples of like length, so that little is padding."""
    ordered = sorted(examples, key=lambda e: len(e.question) + sum(map(len, e.steps)))
    return [ordered[i : i + size] for i in range(0, len(ordered), size)]


class RewardRun:
    """A top in training with everything a checkpoint must hold."""

    def __init__(
        self,
        recipe: RewardRecipe,
        body: LlamaForCausalLM,
        tokenizer: PreTrainedTokenizerFast,
        examples: Sequence[Labelled],
    ) -> None:
        self.recipe = recipe
        self.body = body
        self.tokenizer = tokenizer
        self.groups = by_length(examples, recipe.batch_size)
        self.iteration = 0
        self.top = classifier(body, recipe.n_layers)
        self.optimizers = optimizers_for(self.top, recipe.learning_rate)
        self.average = [p.detach().clone() for p in self.top.parameters()]
        self._below: LlamaModel = copy.deepcopy(body.model).eval()
        self._below.norm = nn.Identity()  # the top has its own
        self._batches: dict[int, RewardBatch] = {}

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        held = {
            "iteration": self.iteration,
            "top": self.top.state_dict(),
            "average": self.average,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        torch.save(held, fresh)
        fresh.replace(path)

    def resume(self, path: Path) -> None:
        """Takes up a checkpoint of the same body; the recipe may name other iterations."""
        held: dict[str, Any] = torch.load(path, weights_only=True)
        self.iteration = held["iteration"]
        self.top.load_state_dict(held["top"])
        self.average = held["average"]
        for optimizer, state in zip(self.optimizers, held["optimizers"], strict=True):
            optimizer.load_state_dict(state)

    def whole_model(self) -> LlamaForTokenClassification:
        """The body's layers and, on them, the average of the top's."""
        n_body = len(self.body.model.layers)
        model = classifier(self.body, n_body + self.recipe.n_layers)
        top = classifier(self.body, self.recipe.n_layers)
        with torch.no_grad():
            torch._foreach_copy_(list(top.parameters()), self.average)
        model.model.embed_tokens.load_state_dict(self.body.model.embed_tokens.state_dict())
        for layer, given in zip(
            model.model.layers, (*self.body.model.layers, *top.model.layers), strict=True
        ):
            layer.load_state_dict(given.state_dict())
        model.model.norm.load_state_dict(top.model.norm.state_dict())
        model.score.load_state_dict(top.score.state_dict())
        model.eval()
        return model

    def step(self, batch: RewardBatch) -> float:
        """One iteration; returns the loss in nats per step of a solution."""
        rate = self.recipe.rate_at(self.iteration)
        assert batch.features is not None
        hidden = self.top.model(
            inputs_embeds=batch.features.float(), use_cache=False
        ).last_hidden_state
        labelled = batch.labels != IGNORED
        loss = functional.cross_entropy(self.top.score(hidden[labelled]), batch.labels[labelled])
        loss.backward()
        nn.utils.clip_grad_norm_(self.top.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        self.iteration += 1
        weight = max(1 - self.recipe.average, 1 / self.iteration)
        with torch.no_grad():
            torch._foreach_lerp_(self.average, list(self.top.parameters()), weight)
        return float(loss.detach())

    def batch(self, iteration: int) -> RewardBatch:
        """Batches in another order each time all were seen; a function of the iteration alone."""
        epoch, place = divmod(iteration, len(self.groups))
        order = list(range(len(self.groups)))
        Random(epoch).shuffle(order)
        number = order[place]
        if number not in self._batches:
            batch = collate(self.tokenizer, self.groups[number])
            with torch.no_grad():
                features = self._below(input_ids=batch.ids, use_cache=False).last_hidden_state
            self._batches[number] = RewardBatch(batch.ids, batch.labels, features.half())
        return self._batches[number]


def train_reward(
    run: RewardRun,
    checkpoint: Path | None = None,
    *,
    save_every: int = 50,
    log: Callable[[str], None] = print,
) -> None:
    """Runs `run` to its recipe's end, saving now and then and at the end."""
    recipe = run.recipe
    recent, began, first = 0.0, time.perf_counter(), run.iteration
    while run.iteration < recipe.iterations:
        loss = run.step(run.batch(run.iteration))
        recent = loss if not recent else 0.95 * recent + 0.05 * loss
        if run.iteration % 25 == 0:
            pace = (run.iteration - first) / (time.perf_counter() - began)
            rate = recipe.rate_at(run.iteration)
            log(
                f"{run.iteration}/{recipe.iterations} loss {recent:.4f} rate {rate:.1e}"
                f" {pace:.2f}/s"
            )
        if checkpoint and (run.iteration % save_every == 0 or run.iteration == recipe.iterations):
            run.save(checkpoint)


def export_reward(
    model: LlamaForTokenClassification, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> None:
    """Writes config, fp16 weights and tokenizer; the old folder stands until the new is whole."""
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    half = LlamaForTokenClassification(model.config)
    half.load_state_dict(model.state_dict())
    half.half().save_pretrained(fresh)
    (fresh / "model.safetensors").chmod(0o644)
    tokenizer.save_pretrained(fresh)
    old = folder.with_name(folder.name + ".old")
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class RewardScore:
    """On held-out steps of the draft, a draw counting once.

    auc        chance that a right draw has a higher reward than a wrong one, ties half
    accepted   share of the right, and of the wrong draws with a reward >= 0.7
    """

    n_draws: int
    n_wrong: int
    auc: float
    accepted: tuple[float, float]


def evaluate_reward(
    model: LlamaForTokenClassification,
    draft: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    rows: Iterable[dict[str, object]],
) -> RewardScore:
    """How well rewards tell right steps from wrong ones, on steps sampled after gold ones."""
    examples = held_out(draft.eval(), tokenizer, rows)
    rewards = np.array(last_rewards(model, tokenizer, [example for example, _ in examples]))
    counts = np.array([count for _, count in examples])
    right = np.array([example.right[-1] for example, _ in examples])
    good, bad = counts * right, counts * ~right
    return RewardScore(
        n_draws=int(counts.sum()),
        n_wrong=int(bad.sum()),
        auc=area_under_curve(rewards, good, bad),
        accepted=(
            float(good[rewards >= 0.7].sum() / max(good.sum(), 1)),
            float(bad[rewards >= 0.7].sum() / max(bad.sum(), 1)),
        ),
    )


@torch.no_grad()
def last_rewards(
    model: LlamaForTokenClassification,
    tokenizer: PreTrainedTokenizerFast,
    examples: Sequence[Labelled],
    batch_size: int = 64,
) -> list[float]:
    """The reward of each example's last step, in [0, 1]."""
    found: list[float] = []
    for start in range(0, len(examples), batch_size):
        batch = collate(tokenizer, examples[start : start + batch_size])
        labelled = batch.labels != IGNORED
        last = labelled.shape[1] - 1 - labelled.flip(1).int().argmax(dim=1)
        hidden = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state
        logits = model.score(hidden[torch.arange(len(last)), last])
        found += logits.softmax(dim=-1)[:, 1].tolist()
    return found


def area_under_curve(
    rewards: Sequence[float] | np.ndarray[Any, Any],
    good: Sequence[int] | np.ndarray[Any, Any],
    bad: Sequence[int] | np.ndarray[Any, Any],
) -> float:
    """ROC AUC where value i was seen `good[i]` times on a right and `bad[i]` on a wrong step."""
    values, place = np.unique(np.asarray(rewards), return_inverse=True)
    rights = np.bincount(place, weights=np.asarray(good), minlength=len(values))
    wrongs = np.bincount(place, weights=np.asarray(bad), minlength=len(values))
    below = np.cumsum(wrongs) - wrongs
    pairs = rights.sum() * wrongs.sum()
    return float((rights * (below + wrongs / 2)).sum() / pairs) if pairs else 0.5

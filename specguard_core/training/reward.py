"""The bundled reward model: a token classifier that says of each step whether it is right.

body      the draft's own layers and, after each, one more that at first changes nothing: it knows
          what the draft knows, and has room to learn what the draft gets wrong
label     at the last token of a step: 1 right, 0 wrong; the reward is the softmax of 1
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    PreTrainedTokenizerFast,
)

from specguard_core.training.batches import IGNORED
from specguard_core.training.optimizers import optimizers_for
from specguard_core.training.reward_data import Labelled, drafted_block, held_out, spoilt_block
from specguard_core.training.tokenizer import prompt_text

ROWS_PER_BLOCK = 768


@dataclass(frozen=True, slots=True)
class RewardRecipe:
    """What decides a run.

    drafted        share of rows that the draft wrote; the others are spoilt gold solutions
    word_weight    weight of the draft's own task beside the labels: to write the right steps
    """

    iterations: int
    batch_size: int = 32
    learning_rate: float = 2e-3
    warmup: int = 50
    decay_share: float = 0.4
    average: float = 0.99
    drafted: float = 0.5
    word_weight: float = 0.3

    def rate_at(self, iteration: int) -> float:
        """Learning rate at 0-based `iteration`."""
        rising = min(1.0, (iteration + 1) / self.warmup)
        left = (self.iterations - iteration) / max(1.0, self.iterations * self.decay_share)
        return self.learning_rate * min(rising, 1.0, left)


@dataclass(frozen=True, slots=True)
class RewardBatch:
    """ids, words and labels are [rows, length].

    words    the next token where it belongs to a right step, else `IGNORED`
    labels   1 or 0 at the last token of a step, else `IGNORED`
    """

    ids: Tensor
    words: Tensor
    labels: Tensor


def grown(draft: LlamaForCausalLM, seed: int = 0) -> LlamaForTokenClassification:
    """A classifier on the draft's body with a layer added after each of its own."""
    own: dict[str, Any] = draft.config.to_dict()
    n_layers = int(own["num_hidden_layers"])
    shape = {
        name: own[name]
        for name in (
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
    }
    config = LlamaConfig(
        **shape,
        num_hidden_layers=2 * n_layers,
        num_labels=2,
        id2label={0: "wrong", 1: "right"},
        label2id={"wrong": 0, "right": 1},
        classifier_dropout=0.0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForTokenClassification(config)
    with torch.no_grad():
        model.model.embed_tokens.load_state_dict(draft.model.embed_tokens.state_dict())
        model.model.norm.load_state_dict(draft.model.norm.state_dict())
        for index, layer in enumerate(draft.model.layers):
            model.model.layers[2 * index].load_state_dict(layer.state_dict())
            added: Any = model.model.layers[2 * index + 1]
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
    words, labels = torch.full_like(ids, IGNORED), torch.full_like(ids, IGNORED)
    for row, example in enumerate(examples):
        own = torch.tensor(encoded["input_ids"][row])
        stops = [stop for _, stop in encoded["offset_mapping"][row]]
        ids[row, : len(own)] = own
        first, border = stops.index(len(prompts[row])), len(prompts[row])
        for step, right in zip(example.steps, example.right, strict=True):
            border += len(step)
            last = stops.index(border)
            if right:
                words[row, first:last] = own[first + 1 : last + 1]
            labels[row, last] = int(right)
            first = last
    return RewardBatch(ids, words, labels)


class RewardRun:
    """A classifier in training with everything a checkpoint must hold."""

    def __init__(
        self, recipe: RewardRecipe, draft: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        self.recipe = recipe
        self.draft = draft.eval()
        self.tokenizer = tokenizer
        self.iteration = 0
        self.model = grown(draft)
        self.optimizers = optimizers_for(self.model, recipe.learning_rate)
        self.average = [p.detach().clone() for p in self.model.parameters()]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        held = {
            "iteration": self.iteration,
            "model": self.model.state_dict(),
            "average": self.average,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        torch.save(held, fresh)
        fresh.replace(path)

    def resume(self, path: Path) -> None:
        """Takes up a checkpoint of the same draft; the recipe may name other iterations."""
        held: dict[str, Any] = torch.load(path, weights_only=True)
        self.iteration = held["iteration"]
        self.model.load_state_dict(held["model"])
        self.average = held["average"]
        for optimizer, state in zip(self.optimizers, held["optimizers"], strict=True):
            optimizer.load_state_dict(state)

    def averaged_model(self) -> LlamaForTokenClassification:
        model = grown(self.draft)
        with torch.no_grad():
            torch._foreach_copy_(list(model.parameters()), self.average)
        return model.eval()

    def step(self, batch: RewardBatch) -> tuple[float, float]:
        """One iteration; returns the loss of the labels and of the words, in nats."""
        rate = self.recipe.rate_at(self.iteration)
        hidden = self.model.model(input_ids=batch.ids, use_cache=False).last_hidden_state
        labelled, counted = batch.labels != IGNORED, batch.words != IGNORED
        label_loss = functional.cross_entropy(
            self.model.score(hidden[labelled]), batch.labels[labelled]
        )
        embeddings = self.model.model.embed_tokens.weight
        word_loss = functional.cross_entropy(hidden[counted] @ embeddings.T, batch.words[counted])
        (label_loss + self.recipe.word_weight * word_loss).backward()
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
        return float(label_loss.detach()), float(word_loss.detach())

    def batches(self) -> Iterator[RewardBatch]:
        """The endless stream of batches from the current iteration on."""
        size = self.recipe.batch_size
        per_block = ROWS_PER_BLOCK // size
        block, skip = divmod(self.iteration, per_block)
        while True:
            n_drafted = round(ROWS_PER_BLOCK * self.recipe.drafted)
            rows = drafted_block(self.draft, self.tokenizer, block, n_drafted)
            rows += spoilt_block(block, ROWS_PER_BLOCK - n_drafted)
            rows.sort(key=lambda row: len(row.question) + sum(map(len, row.steps)))
            groups = [rows[i : i + size] for i in range(0, per_block * size, size)]
            Random(block).shuffle(groups)
            yield from (collate(self.tokenizer, group) for group in groups[skip:])
            block, skip = block + 1, 0


def train_reward(
    run: RewardRun,
    checkpoint: Path | None = None,
    *,
    save_every: int = 100,
    log: Callable[[str], None] = print,
) -> None:
    """Runs `run` to its recipe's end, saving now and then and at the end."""
    recipe, batches = run.recipe, run.batches()
    recent, began, first = np.zeros(2), time.perf_counter(), run.iteration
    while run.iteration < recipe.iterations:
        losses = np.array(run.step(next(batches)))
        recent = 0.95 * recent + 0.05 * losses if recent.any() else losses
        if run.iteration % 25 == 0:
            pace = (run.iteration - first) / (time.perf_counter() - began)
            log(
                f"{run.iteration}/{recipe.iterations} labels {recent[0]:.4f} words {recent[1]:.4f}"
                f" rate {recipe.rate_at(run.iteration):.1e} {pace:.2f}/s"
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

"""How the pair's two language models are trained. Knows no problem text; the loop is `loop`'s."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specguard_core.training.batches import IGNORED, Batch, training_batches
from specguard_core.training.loop import Run, Schedule
from specguard_core.training.models import Role, build_model
from specguard_core.training.optimizers import optimizers_for


@dataclass(frozen=True, slots=True)
class Recipe(Schedule):
    """What decides a run; two runs of equal recipes end in equal weights on one machine."""

    role: Role
    batch_size: int = 48
    practice: float = 0.0
    """Share of rows that are bare equations."""
    seed: int = 0


class LanguageRun(Run[Batch]):
    """A language model of the pair in training."""

    model: LlamaForCausalLM

    def __init__(self, recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> None:
        model = build_model(recipe.role, tokenizer, recipe.seed)
        super().__init__(recipe.role, recipe, model, optimizers_for(model, recipe.learning_rate))
        self.recipe = recipe
        self.tokenizer = tokenizer

    def batches(self) -> Iterator[Batch]:
        recipe = self.recipe
        return training_batches(
            self.tokenizer, recipe.batch_size, recipe.seed, self.iteration, recipe.practice
        )

    def loss(self, batch: Batch) -> Tensor:
        """Mean negative log-likelihood, in nats, of the solution's tokens only."""
        ids, labels = batch
        hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
        counted = labels != IGNORED
        return functional.cross_entropy(self.model.lm_head(hidden[counted]), labels[counted])

    def averaged_model(self) -> LlamaForCausalLM:
        model = build_model(self.recipe.role, self.tokenizer)
        with torch.no_grad():
            torch._foreach_copy_(list(model.parameters()), self.average)
        return model

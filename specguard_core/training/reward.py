"""The bundled reward model's training: a token classifier that says of each step if it is right.

The whole model is trained, gently: it begins as `reward_model` builds it. At each token of a step
it learns whether the step may still become a right one, at its last token whether it is; and, so
that its body goes on expecting the right tokens, what the next token of a right solution is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    LlamaForCausalLM,
    LlamaForTokenClassification,
    PreTrainedTokenizerFast,
)

from specguard_core.training.loop import Run, Schedule
from specguard_core.training.reward_batches import RewardBatch, batches
from specguard_core.training.reward_data import Drafted
from specguard_core.training.reward_model import N_ADDED, begun, hold_still


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardRecipe(Schedule):
    """What decides a run.

    body_share   of the learning rate, for the body and the comparator
    expecting    weight of the language model's loss
    """

    learning_rate: float = 4e-4
    warmup: int = 50
    decay_share: float = 0.4
    batch_size: int = 16
    body_share: float = 0.5
    expecting: float = 0.2


class Judge(nn.Module):
    """The classifier, and the norm through which its body's states say the next token."""

    def __init__(self, body: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
        super().__init__()
        self.body_width = int(body.config.hidden_size)
        self.n_body = int(body.config.num_hidden_layers)
        self.classifier = begun(body, tokenizer)
        hold_still(self.classifier, self.body_width)
        self.saying = type(body.model.norm)(self.body_width, eps=body.config.rms_norm_eps)
        self.saying.load_state_dict(body.model.norm.state_dict())

    def forward(self, batch: RewardBatch) -> tuple[Tensor, Tensor]:
        """Logits [rows, length, 2] of wrong and right, and [rows, length, width] to say tokens."""
        out = self.classifier.model(
            input_ids=batch.ids,
            position_ids=batch.positions,
            attention_mask=batch.mask,
            use_cache=False,
            output_hidden_states=True,
        )
        states = out.hidden_states[self.n_body][..., : self.body_width]
        return self.classifier.score(out.last_hidden_state), self.saying(states)

    def says(self, states: Tensor) -> Tensor:
        """[n, width] -> [n, vocabulary] logits."""
        words: Tensor = self.classifier.model.embed_tokens.weight[:, : self.body_width]
        return states @ words.T


class RewardRun(Run[RewardBatch]):
    """A reward model in training."""

    model: Judge

    def __init__(
        self,
        recipe: RewardRecipe,
        body: LlamaForCausalLM,
        tokenizer: PreTrainedTokenizerFast,
        solutions: Sequence[Drafted],
    ) -> None:
        model = Judge(body, tokenizer)
        super().__init__("reward", recipe, model, [_optimizer(model, recipe)])
        self.recipe = recipe
        self.tokenizer = tokenizer
        self.solutions = solutions

    def batches(self) -> Iterator[RewardBatch]:
        return batches(self.tokenizer, self.solutions, self.recipe.batch_size, self.iteration)

    def loss(self, batch: RewardBatch) -> Tensor:
        """In nats a token: of the labels by their weights, and of the right solutions' tokens."""
        logits, states = self.model(batch)
        counted = batch.weight > 0
        weights = batch.weight[counted]
        judged = functional.cross_entropy(logits[counted], batch.right[counted], reduction="none")
        said = self.model.says(states[:, :-1][batch.followed[:, :-1]])
        following = batch.ids[:, 1:][batch.followed[:, :-1]]
        expected = functional.cross_entropy(said, following)
        return (judged * weights).sum() / weights.sum() + self.recipe.expecting * expected

    def averaged_model(self) -> LlamaForTokenClassification:
        held = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        with torch.no_grad():
            torch._foreach_copy_(list(held.values()), self.average)
        prefix = "classifier."
        model = LlamaForTokenClassification(self.model.classifier.config)
        model.load_state_dict(
            {n.removeprefix(prefix): p for n, p in held.items() if n.startswith(prefix)}
        )
        model.eval()
        return model


def _optimizer(model: Judge, recipe: RewardRecipe) -> torch.optim.Optimizer:
    """AdamW; Muon, which pushes all directions alike, would blur what was built by hand."""
    fast = ("classifier.score.", "classifier.model.norm.", f"layers.{model.n_body + N_ADDED - 1}.")
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    top = [p for name, p in named if any(part in name for part in fast)]
    rest = [p for name, p in named if not any(part in name for part in fast)]
    groups = [{"params": rest, "share": recipe.body_share}, {"params": top, "share": 1.0}]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.0)

"""The shapes of the pair, and how a model becomes a Hugging Face folder. Knows no training.

Weights are stored as fp16: trained weights lie well inside its range, and it rounds eight times
finer than bf16. The configuration says so, and the engine may load them as fp32.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForTokenClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from specguard_core.training.tokenizer import CONTEXT_LENGTH

Role = Literal["draft", "target", "tiny"]


@dataclass(frozen=True, slots=True)
class Shape:
    width: int
    layers: int
    heads: int
    inner: int


SHAPES: dict[Role, Shape] = {
    "draft": Shape(width=64, layers=3, heads=4, inner=160),
    "target": Shape(width=160, layers=5, heads=5, inner=432),
    "tiny": Shape(width=32, layers=2, heads=2, inner=64),
}
"""`tiny` is for tests: too small to learn the task."""


def build_model(role: Role, tokenizer: PreTrainedTokenizerFast, seed: int = 0) -> LlamaForCausalLM:
    """A freshly initialised model in fp32; equal seeds give equal weights."""
    shape = SHAPES[role]
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=CONTEXT_LENGTH,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def export(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Writes config, fp16 weights and tokenizer of a language model."""
    half = LlamaForCausalLM(model.config)
    half.load_state_dict(model.state_dict())
    half.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        do_sample=False,
    )
    write_folder(half.half(), tokenizer, folder)


def export_reward(
    model: LlamaForTokenClassification, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> None:
    """Writes config, fp16 weights and tokenizer of a reward model."""
    half = LlamaForTokenClassification(model.config)
    half.load_state_dict(model.state_dict())
    write_folder(half.half(), tokenizer, folder)


def write_folder(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """The old folder stands until the new one is whole."""
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    model.save_pretrained(fresh)
    (fresh / "model.safetensors").chmod(0o644)
    tokenizer.save_pretrained(fresh)
    old = folder.with_name(folder.name + ".old")
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)

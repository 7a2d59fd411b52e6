"""Models for the block decoder: scripted lines of tokens, and tiny random transformers. Knows no
test.

line    what a model says after the prompt, token by token, whoever wrote the ones before
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from specguard_core.acceptance import accept_greedy
from specguard_core.backends.hf import HfModel
from specguard_core.backends.loading import prepare
from specguard_core.backends.scripted import EOS, ScriptedModel, ScriptedVocabulary, scripted_info
from specguard_core.backends.sources import Source
from specguard_core.backends.tokenizer import HfVocabulary
from specguard_core.block_requests import DraftedBlock, DraftRequest, JudgedBlock, JudgeRequest
from specguard_core.config import DecodeConfig
from specguard_core.lm import Models, TokenIds
from specguard_core.types import Decision, ModelInfo, Trace
from tests.builders import configured
from tests.tiny_models import tiny_tokenizer

VOCABULARY = ScriptedVocabulary()
LONG = {"max_steps": 10_000, "repeat_limit": 1_000, "max_step_tokens": 100_000}
"""Knobs under which only the token budget or the text itself ends a run."""


@dataclass
class LineModel(ScriptedModel):
    """Says its line, greedily; after the line only the last token of it."""

    line: TokenIds = ()
    n_prompt: int = 0
    info: ModelInfo = field(default_factory=scripted_info)
    asked: list[int] = field(default_factory=list)

    def draft_blocks(self, requests: Sequence[DraftRequest], **_: Any) -> list[DraftedBlock]:
        self.asked += [request.n_tokens for request in requests]
        return [
            DraftedBlock(self.said(request.prefix, request.n_tokens), None, 0.0)
            for request in requests
        ]

    def judge_blocks(self, requests: Sequence[JudgeRequest], **_: Any) -> list[JudgedBlock]:
        answers = []
        for request in requests:
            ids = () if request.drafted is None else request.drafted.token_ids
            judged = accept_greedy(ids, self.said(request.prefix, len(ids) + 1), None)
            answers.append(JudgedBlock(judged.decisions, judged.correction, 1, len(ids) + 1, 0.0))
        return answers

    def said(self, prefix: TokenIds, count: int) -> TokenIds:
        first = len(prefix) - self.n_prompt
        return (self.line + self.line[-1:] * (first + count))[first : first + count]


def line_pair(
    text: str, draft_text: str | None = None, *, n_prompt: int, context_length: int = 4096
) -> Models:
    """A target that says `text` and EOS, and a draft that says the same or another text."""
    models = [
        LineModel(
            line=(*VOCABULARY.encode(said), EOS),
            n_prompt=n_prompt,
            info=scripted_info(name, context_length=context_length),
        )
        for name, said in (("draft", text if draft_text is None else draft_text), ("target", text))
    ]
    return Models(VOCABULARY, *models)


@cache
def _weights(vocabulary_size: int, n_positions: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary_size,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=n_positions,
        bos_token_id=0,
        eos_token_id=1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = LlamaForCausalLM(config)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.data.normal_(std=1.5 / parameter.shape[-1] ** 0.5)
    return model.eval().requires_grad_(False)


def random_model(
    noise: float = 0.0,
    *,
    vocabulary_size: int = 300,
    eos: tuple[int, ...] = (),
    n_positions: int = 4096,
) -> HfModel:
    """A tiny random transformer behind the seam; with noise, one that resembles it."""
    import copy

    model = copy.deepcopy(_weights(vocabulary_size, n_positions))
    generator = torch.Generator().manual_seed(9)
    for parameter in model.parameters():
        if noise and parameter.dim() > 1:
            scale = noise * parameter.std()
            parameter.data += scale * torch.randn(parameter.shape, generator=generator)
    info = prepare(model, Source("tiny", "tiny", {}))
    return HfModel(model, info, HfVocabulary(tiny_tokenizer(), eos))


def random_pair(noise: float = 0.3, **options: Any) -> Models:
    """A tiny target and a draft that resembles it; at noise 0 the draft is its equal."""
    target = random_model(**options)
    return Models(target.vocabulary, random_model(noise, **options), target)


def blocks(**knobs: Any) -> DecodeConfig:
    """A config of plain speculative decoding with a short prompt."""
    return configured(**({"strategy": "speculative", "system_prompt": "x"} | knobs))


def decisions_of(*traces: Trace) -> list[Decision]:
    """Every decision of these traces, in order."""
    return [d for trace in traces for block in trace.blocks for d in block.decisions]


def generated(trace: Trace) -> TokenIds:
    """The token ids after the prompt."""
    return trace.context_ids[len(trace.prompt_ids) :]

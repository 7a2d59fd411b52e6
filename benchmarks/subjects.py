"""The models that are measured: one of a real model's shape with random weights, the bundled pair,
or any pair of a person's own. Knows no benchmark.

shape      sizes of a Qwen2 model as published; its speed does not depend on what its weights say
spread     standard deviation of the random model's logits. As it is initialised they are almost
           even, and a nucleus holds half the vocabulary; a trained model's holds a few tokens
endless    a model to which no token is the end: every draw runs to its limit
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from specguard_core import load_models
from specguard_core.backends.hf import HfModel
from specguard_core.backends.loading import prepare
from specguard_core.backends.placement import Place, choose_dtype
from specguard_core.backends.prepacking import PrepackedLinear, prepack
from specguard_core.backends.sources import Source
from specguard_core.backends.tokenizer import HfVocabulary
from specguard_core.bundled import DRAFT, PROBLEMS, TARGET
from specguard_core.calibration import default_calibration
from specguard_core.lm import DrawBatch, Models, SampleRequest, TokenIds
from specguard_core.problem_files import read_problems
from specguard_core.types import Calibration, PromptSegment

DEFAULT_SPREAD = 8.0
"""nats; at temperature 0.7 the nucleus of 0.8 then holds a few tokens, as of a trained model."""

N_DRAWS, TEMPERATURE, TOP_P, CAPTURE_LAYERS = 4, 0.7, 0.8, 3
"""How candidates are drawn under the default preset."""

UNWRITTEN = "\0 never written \0"
"""A delimiter that no model writes: a step then ends at its limit."""


@dataclass(frozen=True, slots=True)
class Shape:
    """n_ids: ids the tokenizer knows; the vocabulary is padded beyond them."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    n_ids: int


QWEN = Shape("Qwen2.5-0.5B shape", 896, 24, 14, 2, 4864, 151_936, 151_665)
TOY = Shape("toy shape", 32, 4, 4, 2, 64, 512, 500)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured.

    endless    draft and target that never stop by themselves; the same weights as in `models`
    models     the pair as people use it, and the problems it is asked
    prefix     tokens that no blank line parts
    """

    name: str
    endless: Models
    models: Models
    problems: tuple[str, ...]
    prefix: TokenIds
    calibration: Calibration | None
    bundled: bool

    @property
    def draft(self) -> Any:
        return self.endless.draft

    @property
    def target(self) -> Any:
        return self.endless.target


class NumberedVocabulary:
    """Stands in for a tokenizer: a token is a number of four digits and more, no text has a blank
    line, and every problem's prompt is the same tokens."""

    eos_token_ids: frozenset[int] = frozenset()
    prompt_template = "plain"
    template_text = None

    def __init__(self, n_ids: int, prefix: TokenIds) -> None:
        self.tokens = {token_id: str(token_id) for token_id in range(n_ids)}
        self.prefix = prefix
        self.tokenizer_hash = hashlib.sha256(str(n_ids).encode()).hexdigest()

    def prompt(
        self, problem: str, system_prompt: str, thinking: bool | None = None
    ) -> tuple[PromptSegment, ...]:
        return (PromptSegment("question", self.prefix),)

    def piece(self, token_id: int) -> bytes:
        return f" {token_id:04d}".encode()

    def encode(self, text: str) -> TokenIds:
        return tuple(map(int, text.split()))


def random_model(shape: Shape, dtype: str, spread: float) -> Any:
    """A Qwen2 model of that shape with random weights, alike each time; nothing is downloaded."""
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    precision = choose_dtype(dtype, "cpu", config, shape.vocabulary * shape.hidden)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: Any = AutoModelForCausalLM.from_config(config, dtype=precision)
    # Logits are the normed state, of length sqrt(hidden), times embeddings of the initial range.
    scale = spread / (config.initializer_range * shape.hidden**0.5)
    model.model.norm.weight.data.fill_(scale)
    return model.eval().requires_grad_(False)


def random_subject(shape: Shape, n_prefix: int, dtype: str, spread: float) -> Subject:
    """The random model as draft and as target: one set of weights, two engines."""
    raw = random_model(shape, dtype, spread)
    vocabulary: Any = NumberedVocabulary(shape.n_ids, random_ids(n_prefix, shape.n_ids))
    info = prepare(raw, Source(shape.name, shape.name, {}))
    if Place("cpu", raw.dtype).prepacks:
        prepack(raw)
    draft, target = (HfModel(raw, info, vocabulary) for _ in range(2))
    models = Models(vocabulary, draft=draft, target=target)
    return Subject(shape.name, models, models, ("a problem",), vocabulary.prefix, None, False)


def bundled_subject(n_prefix: int, n_problems: int) -> Subject:
    """The pair that ships, on its held-out problems."""
    return pair_subject(
        DRAFT, TARGET, n_prefix, n_problems, dtype="auto", name="bundled pair", bundled=True
    )


def pair_subject(
    draft: str | Path,
    target: str | Path,
    n_prefix: int,
    n_problems: int,
    *,
    dtype: str,
    name: str,
    bundled: bool = False,
) -> Subject:
    """A pair with its weights, on the held-out problems that ship."""
    models = load_models(draft, target, dtype=dtype)
    assert isinstance(models.vocabulary, HfVocabulary)
    vocabulary = HfVocabulary(models.vocabulary.tokenizer, ())
    both = [model for model in (models.draft, models.target) if isinstance(model, HfModel)]
    unending = [HfModel(raw_model(model), model.info, vocabulary) for model in both]
    for model in both:
        raw_model(model).generation_config.eos_token_id = None
    endless = Models(vocabulary, draft=unending[0], target=unending[1])
    questions = tuple(problem.question for problem in islice(read_problems(PROBLEMS), n_problems))
    text = [token_id for question in questions for token_id in vocabulary.encode(question)]
    prefix = tuple(islice(cycle(text), n_prefix))
    calibration = default_calibration(models)
    return Subject(name, endless, models, questions, prefix, calibration, bundled)


def raw_model(model: Any) -> Any:
    """The transformers model behind the seam."""
    return model._engine.model


def prepacked(model: Any) -> bool:
    """Whether its weights are laid out for this processor."""
    return any(isinstance(module, PrepackedLinear) for module in raw_model(model).modules())


def random_ids(count: int, n_ids: int, seed: int = 0) -> TokenIds:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(0, n_ids, (count,), generator=generator).tolist())


def sample(
    model: Any,
    prefix: TokenIds,
    tokens: int,
    *,
    draws: int = N_DRAWS,
    temperature: float = TEMPERATURE,
    capture: bool = True,
    hidden: bool = True,
    seed: int = 0,
) -> DrawBatch:
    """Steps of exactly so many tokens, by the engine."""
    request = SampleRequest(
        prefix=prefix,
        seeds=tuple(range(seed, seed + draws)),
        temperature=temperature,
        top_p=TOP_P,
        top_k=0,
        delimiter=UNWRITTEN,
        max_tokens=tokens,
        n_alternatives=5,
        n_capture_layers=CAPTURE_LAYERS if capture else 0,
        feed_boundary=False,
        want_hidden=hidden and draws > 1,
    )
    batch: DrawBatch = model.sample_steps([request])[0]
    if any(len(draw.token_ids) != tokens for draw in batch.draws):
        raise AssertionError("a draw of an endless model ends at its limit")
    return batch

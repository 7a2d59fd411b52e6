"""Any causal language model that transformers loads, behind the seam of lm.py.

A pair is a draft and a target that share a tokenizer; tokenizers are compared before any weights
are read. One lock per model: calls from several threads take turns.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specguard_core.backends import generation, reading, remote, server, sources
from specguard_core.backends.block import Lines, draft_block, judge_block
from specguard_core.backends.choosing import choose
from specguard_core.backends.engine import Engine
from specguard_core.backends.loading import load_weights, prepare
from specguard_core.backends.reward import load_reward
from specguard_core.backends.sources import Source
from specguard_core.backends.tokenizer import HfVocabulary, first_difference
from specguard_core.errors import UsageError
from specguard_core.lm import (
    ChoiceReading,
    ChoiceRequest,
    DraftedBlock,
    DraftRequest,
    DrawBatch,
    JudgedBlock,
    JudgeRequest,
    Models,
    OnToken,
    ReadRequest,
    SampleRequest,
    ShouldStop,
    StepModel,
    StepReading,
)
from specguard_core.types import ModelInfo

MAX_CACHE_BYTES = 1 << 30


class HfModel:
    """A StepModel, BlockModel and ChoiceModel over a loaded transformers model."""

    def __init__(
        self,
        model: Any,  # transformers ships no types
        info: ModelInfo,
        vocabulary: HfVocabulary,
        *,
        max_cache_bytes: int = MAX_CACHE_BYTES,
    ) -> None:
        self.info = info
        self.vocabulary = vocabulary
        self._lock = threading.Lock()
        self._engine = Engine(
            model,
            info,
            piece=vocabulary.piece,
            real_ids=list(vocabulary.tokens),
            max_cache_bytes=max_cache_bytes,
        )
        self._lines = Lines(self._engine)

    def forget(self) -> None:
        with self._lock:
            self._engine.store.clear()
            self._lines.clear()

    def sample_steps(
        self,
        requests: Sequence[SampleRequest],
        *,
        on_token: OnToken | None = None,
        should_stop: ShouldStop | None = None,
    ) -> list[DrawBatch]:
        with self._lock, _threads_for(self.info), torch.inference_mode():
            batches = generation.sample(
                self._engine, requests, self.vocabulary.eos_token_ids, on_token, should_stop
            )
            self._engine.store.trim()
            return batches

    def read_steps(
        self, requests: Sequence[ReadRequest], *, should_stop: ShouldStop | None = None
    ) -> list[StepReading]:
        with self._lock, _threads_for(self.info), torch.inference_mode():
            readings = [reading.read(self._engine, request, should_stop) for request in requests]
            self._engine.store.trim()
            return readings

    def read_choices(
        self, requests: Sequence[ChoiceRequest], *, should_stop: ShouldStop | None = None
    ) -> list[ChoiceReading]:
        with self._lock, _threads_for(self.info), torch.inference_mode():
            readings = [choose(self._engine, request, should_stop) for request in requests]
            self._engine.store.trim()
            return readings

    def draft_blocks(
        self,
        requests: Sequence[DraftRequest],
        *,
        on_token: OnToken | None = None,
        should_stop: ShouldStop | None = None,
    ) -> list[DraftedBlock]:
        with self._lock, _threads_for(self.info), torch.inference_mode():
            ends = self.vocabulary.eos_token_ids
            drafted = [draft_block(self._lines, r, ends, on_token, should_stop) for r in requests]
            self._engine.store.trim()
            return drafted

    def judge_blocks(
        self, requests: Sequence[JudgeRequest], *, should_stop: ShouldStop | None = None
    ) -> list[JudgedBlock]:
        with self._lock, _threads_for(self.info), torch.inference_mode():
            judged = [judge_block(self._lines, request, should_stop) for request in requests]
            self._engine.store.trim()
            return judged


@contextmanager
def _threads_for(info: ModelInfo) -> Iterator[None]:
    """One thread for a small model on a CPU: on a busy machine more only wait for each other."""
    before = torch.get_num_threads()
    small = info.device == "cpu" and info.n_parameters < sources.SMALL_MODEL_PARAMETERS
    torch.set_num_threads(1 if small else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def load_models(
    draft: str | Path | None,
    target: str | Path | None,
    *,
    reward: str | Path | None = None,
    dtype: str = "auto",
    device: str = "auto",
    device_map: str | dict[str, int | str] | None = None,
    api_key: str | None = None,
    on_stage: Callable[[str], None] | None = None,
) -> Models:
    """A pair ready to decode; either may be None, not both.

    target       a folder, hub id or GGUF file as the draft, or the address of a server (remote.py)
    reward       a reward model beside them, which has a tokenizer of its own
    dtype        auto, float32, bfloat16 or float16
    device       auto, cpu, cuda, cuda:1, mps, ...
    device_map   as in transformers, instead of `device`, to spread a model over devices
    api_key      for the server, where the target is one; recorded nowhere
    on_stage     called with a few words before each slow part

    Raises:
        ModelError: no model or server there, or one that is not a causal language model.
        PairError: the tokenizers differ; the sentence names the first token that does.
        CacheError: a model whose cache cannot be rolled back.
    """
    if draft is not None and server.is_address(draft):
        raise UsageError(
            "expected a draft that runs here, got a server's address: its signals come from inside "
            "the model, so name a folder, a hub id or a GGUF file"
        )
    address = str(target) if target is not None and server.is_address(target) else None
    if address is not None and draft is None:
        raise UsageError(
            "expected a draft beside a target on a server, got none: its tokenizer is needed"
        )
    local = (("draft", draft), ("target", None if address else target))
    named = {role: sources.find(s) for role, s in local if s}
    if not named:
        raise UsageError("expected a draft or a target to load, got neither: name one")
    configs = {role: sources.read_config(source) for role, source in named.items()}
    tokenizers = {role: sources.read_tokenizer(source) for role, source in named.items()}
    if len(named) == 2:
        sources.require_same_tokenizer(tokenizers["draft"], tokenizers["target"])
    vocabulary = HfVocabulary(
        _prompting_tokenizer(tokenizers),
        frozenset().union(
            *(sources.eos_token_ids(named[r], configs[r], tokenizers[r]) for r in named)
        ),
    )
    loaded = {}
    for role, source in named.items():
        if on_stage is not None:
            on_stage(f"loading {role} {source.name}")
        loaded[role] = _load(source, configs[role], vocabulary, dtype, device, device_map)
    written: StepModel | None = loaded.get("target")
    if address is not None:
        if on_stage is not None:
            on_stage("asking the server")
        written = remote.connect(
            address,
            vocabulary,
            key=api_key,
            context_length=loaded["draft"].info.context_length,
            bos_token_id=vocabulary.added_bos,
        )
    judge = None
    if reward is not None:
        if on_stage is not None:
            on_stage(f"loading reward model {Path(reward).name}")
        judge = load_reward(reward, dtype=dtype, device=device)
    return Models(vocabulary, draft=loaded.get("draft"), target=written, reward=judge)


def _prompting_tokenizer(tokenizers: dict[str, Any]) -> Any:
    """The tokenizer whose template makes the prompts: the target's, if it has one."""
    by_choice = [tokenizers[role] for role in ("target", "draft") if role in tokenizers]
    return next((t for t in by_choice if t.chat_template), by_choice[0])


def _load(
    source: Source,
    config: Any,
    vocabulary: HfVocabulary,
    dtype: str,
    device: str,
    device_map: Any,
) -> HfModel:
    place = sources.choose_device(device)
    precision = sources.choose_dtype(dtype, place, config, sources.n_parameters(config))
    model = load_weights(source, config, dtype=precision, device=place, device_map=device_map)
    return HfModel(model, prepare(model, source), vocabulary)


@dataclass(frozen=True, slots=True)
class Description:
    """What can be said of a model without its weights.

    info                 as a load would give it; grounding is certain only after a load
    weight_bytes         memory of the parameters in the precision named in info
    cache_bytes          memory of keys and values for each token of context
    prompt_template      "chat template" or "plain"
    n_tokens             ids the tokenizer knows
    """

    info: ModelInfo
    weight_bytes: int
    cache_bytes: int
    prompt_template: str
    n_tokens: int


def describe(source: str | Path, *, dtype: str = "auto", device: str = "auto") -> Description:
    """A model's kind, size, memory and fitness, from its configuration and tokenizer alone.

    Raises:
        ModelError, CacheError: as load_models.
    """
    found = sources.find(source)
    config = sources.read_config(found)
    tokenizer = sources.read_tokenizer(found)
    place = sources.choose_device(device)
    n_parameters = sources.n_parameters(config)
    precision = sources.choose_dtype(dtype, place, config, n_parameters)
    text = config.get_text_config()
    heads = text.num_attention_heads
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    head_size = getattr(text, "head_dim", None) or text.hidden_size // heads
    info = ModelInfo(
        name=found.name,
        source=found.named,
        revision=getattr(config, "_commit_hash", None),
        architecture=sources.architecture(config),
        n_parameters=n_parameters,
        n_layers=int(text.num_hidden_layers),
        vocabulary_size=int(text.vocab_size),
        context_length=sources.context_length(config),
        dtype=str(precision).removeprefix("torch."),
        device=place,
        grounding=sources.no_grounding(config) or "captured",
        rollback="crop",
    )
    return Description(
        info=info,
        weight_bytes=n_parameters * precision.itemsize,
        cache_bytes=2 * info.n_layers * kv_heads * head_size * precision.itemsize,
        prompt_template="chat template" if tokenizer.chat_template else "plain",
        n_tokens=len(tokenizer),
    )


def compare_pair(draft: str | Path, target: str | Path) -> str | None:
    """None where the two share a tokenizer, else what first differs, in words."""
    return first_difference(
        *(sources.read_tokenizer(sources.find(source)) for source in (draft, target))
    )

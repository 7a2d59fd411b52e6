"""Any causal language model that transformers loads, behind the seam of lm.py.

A pair is a draft and a target that share a tokenizer; tokenizers are compared before any weights
are read. One lock per model: calls from several threads take turns.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from specguard_core.backends import generation, reading, remote, server, sources
from specguard_core.backends.block import Lines, draft_block, judge_block
from specguard_core.backends.choosing import choose
from specguard_core.backends.engine import Engine
from specguard_core.backends.loading import load_weights, prepare
from specguard_core.backends.parts import (
    MAX_CACHE_BYTES,
    Asked,
    memory_needed,
    prepared,
    prompting_tokenizer,
)
from specguard_core.backends.placement import SPREAD, require_room
from specguard_core.backends.prepacking import prepack
from specguard_core.backends.reward import load_reward
from specguard_core.backends.tokenizer import HfVocabulary, read_template
from specguard_core.block_requests import DraftedBlock, DraftRequest, JudgedBlock, JudgeRequest
from specguard_core.errors import UsageError
from specguard_core.lm import (
    ChoiceReading,
    ChoiceRequest,
    DrawBatch,
    Models,
    OnToken,
    ReadRequest,
    SampleRequest,
    ShouldStop,
    StepModel,
    StepReading,
)
from specguard_core.types import ModelInfo


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
            turn_ends=vocabulary.eos_token_ids,
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
            readings = reading.read(self._engine, requests, should_stop)
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
    draft_device: str | None = None,
    target_device: str | None = None,
    draft_bits: int | None = None,
    target_bits: int | None = None,
    device_map: str | dict[str, int | str] | None = None,
    chat_template: str | Path | None = None,
    api_key: str | None = None,
    on_stage: Callable[[str], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Models:
    """A pair ready to decode; either may be None, not both.

    target          a folder, hub id or GGUF file as the draft, or the address of a server
                    (remote.py)
    reward          a reward model beside them, which has a tokenizer of its own
    dtype           auto, float32, bfloat16 or float16
    device          auto, cpu, cuda, cuda:1, mps, ..., or spread: over all there is, by accelerate
    draft_device    of one model, where it is not that of the others; so target_device
    draft_bits      8 or 4, on a CPU 4: its weights packed by bitsandbytes; so target_bits
    device_map      as in transformers, instead of any device, to spread both models by hand
    chat_template   a Jinja file for the prompts, instead of the tokenizer's own template
    api_key         for the server, where the target is one; recorded nowhere
    on_stage        called with a few words before each slow part
    on_note         called with what a person should know before it happens: the memory that
                    unpacking a GGUF file takes

    Raises:
        ModelError: no model or server there, one that is not a causal language model, or one that
            does not fit into the memory that is free.
        PairError: the tokenizers differ; the sentence names the first token that does.
        CacheError: a model whose cache cannot be rolled back.
        UsageError: a device, precision, packing or template that cannot be had.
    """
    told, noted = on_stage or _unheard, on_note or _unheard
    address = _address_of(draft, target)
    template = None if chat_template is None else read_template(chat_template)
    asked = []
    if draft is not None:
        asked.append(Asked("draft", draft, draft_device or device, draft_bits))
    if target is not None and address is None:
        asked.append(Asked("target", target, target_device or device, target_bits))
    parts = [prepared(one, dtype) for one in asked]
    if not parts:
        raise UsageError("expected a draft or a target to load, got neither: name one")
    if len(parts) == 2:
        sources.require_same_tokenizer(parts[0].tokenizer, parts[1].tokenizer)
    if device_map is None:
        require_room(memory_needed(parts))
    vocabulary = HfVocabulary(
        prompting_tokenizer(parts, template),
        frozenset().union(*(part.eos_token_ids for part in parts)),
        template_name=None if chat_template is None else Path(chat_template).name,
        n_ids=min(part.n_ids for part in parts),
    )
    for part in parts:
        if part.unpacking is not None:
            noted(f"{part.role} {part.source.name}: {part.unpacking}")
    loaded = {}
    for part in parts:
        told(f"loading {part.role} {part.source.name}")
        model = load_weights(part.source, part.config, part.place, device_map)
        info = prepare(model, part.source)
        if device_map is None and part.place.prepacks:
            prepack(model)
        loaded[part.role] = HfModel(model, info, vocabulary, max_cache_bytes=part.max_cache_bytes)
    written: StepModel | None = loaded.get("target")
    if address is not None:
        told("asking the server")
        written = remote.connect(
            address,
            vocabulary,
            key=api_key,
            context_length=loaded["draft"].info.context_length,
            bos_token_id=vocabulary.added_bos,
        )
    judge = None
    if reward is not None:
        told(f"loading reward model {Path(reward).name}")
        judge = load_reward(reward, dtype=dtype, device="auto" if device == SPREAD else device)
    return Models(vocabulary, draft=loaded.get("draft"), target=written, reward=judge)


def _address_of(draft: str | Path | None, target: str | Path | None) -> str | None:
    """The server's, where the target is behind one."""
    if draft is not None and server.is_address(draft):
        raise UsageError(
            "expected a draft that runs here, got a server's address: its signals come from inside "
            "the model, so name a folder, a hub id or a GGUF file"
        )
    if target is None or not server.is_address(target):
        return None
    if draft is None:
        raise UsageError(
            "expected a draft beside a target on a server, got none: its tokenizer is needed"
        )
    return str(target)


def _unheard(words: str) -> None:
    """Where nobody wants to be told."""

"""What is known of a pair's models before any weights are read. Loads nothing.

part       one model of the pair: where it lies, its configuration and tokenizer, where it will go
unpacked   the weights of a GGUF file in the precision they are computed in; while they are made,
           they are there twice
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specguard_core.backends import sources
from specguard_core.backends.placement import (
    Counts,
    Place,
    choose_place,
    count_parameters,
    dtype_name,
    free_bytes,
)
from specguard_core.backends.sources import Source
from specguard_core.backends.tokenizer import first_difference
from specguard_core.errors import UsageError
from specguard_core.pair import ModelInfo, PairRole
from specguard_core.sizes import size_text

MAX_CACHE_BYTES = 1 << 30
_KEPT_CONTEXTS = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """What a caller wants of one model. bits: 8 or 4, or None where weights are not packed."""

    role: PairRole
    source: str | Path
    device: str
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One model of a pair, found and described, not loaded."""

    role: PairRole
    source: Source
    config: Any
    tokenizer: Any
    place: Place
    counts: Counts

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return sources.eos_token_ids(self.source, self.config, self.tokenizer)

    @property
    def n_ids(self) -> int:
        """Ids the model has, those of a padded vocabulary included."""
        return int(self.config.get_text_config().vocab_size)

    @property
    def weight_bytes(self) -> int:
        return self.place.weight_bytes(self.counts)

    @property
    def cache_bytes(self) -> int:
        """Memory of keys and values for each token of context."""
        text = self.config.get_text_config()
        heads = int(text.num_attention_heads)
        kv_heads = int(getattr(text, "num_key_value_heads", None) or heads)
        head_size = int(getattr(text, "head_dim", None) or text.hidden_size // heads)
        return 2 * int(text.num_hidden_layers) * kv_heads * head_size * self.place.dtype.itemsize

    @property
    def max_cache_bytes(self) -> int:
        """Memory that what was read may take: a few whole contexts, of a large model fewer."""
        whole = self.cache_bytes * sources.context_length(self.config)
        return min(_KEPT_CONTEXTS * whole, MAX_CACHE_BYTES)

    @property
    def unpacking(self) -> str | None:
        """What unpacking a GGUF file takes, in words; None where there is nothing to unpack."""
        if not self.source.gguf:
            return None
        held = self.source.file_bytes
        file = "the file" if held is None else size_text(held)
        return (
            f"{file} unpacked to {size_text(self.weight_bytes)} of weights, which takes about "
            f"{size_text(2 * self.weight_bytes)} while it lasts"
        )


def prepared(asked: Asked, dtype: str) -> Part:
    """One model, described.

    Raises:
        ModelError, CacheError, UsageError: as load_models.
    """
    found = sources.pinned(sources.find(asked.source))
    if found.gguf and asked.bits is not None:
        raise UsageError(
            f"expected whole weights to pack to {asked.bits} bits, got the GGUF file {found.name}, "
            "which is unpacked as it is loaded: leave the bits away, or name the original model"
        )
    config = sources.read_config(found)
    tokenizer = sources.read_tokenizer(found)
    counts = count_parameters(config)
    place = choose_place(asked.device, dtype, asked.bits, config, counts.total)
    return Part(asked.role, found, config, tokenizer, place, counts)


def memory_needed(parts: Sequence[Part]) -> dict[str, int]:
    """Bytes by device while the weights are loaded, one model after the other."""
    needed: dict[str, int] = {}
    extra: dict[str, int] = {}
    for part in parts:
        device, n_bytes = part.place.device, part.weight_bytes
        needed[device] = needed.get(device, 0) + n_bytes
        if part.source.gguf:
            extra["cpu"] = max(extra.get("cpu", 0), n_bytes)
    return {d: needed.get(d, 0) + extra.get(d, 0) for d in needed.keys() | extra.keys()}


def prompting_tokenizer(parts: Sequence[Part], template: str | None) -> Any:
    """The tokenizer whose template makes the prompts: the target's, if it has one.

    template   what stands in for the tokenizer's own
    """
    by_choice = [part.tokenizer for part in parts[::-1]]
    chosen = next((t for t in by_choice if t.chat_template), by_choice[0])
    if template is not None:
        chosen.chat_template = template
    return chosen


@dataclass(frozen=True, slots=True)
class Description:
    """What can be said of a model without its weights.

    info                 as a load would give it; grounding is certain only after a load
    weight_bytes         memory of the parameters in the precision named in info
    unpacking            what unpacking a GGUF file takes, in words; None: nothing is unpacked
    cache_bytes          memory of keys and values for each token of context
    prompt_template      "chat template" or "plain"
    n_tokens             ids the tokenizer knows
    """

    info: ModelInfo
    weight_bytes: int
    unpacking: str | None
    cache_bytes: int
    prompt_template: str
    n_tokens: int


@dataclass(frozen=True, slots=True)
class PairDescription:
    """Whether two models fit, and what they take together.

    difference       what first tells the tokenizers apart, in words; None: they are the same
    same_template    whether both would make the same prompts; the target's template is used
    context_length   tokens that both can hold
    padded_ids       ids beyond the tokenizer's, which are never written; by role
    needed, free     bytes by device while loading; those free are left out where nothing says so
    """

    difference: str | None
    same_template: bool
    context_length: int
    padded_ids: Mapping[str, int]
    needed: Mapping[str, int]
    free: Mapping[str, int]

    @property
    def fits(self) -> bool:
        """Whether the pair can be loaded here."""
        return self.difference is None and not self.lacking

    @property
    def lacking(self) -> Mapping[str, int]:
        """Bytes that would have to be free beside those that are, by device."""
        beyond = {device: n - self.free.get(device, n) for device, n in self.needed.items()}
        return {device: n for device, n in beyond.items() if n > 0}


def describe(part: Part) -> Description:
    """A model's kind, size, memory and fitness, from its configuration and tokenizer alone."""
    config, text = part.config, part.config.get_text_config()
    info = ModelInfo(
        name=part.source.name,
        source=part.source.named,
        revision=part.source.revision,
        architecture=sources.architecture(config),
        n_parameters=part.counts.total,
        n_layers=int(text.num_hidden_layers),
        vocabulary_size=part.n_ids,
        context_length=sources.context_length(config),
        dtype=dtype_name(part.place.dtype, part.place.bits),
        device=part.place.device,
        grounding=sources.no_grounding(config) or "captured",
        rollback="crop",
    )
    return Description(
        info=info,
        weight_bytes=part.weight_bytes,
        unpacking=part.unpacking,
        cache_bytes=part.cache_bytes,
        prompt_template="chat template" if part.tokenizer.chat_template else "plain",
        n_tokens=len(part.tokenizer),
    )


def describe_pair(draft: Part, target: Part) -> PairDescription:
    """The verdict on a pair, before any memory is spent on it."""
    described = {part.role: describe(part) for part in (draft, target)}
    padded = {role: d.info.vocabulary_size - d.n_tokens for role, d in described.items()}
    needed = memory_needed([draft, target])
    return PairDescription(
        difference=first_difference(draft.tokenizer, target.tokenizer),
        same_template=draft.tokenizer.chat_template == target.tokenizer.chat_template,
        context_length=min(d.info.context_length for d in described.values()),
        padded_ids={role: n for role, n in padded.items() if n > 0},
        needed=needed,
        free={d: free for d in needed if (free := free_bytes(d)) is not None},
    )

"""Weights into memory, and the proof that the loaded model does what the engine needs of it.

own         the attention implementation transformers chose for the model
probe       a few tokens, run once with the model's own attention and no cache, then as the engine
            runs them: in blocks on a cache, rolled back, and token by token
"""

from dataclasses import replace
from inspect import signature
from tempfile import TemporaryDirectory
from typing import Any
from weakref import finalize

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, GgufConfig

from specguard_core.backends import attention
from specguard_core.backends.attention import (
    Member,
    Record,
    passing,
    passing_apart,
    recorded_rows,
)
from specguard_core.backends.cache import PassThrough, WorkingCache
from specguard_core.backends.placement import BITS, Place, dtype_name
from specguard_core.backends.sources import Source, context_length, no_grounding
from specguard_core.backends.trouble import quiet, told_in_one_sentence
from specguard_core.errors import CacheError, ModelError
from specguard_core.types import ModelInfo

_PROBE_TOKENS = 20
_PROBE_BLOCK = 11
_PROBE_ROWS = 2
# What a model may raise that was not made for the way the engine runs it.
RUN_ERRORS = (RuntimeError, ValueError, KeyError, TypeError, AttributeError, IndexError)
# Largest difference of logits that counts as rounding, as a share of their spread. With 8-bit
# weights inputs are rounded, too, by what is largest in the rows that go through together.
_TOLERANCE = {torch.float32: 2e-3, torch.bfloat16: 0.25, torch.float16: 0.1}
_TOLERANCE_8BIT = 0.6
_PACKED_ROWS = 32
"""Rows that bitsandbytes multiplies at once on a CPU."""


def load_weights(source: Source, config: Any, place: Place, device_map: Any = None) -> Any:
    """The model in evaluation mode; code that came with a checkpoint is never run.

    device_map   as in transformers, instead of the place's device

    Raises:
        ModelError: weights that cannot be read, or are not all there.
    """
    options = {**source.options, **place.load_options(), "trust_remote_code": False}
    options["ignore_mismatched_sizes"] = True  # told below, by name
    if device_map is not None:
        options["device_map"] = device_map
    if source.gguf:
        # transformers keeps blocks packed for a few kinds of model only, all of which have a
        # running state, so that none of them is loaded here.
        options["quantization_config"] = GgufConfig(dequantize=True)
    else:
        options["config"] = config
    shelf = None
    if "device_map" in options:
        shelf = TemporaryDirectory(prefix="specguard-", ignore_cleanup_errors=True)
        options["offload_folder"] = shelf.name
    with told_in_one_sentence(source.location, "weights"), quiet():
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source.location, output_loading_info=True, **options
        )
        model, report = loaded
        _require_whole(source, report)
        if shelf is None:
            model = model.to(place.device)
        else:
            finalize(model, shelf.cleanup)
    model.eval()
    model.requires_grad_(False)
    if place.device == "cpu" and place.bits is not None:
        _require_whole_blocks(source, model)
    return model


def _require_whole_blocks(source: Source, model: Any) -> None:
    """On a CPU bitsandbytes multiplies whole blocks of rows and of columns."""
    for module in model.modules():
        packed = getattr(getattr(module, "weight", None), "quant_state", None)
        if packed is None:
            continue
        height, width = packed.shape
        if width % packed.blocksize or height % _PACKED_ROWS:
            raise ModelError(
                f"expected layers of a multiple of {_PACKED_ROWS} x {packed.blocksize} weights in "
                f"{source.name} for 4 bits on a CPU, got {height} x {width}: leave the bits away"
            )


def _require_whole(source: Source, report: Any) -> None:
    """transformers fills what is missing with random numbers, and only logs it."""
    lacking = sorted([*report["missing_keys"], *(key[0] for key in report["mismatched_keys"])])
    if lacking:
        raise ModelError(
            f"expected whole weights at {source.location}, {len(lacking)} are missing or of "
            f"another shape, {lacking[0]} first: fetch it again"
        )


@torch.inference_mode()
def prepare(model: Any, source: Source) -> ModelInfo:
    """Switch the model to recorded attention where that provably changes nothing, and describe it.

    Raises:
        CacheError: the cache cannot be rolled back.
        ModelError: the weights hold numbers that are none.
    """
    reference = _reference(model)
    if not bool(reference.isfinite().all()):
        raise ModelError(
            f"expected {source.name} to give finite numbers, it gives NaN or infinity: its weights "
            "are damaged, or overflow in half precision: fetch it again, or load it with float32"
        )
    info = model_info(model, source, reference.shape[-1])
    own = model.config._attn_implementation
    reason = no_grounding(model.config)
    if reason is None:
        attention.register()
        model.set_attn_implementation(attention.EAGER if own == "eager" else attention.PACKED)
        reason = _probe_capture(model, reference, info)
        if reason is None:
            return info
        model.set_attn_implementation(own)
    try:
        problem = _probe_cache(model, reference)
    except RUN_ERRORS as error:
        problem = f"does not run on an ordinary cache ({error})"
    if problem is not None:
        raise CacheError(
            f"expected a model whose cache can be rolled back, {info.architecture} {problem}: "
            "name a model with ordinary attention"
        )
    return replace(info, grounding=reason)


@torch.inference_mode()
def can_share_passes(model: Any) -> bool:
    """Whether two rows with prefixes of unequal length may go through the model together."""
    if model.config._attn_implementation != attention.PACKED:
        return False
    ids = _probe_ids(model)
    name = cache_argument(model)

    def begun(count: int) -> Member:
        member = Member(WorkingCache(1, [], _PROBE_TOKENS), None)
        with passing([member]):
            model(input_ids=ids[:, :count], use_cache=True, **{name: member.cache})
        return member

    lengths = (3, _PROBE_BLOCK)
    alone = []
    for count in lengths:
        member = begun(count)
        with passing([member]):
            part = ids[:, count : count + 1]
            output = model(input_ids=part, use_cache=True, **{name: member.cache})
        alone.append(output.logits[0])
    members = [begun(count) for count in lengths]
    shared = PassThrough(max(lengths))
    latest = torch.cat([ids[:, count : count + 1] for count in lengths])
    places = torch.tensor(lengths, device=ids.device)[:, None]
    try:
        with passing_apart(members):
            output = model(input_ids=latest, position_ids=places, use_cache=True, **{name: shared})
    except RUN_ERRORS:
        return False
    return _alike(model, output.logits, torch.stack(alone).float())


@torch.inference_mode()
def can_read_together(model: Any) -> bool:
    """Whether chunks of unequal length, after prefixes of unequal length, may be read end to end in
    one row, by a model that shares passes."""
    ids = _probe_ids(model)
    name = cache_argument(model)
    begun, lengths = (3, _PROBE_BLOCK), (5, 4)

    def member(count: int) -> Member:
        made = Member(WorkingCache(1, [], _PROBE_TOKENS), None)
        with passing([made]):
            model(input_ids=ids[:, :count], use_cache=True, **{name: made.cache})
        return made

    spans = [(n, n + m) for n, m in zip(begun, lengths, strict=True)]
    chunks = [ids[:, start:stop] for start, stop in spans]
    alone = []
    for (start, _), chunk in zip(spans, chunks, strict=True):
        reader = member(start)
        with passing([reader]):
            output = model(input_ids=chunk, use_cache=True, **{name: reader.cache})
        alone.append(output.logits[0])
    places = torch.cat([torch.arange(*span, device=ids.device) for span in spans])[None]
    shared = PassThrough(max(begun))
    row = torch.cat(chunks, dim=1)
    try:
        with passing_apart([member(start) for start, _ in spans], lengths):
            output = model(input_ids=row, position_ids=places, use_cache=True, **{name: shared})
    except RUN_ERRORS:
        return False
    return _alike(model, output.logits[0], torch.cat(alone).float())


def model_info(model: Any, source: Source, vocabulary_size: int) -> ModelInfo:
    """What the trace records of a loaded model; `grounding` as if attention could be captured."""
    config = model.config
    text = config.get_text_config()
    packed = [bits for bits in BITS if getattr(model, f"is_loaded_in_{bits}bit", False)]
    return ModelInfo(
        name=source.name,
        source=source.named,
        revision=source.revision,
        architecture=type(model).__name__,
        n_parameters=model.num_parameters(),
        n_layers=int(text.num_hidden_layers),
        vocabulary_size=vocabulary_size,
        context_length=context_length(config),
        dtype=dtype_name(model.dtype, packed[0] if packed else None),
        device=_devices(model),
        grounding="captured",
        rollback="crop",
    )


def _devices(model: Any) -> str:
    """Where the weights lie: `cuda`, or `cpu+disk` where the model is spread."""
    spread = getattr(model, "hf_device_map", None) or {"": input_device(model)}
    names = {
        str(place) if isinstance(place, str) else torch.device(place).type
        for place in spread.values()
    }
    return "+".join(sorted({name.partition(":")[0] for name in names}))


def input_device(model: Any) -> torch.device:
    """Where the model takes its tokens; embeddings on the disk are fetched to it when needed."""
    embeddings = model.get_input_embeddings()
    device: torch.device = embeddings.weight.device
    if device.type == "meta":
        device = torch.device(embeddings._hf_hook.execution_device)
    return device


def _probe_ids(model: Any) -> Tensor:
    """[1, _PROBE_TOKENS] ids spread over the vocabulary."""
    size = model.get_input_embeddings().weight.shape[0]
    ids = [(7 + 31 * position) % size for position in range(_PROBE_TOKENS)]
    return torch.tensor([ids], device=input_device(model))


def _reference(model: Any) -> Tensor:
    """[_PROBE_TOKENS, vocabulary] logits by the model's own attention, nothing cached."""
    logits: Tensor = model(input_ids=_probe_ids(model), use_cache=False).logits[0]
    return logits.float()


def _probe_capture(model: Any, reference: Tensor, info: ModelInfo) -> str | None:
    record = Record(first_layer=0)
    try:
        problem = _probe_cache(model, reference, record)
    except RUN_ERRORS as error:
        return f"{info.architecture} does not run with recorded attention ({error})"
    if problem is not None:
        return f"{info.architecture} gives other logits with recorded attention"
    if len(record.layers) != info.n_layers:
        return (
            f"{info.architecture} records attention in {len(record.layers)} of "
            f"{info.n_layers} layers"
        )
    return None


def _probe_cache(model: Any, reference: Tensor, record: Record | None = None) -> str | None:
    """What goes wrong when the probe is read in blocks, rolled back and written, or None."""
    ids = _probe_ids(model)
    cache = WorkingCache(1, [], _PROBE_TOKENS)
    name = cache_argument(model)

    def run(part: Tensor, record: Record | None = None) -> Tensor:
        with passing([Member(cache, record)]):
            logits: Tensor = model(input_ids=part, use_cache=True, **{name: cache}).logits
        return logits

    run(ids[:, :4])
    block = run(ids[:, 4:])[0]
    if cache.get_seq_length() != _PROBE_TOKENS:
        return "does not use the cache it is given"
    if not _alike(model, block, reference[4:]):
        return "reads a block on a cache otherwise than as a whole"
    cache.crop(_PROBE_BLOCK - _PROBE_TOKENS)
    cache.select(torch.zeros(_PROBE_ROWS, dtype=torch.long, device=ids.device))
    columns = ids[:, _PROBE_BLOCK:].repeat(_PROBE_ROWS, 1).split(1, dim=1)
    written = torch.stack([run(column, record)[-1, -1] for column in columns])
    if not _alike(model, written, reference[_PROBE_BLOCK:]):
        return "goes on otherwise after its cache was rolled back"
    for index, layer in {} if record is None else record.layers.items():
        sums = recorded_rows(layer, cache.layer(index).held[0], _PROBE_BLOCK).sum(dim=-1)
        if not bool(((sums > 0) & (sums < 1.01)).all()):
            return "has attention rows that do not sum to at most 1"
    return None


def cache_argument(model: Any) -> str:
    """What this model's forward calls its cache."""
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"


def _alike(model: Any, logits: Tensor, reference: Tensor) -> bool:
    spread = reference.std().clamp_min(1e-6)
    worst = (logits.float() - reference).abs().max()
    allowed = _TOLERANCE.get(logits.dtype, 0.25)
    if getattr(model, "is_loaded_in_8bit", False):
        allowed = _TOLERANCE_8BIT
    return bool(worst <= allowed * spread)

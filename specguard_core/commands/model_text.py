"""Models and pairs as lines of text. Pure; knows no stream."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from specguard_core.commands.console import Palette
from specguard_core.known_pairs import KnownPair
from specguard_core.sizes import size_text

if TYPE_CHECKING:
    from specguard_core.backends.parts import Description, PairDescription


def model_lines(described: "Description", paint: Palette) -> list[str]:
    """What a model is, and what it takes."""
    info = described.info
    attention = info.grounding if info.grounding == "captured" else f"none: {info.grounding}"
    revision = "" if info.revision is None else f" at {info.revision[:12]}"
    weights, cache = described.weight_bytes, described.cache_bytes
    memory = f"{size_text(weights)} of weights, {size_text(cache)} for each token of context"
    lines = [
        paint(f"{info.name} ({info.architecture}){revision}", "strong"),
        f"  size       {info.n_parameters:,} parameters in {info.n_layers} layers",
        f"  numbers    {info.dtype} on {info.device}",
        f"  context    {info.context_length:,} tokens; {info.vocabulary_size:,} ids",
        f"  attention  {attention}; a refused step is taken back by {info.rollback}",
        f"  memory     {memory} ({size_text(cache * info.context_length)} for all of it)",
    ]
    if described.unpacking is not None:
        lines.append(f"  GGUF       {described.unpacking}")
    return [*lines, f"  prompts    {described.prompt_template}; {described.n_tokens:,} tokens"]


def verdict_lines(verdict: "PairDescription", speeds: Mapping[str, float] | None) -> list[str]:
    """How two models go together; speeds in tokens a second by role, None: not measured."""
    padded = " and ".join(f"{n:,} in the {role}" for role, n in verdict.padded_ids.items())
    ids = (
        f"padded by {padded}; those are never written" if padded else "none beyond the tokenizer's"
    )
    tokenizers = "the same: ids, special tokens, splitting"
    if verdict.difference is not None:
        tokenizers = f"not the same: {verdict.difference}"
    templates = "the same" if verdict.same_template else "not the same; the target's makes prompts"
    room = []
    for device, n_bytes in verdict.needed.items():
        free = verdict.free.get(device)
        known = "" if free is None else f", {size_text(free)} free now"
        room.append(f"{size_text(n_bytes)} on {device} while loading{known}")
    pace = "not measured: --probe loads both and times 20 tokens of each"
    if speeds is not None:
        pace = ", ".join(f"{role} about {speed:.3g}" for role, speed in speeds.items())
        pace += " tokens a second, one draw at a time"
    return [
        f"  tokenizers {tokenizers}",
        f"  templates  {templates}",
        f"  ids        {ids}",
        f"  context    {verdict.context_length:,} tokens, what both can hold",
        f"  memory     {'; '.join(room)}",
        f"  speed      {pace}",
    ]


def refusal(verdict: "PairDescription") -> str | None:
    """Why a pair cannot be loaded here, in one sentence; None where it can."""
    if verdict.difference is not None:
        return f"the pair does not fit: {verdict.difference}"
    for device, n_bytes in verdict.lacking.items():
        return (
            f"the pair fits, but not into what is free: {size_text(n_bytes)} more would have to be "
            f"free on {device}"
        )
    return None


def pair_lines(pairs: Sequence[KnownPair]) -> list[str]:
    """A table of pairs by the memory of their weights."""
    names = [f"{pair.draft.hub_id} {pair.target.hub_id}" for pair in pairs]
    width = max(map(len, names))
    lines = [f"{'draft and target':<{width}}  {'bfloat16':>9}  {'float32':>9}  good for"]
    for name, pair in sorted(zip(names, pairs, strict=True), key=_weight):
        sizes = [size_text(pair.weight_bytes(dtype)) for dtype in ("bfloat16", "float32")]
        lines.append(f"{name:<{width}}  {sizes[0]:>9}  {sizes[1]:>9}  {pair.good_for}")
    return lines


def _weight(named: tuple[str, KnownPair]) -> int:
    return named[1].weight_bytes("bfloat16")

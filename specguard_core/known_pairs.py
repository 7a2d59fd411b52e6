"""Pairs people have: which draft goes with which target, and the memory their weights take.

Sizes are the published parameter counts; a load counts for itself and records the revision it got.
"""

from dataclasses import dataclass

BYTES = {"bfloat16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A hub id and its published number of parameters."""

    hub_id: str
    n_parameters: int

    def weight_bytes(self, dtype: str) -> int:
        """Memory of the weights in a precision of BYTES."""
        return self.n_parameters * BYTES[dtype]


@dataclass(frozen=True, slots=True)
class KnownPair:
    """good_for   one phrase: what the pair is worth trying for."""

    draft: KnownModel
    target: KnownModel
    good_for: str

    def weight_bytes(self, dtype: str) -> int:
        """Memory of both."""
        return self.draft.weight_bytes(dtype) + self.target.weight_bytes(dtype)


def _model(hub_id: str, millions: float) -> KnownModel:
    return KnownModel(hub_id, round(millions * 1e6))


_MATH_SMALL = _model("Qwen/Qwen2.5-Math-1.5B-Instruct", 1_544)
_MATH_LARGE = _model("Qwen/Qwen2.5-Math-7B-Instruct", 7_616)
_QWEN_TINY = _model("Qwen/Qwen2.5-0.5B-Instruct", 494)
_QWEN_SMALL = _model("Qwen/Qwen2.5-1.5B-Instruct", 1_544)
_QWEN_LARGE = _model("Qwen/Qwen2.5-7B-Instruct", 7_616)
_QWEN3_SMALL = _model("Qwen/Qwen3-0.6B", 596)
_QWEN3_MIDDLE = _model("Qwen/Qwen3-4B", 4_022)
_QWEN3_LARGE = _model("Qwen/Qwen3-8B", 8_191)
_LLAMA_SMALL = _model("meta-llama/Llama-3.2-1B-Instruct", 1_236)
_LLAMA_LARGE = _model("meta-llama/Llama-3.1-8B-Instruct", 8_030)
_GEMMA_TINY = _model("google/gemma-3-270m-it", 268)
_GEMMA_SMALL = _model("google/gemma-3-1b-it", 1_000)
_GEMMA_LARGE = _model("google/gemma-3-4b-it", 4_300)
_SMOL_TINY = _model("HuggingFaceTB/SmolLM2-135M-Instruct", 135)
_SMOL_SMALL = _model("HuggingFaceTB/SmolLM2-360M-Instruct", 362)
_SMOL_LARGE = _model("HuggingFaceTB/SmolLM2-1.7B-Instruct", 1_711)

KNOWN_PAIRS: tuple[KnownPair, ...] = (
    KnownPair(_MATH_SMALL, _MATH_LARGE, "the paper's pair: competition mathematics, one GPU"),
    KnownPair(_QWEN_TINY, _QWEN_SMALL, "school arithmetic on a laptop's CPU"),
    KnownPair(_QWEN_TINY, _QWEN_LARGE, "a wide gap in size and in skill, one GPU"),
    KnownPair(_QWEN_SMALL, _QWEN_LARGE, "general reasoning, one GPU"),
    KnownPair(_QWEN3_SMALL, _QWEN3_MIDDLE, "thinking models, one small GPU"),
    KnownPair(_QWEN3_SMALL, _QWEN3_LARGE, "thinking models, a wide gap, one GPU"),
    KnownPair(_LLAMA_SMALL, _LLAMA_LARGE, "general reasoning, one GPU; gated, needs a token"),
    KnownPair(_GEMMA_TINY, _GEMMA_SMALL, "sliding windows on a laptop's CPU; gated"),
    KnownPair(_GEMMA_SMALL, _GEMMA_LARGE, "sliding windows, one GPU; gated, needs a token"),
    KnownPair(_SMOL_TINY, _SMOL_SMALL, "the quickest real pair: a look at real text on a CPU"),
    KnownPair(_SMOL_SMALL, _SMOL_LARGE, "short reasoning on a laptop's CPU"),
)

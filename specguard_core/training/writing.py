"""What a model writes after each of many texts, greedily or sampled, in batches on a KV cache.

Independent of the engine; texts of like length share a batch, so that little is padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

MAX_SOLUTION_TOKENS = 160
"""More than any solution of the generator's needs."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """temperature > 0, top_p in (0, 1]; equal seeds give equal texts for equal batches."""

    temperature: float
    top_p: float = 1.0
    seed: int = 0


@torch.no_grad()
def written(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str],
    *,
    max_new_tokens: int,
    sampling: Sampling | None = None,
    batch_size: int = 128,
) -> list[str]:
    """The continuation of each text without the end token; greedy where no `sampling` is given."""
    prefixes = [tokenizer(text)["input_ids"] for text in texts]
    order = sorted(range(len(prefixes)), key=lambda i: len(prefixes[i]))
    pad = int(tokenizer.pad_token_id)
    continuations = [""] * len(prefixes)
    model.eval()
    with torch.random.fork_rng():
        torch.manual_seed(sampling.seed if sampling else 0)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            width = max(len(prefixes[i]) for i in rows)
            ids = torch.full((len(rows), width), pad)
            for row, i in enumerate(rows):
                ids[row, width - len(prefixes[i]) :] = torch.tensor(prefixes[i])
            out = model.generate(
                ids,
                attention_mask=(ids != pad).long(),
                max_new_tokens=max_new_tokens,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=pad,
                **_options(sampling),
            )
            for row, i in enumerate(rows):
                continuations[i] = str(tokenizer.decode(out[row, width:], skip_special_tokens=True))
    return continuations


def _options(sampling: Sampling | None) -> dict[str, Any]:
    if sampling is None:
        return {"do_sample": False}
    return {
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": 0,
    }

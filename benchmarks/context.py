"""How memory grows with the context, on a model of one's own.

    python benchmarks/context.py MODEL [--lengths 500 1000 2000 4000] [--tokens 64] [--dtype NAME]

cache      what the model keeps of the context it has read: keys, values, and for each chunk of it
           the logits after its last token
rows       attention of one candidate step of --tokens tokens, as Evidence keeps it
above      resident memory beyond that of the loaded model, while and after 4 candidates are
           sampled after the context, with everything that is recorded of them
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.memory import forget_peak, peak_bytes, resident_bytes
from benchmarks.subjects import raw_model, sample
from specguard_core import load_models
from specguard_core.backends.hf import HfModel
from specguard_core.backends.tokenizer import HfVocabulary
from specguard_core.bundled import PROBLEMS
from specguard_core.problem_files import read_problems

LENGTHS = (500, 1000, 2000, 4000)
_WARM_TOKENS = 16


def growth(
    source: str, lengths: Sequence[int], tokens: int, dtype: str
) -> Iterator[dict[str, int]]:
    """Bytes at each length of context, the shortest first; one prefix is the start of the next."""
    loaded = load_models(source, None, dtype=dtype)
    draft: Any = loaded.need_draft()
    # No token ends a text: steps are exactly as long as they are asked to be.
    vocabulary = HfVocabulary(draft.vocabulary.tokenizer, ())
    model = HfModel(raw_model(draft), draft.info, vocabulary)
    words = [t for item in read_problems(PROBLEMS) for t in vocabulary.encode(item.question)]
    text = tuple(islice(cycle(words), max(lengths)))
    sample(model, text[:_WARM_TOKENS], _WARM_TOKENS)
    model.forget()
    before = resident_bytes()
    for length in sorted(lengths):
        forget_peak()
        batch = sample(model, text[:length], tokens)
        rows = batch.draws[0].attention
        yield {
            "context": length,
            "cache": model._engine.store.n_bytes,
            "rows": 0 if rows is None else rows.nbytes,
            "peak above": peak_bytes() - before,
            "kept above": resident_bytes() - before,
        }


HEAD = (
    "| tokens of context | cache, MiB | a token, KiB | rows of a step, MiB | sampling, MiB |\n"
    "|---|---|---|---|---|"
)


def row(at: dict[str, int]) -> str:
    """A length's line of the table: in MiB, and the cache for each token of context in KiB."""
    sizes = [f"{at[name] / 2**20:.1f}" for name in ("cache", "rows", "peak above")]
    a_token = f"{at['cache'] / at['context'] / 2**10:.1f}"
    return f"| {at['context']:,} | {sizes[0]} | {a_token} | {sizes[1]} | {sizes[2]} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model", help="folder, hub id or GGUF file")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = growth(options.model, options.lengths, options.tokens, options.dtype)
    if options.json:
        print(json.dumps(list(found)))
        return 0
    print(HEAD)
    for at in found:
        print(row(at), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

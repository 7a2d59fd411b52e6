"""Strategies, presets and ablations beside the target alone, and accuracy over k.

    python benchmarks/strategies.py [--part NAME ...] [--limit N] [--problems FILE] --out FOLDER

table    every strategy and preset, and `specguard` with parts switched off
reward   the strategies that a reward model judges
hard     a few rows, for --problems assets/problems/abacus-hard.jsonl
curve    accuracy over the candidates of `specguard` and over the chains of `rsd_majority`
sampled  the target samples too, in every row: `speculative` is then as good as a sampling target,
         and `target_samples` of a fallback can vote
times    a few rows one problem at a time, for their seconds

One file for each part in FOLDER; the same command goes on from what they hold. The tables in
README.md come from here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from specguard_core import DecodeConfig, load_models
from specguard_core.bundled import DRAFT, PROBLEMS, REWARD, TARGET
from specguard_core.calibration import default_calibration
from specguard_core.commands.compare import table_lines
from specguard_core.comparison import compare
from specguard_core.lm import Models
from specguard_core.presets import changed, preset, variants
from specguard_core.problem_files import read_problems

KS = (1, 2, 4, 8, 16)
SAMPLED = "target_temperature=0.7"
TABLE = (
    "target_only,draft_only,speculative,easd,specguard@best,specguard@cpu,specguard@paper,"
    "specguard@best+no-selector,specguard@cpu+no-selector,specguard@cpu+grounding-only,"
    "specguard@cpu+confidence-only,specreason@grade_method=logprob"
)
PARTS = {
    "table": TABLE,
    "reward": "target_only,rsd,rsd_majority",
    "hard": "target_only,draft_only,speculative,specguard@best,specguard@cpu,specguard@paper,"
    "rsd,rsd_majority",
    "curve": ",".join(
        ["target_only"]
        + [f"specguard@best+n_candidates={k}" for k in KS]
        + [f"specguard@paper+n_candidates={k}" for k in KS]
        + [f"rsd_majority@n_chains={k}" for k in KS]
    ),
    "sampled": ",".join(
        f"{row}+{SAMPLED}"
        for row in (
            "target_only@cpu",
            "speculative@cpu",
            "easd@cpu",
            "specguard@best",
            "specguard@best+target_samples=4",
        )
    ),
    "times": "target_only,draft_only,speculative,easd,specguard@best,specguard@cpu,specguard@paper",
}


def configs_of(part: str) -> dict[str, DecodeConfig]:
    """By row name, the knobs."""
    return {
        row.name: changed(preset(row.preset or "cpu"), row.settings)
        for row in variants(PARTS[part])
    }


def run(part: str, models: Models, options: argparse.Namespace) -> None:
    """One part: into its file, then as tables."""
    problems = read_problems(options.problems, limit=options.limit)
    comparison = compare(
        problems,
        configs_of(part),
        models,
        options.out / f"{part}.json",
        problem_file=options.problems.name,
        calibration=default_calibration(models),
        together=1 if part == "times" else options.together,
    )
    print("\n".join(table_lines(comparison)), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    rows = [config for part in options.part for config in configs_of(part).values()]
    judged = any(config.strategy in ("rsd", "rsd_majority") for config in rows)
    models = load_models(DRAFT, TARGET, reward=REWARD if judged else None)
    for part in options.part:
        run(part, models, options)
    return 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS), metavar="NAME")
    parser.add_argument("--limit", type=int, help="problems (default: all)")
    parser.add_argument("--problems", type=Path, default=PROBLEMS)
    parser.add_argument("--together", type=int, default=16, help="problems in the same batches")
    parser.add_argument("--out", type=Path, required=True, help="folder for the parts' files")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

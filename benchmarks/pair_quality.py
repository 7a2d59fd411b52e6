"""What the bundled pair is worth: accuracy, how well signals tell right from wrong, whole runs.

    python benchmarks/pair_quality.py [--limit N] [--set name=value ...] [--out FILE.json]

accuracy   greedy answers of draft and target alone
signals    k draws after each gold prefix; a step is right when its numbers are the gold step's,
           whatever its wording. Every draw is judged as if it had been the chosen one; only steps
           with an equation count, because the answer's sentence is hardly ever wrong
corrected  grounding less what the pair's calibration expects at each token's place in the step
stratified ROC AUC over pairs of equal length in tokens only: what is left when length says nothing
runs       whole problems under each preset

Everything goes through the engine; the figures in assets/models/README.md come from here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from specguard_core import DecodeConfig, Trace, advance, decode, load_models, preset, start
from specguard_core.bundled import DRAFT, PROBLEMS, TARGET
from specguard_core.calibration import default_calibration
from specguard_core.config import READING_NAMES, SignalTokens
from specguard_core.decoder.states import AwaitingCommit, AwaitingDraft, AwaitingVerdict
from specguard_core.equations import equations
from specguard_core.events import Committed
from specguard_core.lm import Models
from specguard_core.metrics import (
    accept_rate,
    kept_tokens,
    rank_correlation,
    roc_auc,
    wilson_interval,
)
from specguard_core.presets import PresetName, changed
from specguard_core.readings import expectation, measure, scales_of
from specguard_core.results import result_of
from specguard_core.selection import reselect
from specguard_core.text import join_pieces
from specguard_core.training.labels import step_is_right
from specguard_core.training.problems import STEP_DELIMITER, read_rows
from specguard_core.types import Candidate, Cost, Outcome, Selection, Step, TokenSignal
from specguard_core.verification import verify

PRESETS: tuple[PresetName, ...] = get_args(PresetName)
OTHER_TOKENS: tuple[SignalTokens, ...] = ("numeric", "equation", "setup")
MEASURE_ALL = tuple((name, 1.0) for name in READING_NAMES)


@dataclass(frozen=True, slots=True)
class Judged:
    """One draw after a gold prefix: label, length, who chose it, raw readings, presets' scores."""

    right: bool
    n_tokens: int
    chosen_by: frozenset[str]
    values: dict[str, float]


def main() -> int:
    options = _arguments()
    models = load_models(options.draft, options.target)
    rows = list(islice(read_rows(options.problems), options.limit))
    report: dict[str, Any] = {"problems": len(rows), "file": options.problems.name}
    if "accuracy" in options.part:
        report["accuracy"] = {
            role: _share([_run(row, models, _alone(role)) for row in rows])
            for role in ("draft", "target")
        }
        _show("greedy accuracy", report["accuracy"])
    if "signals" in options.part:
        config = changed(DecodeConfig(n_candidates=options.k, weights=MEASURE_ALL), options.set)
        judged = [draw for row in rows for draw in judged_draws(row, models, config, options.set)]
        report["signals"] = signal_report(judged)
        _show_signals(report["signals"])
    if "runs" in options.part:
        report["runs"] = {}
        for name in options.preset:
            report["runs"][name] = run_report(rows, models, changed(preset(name), options.set))
            _show(f"runs of {name}", report["runs"][name])
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def judged_draws(
    row: dict[str, Any], models: Models, config: DecodeConfig, settings: Sequence[str] = ()
) -> Iterator[Judged]:
    """Every draw after every gold prefix of one problem."""
    calibration = default_calibration(models)
    state = start(
        str(row["question"]), models, config, problem_id=str(row["id"]), calibration=calibration
    )
    assert isinstance(state, AwaitingDraft)
    steps = [str(step) for step in row["steps"]]
    for gold in steps:
        if equations(gold):
            yield from _judged_at(state, models, gold, settings)
        state = _after(state, models, gold)


def _judged_at(
    state: AwaitingDraft, models: Models, gold: str, settings: Sequence[str]
) -> Iterator[Judged]:
    ready = advance(advance(state, models)[0], models)[0]
    assert isinstance(ready, AwaitingVerdict)
    assert ready.selection is not None
    trace, recorded = ready.trace, ready.selection
    rules = {name: changed(preset(name), settings) for name in PRESETS}
    selections = {name: _selected(ready.candidates, recorded, rules[name]) for name in PRESETS}
    for place, candidate in enumerate(ready.candidates):
        judged = advance(replace(ready, selection=replace(recorded, chosen=place)), models)[0]
        assert isinstance(judged, AwaitingCommit)
        assert judged.verdict is not None
        read = judged.candidates
        values: dict[str, float] = {n: r.raw for n, r in judged.verdict.readings.items()}
        for words, other in _other_ways(trace.config):
            for name in READING_NAMES:
                usual = expectation(name, other, trace.calibration)
                if usual is None and other.grounding_correction == "position":
                    continue
                measured = measure(name, read[place], other, trace.pieces, usual)
                if measured is not None:
                    values[f"{name}, {words}"] = measured[0]
        for preset_name, rule in rules.items():
            selection = replace(selections[preset_name], chosen=place)
            verdict = verify(read, selection, rule, scales=scales_of(trace), pieces=trace.pieces)
            values[f"preset {preset_name}"] = verdict.score
        right = step_is_right(gold, join_pieces(candidate.token_ids, trace.pieces))
        chosen_by = frozenset(name for name in PRESETS if selections[name].chosen == place)
        for _ in candidate.draws:
            yield Judged(right, len(candidate.tokens), chosen_by, values)


def _other_ways(config: DecodeConfig) -> Iterator[tuple[str, DecodeConfig]]:
    """Other ways to take a minimum, in words, as a column of the table of signals has them."""
    for tokens in OTHER_TOKENS:
        yield tokens, replace(config, signal_tokens=tokens)
    corrected = replace(config, grounding_correction="position")
    yield "corrected", corrected
    for tokens in OTHER_TOKENS:
        yield f"{tokens}, corrected", replace(corrected, signal_tokens=tokens)


def _selected(
    candidates: Sequence[Candidate], recorded: Selection, rule: DecodeConfig
) -> Selection:
    """What a preset would have selected among the same draws."""
    return reselect(
        recorded,
        [len(candidate.draws) for candidate in candidates],
        [candidate.mean_logprob or 0.0 for candidate in candidates],
        method=rule.selection_method,
        cluster_similarity=rule.cluster_similarity,
    )


def _after(state: AwaitingDraft, models: Models, gold: str) -> AwaitingDraft:
    """The state after the gold step, put there as a person's edit would be."""
    ids = models.vocabulary.encode(gold + STEP_DELIMITER)
    tokens = tuple(
        TokenSignal(
            token_id=token_id,
            logprob=None,
            sampling_logprob=None,
            entropy=None,
            alternatives=(),
            attribution=None,
        )
        for token_id in ids
    )
    trace = state.trace
    step = Step(
        index=len(trace.units),
        candidates=(),
        selection=None,
        verdict=None,
        outcome=Outcome("edited", forced=True),
        written=Candidate(tokens, "delimiter", "retokenised"),
        cost=Cost(),
    )
    pieces = {**trace.pieces, **{t: models.vocabulary.piece(t) for t in ids}}
    return AwaitingDraft(replace(trace, pieces=pieces, units=(*trace.units, step)))


def signal_report(judged: Sequence[Judged]) -> dict[str, Any]:
    """AUC of every signal and score, pooled and within equal length, beside length alone; and how
    far each follows the length of the step.

    `draws` counts every draw; `chosen` only the medoids, which are what a run judges (a preset's
    by its own selection, the signals by the default preset's).
    """
    names = ["length", *(judged[0].values if judged else ())]
    report: dict[str, Any] = {}
    for group in ("draws", "chosen"):
        aucs = {}
        for name in names:
            by = name.removeprefix("preset ") if name.startswith("preset ") else "cpu"
            draws = [d for d in judged if group == "draws" or by in d.chosen_by]
            labels, lengths = [d.right for d in draws], [d.n_tokens for d in draws]
            values = lengths if name == "length" else [d.values[name] for d in draws]
            aucs[name] = {
                "steps": len(labels),
                "right": sum(labels) / len(labels),
                "pooled": roc_auc(labels, values),
                "equal length": roc_auc(labels, values, lengths),
                "with length": rank_correlation(values, lengths),
            }
        report[group] = aucs
    return report


def run_report(
    rows: Sequence[dict[str, Any]], models: Models, config: DecodeConfig
) -> dict[str, Any]:
    """Whole problems under one config."""
    traces = [_run(row, models, config) for row in rows]
    kept = sum(kept_tokens(trace) for trace in traces)
    steps = [step for trace in traces for step in trace.units if isinstance(step, Step)]
    own = (len(s.output.tokens) - s.outcome.n_kept for s in steps if s.outcome.source == "target")
    written = sum(own)
    return {
        **_share(traces),
        "accept rate": accept_rate(traces),
        "kept tokens written by the target": written / kept,
        "threshold": config.threshold,
        "weights": dict(config.weights),
    }


def _run(row: dict[str, Any], models: Models, config: DecodeConfig) -> Trace:
    calibration = default_calibration(models)
    state = start(
        str(row["question"]),
        models,
        config,
        gold=str(row["answer"]),
        problem_id=str(row["id"]),
        calibration=calibration,
    )
    trace = state.trace
    for event in decode(state, models):
        if isinstance(event, Committed):
            trace = event.trace
    return trace


def _alone(role: str) -> DecodeConfig:
    return DecodeConfig(strategy="draft_only" if role == "draft" else "target_only")


def _share(traces: Sequence[Trace]) -> dict[str, Any]:
    right = [result_of(trace).correct for trace in traces].count(True)
    interval = wilson_interval(right, len(traces))
    assert interval is not None
    return {"accuracy": interval.value, "low": interval.low, "high": interval.high}


def _show(title: str, figures: dict[str, Any]) -> None:
    print(f"{title}: " + ", ".join(f"{name} {_short(value)}" for name, value in figures.items()))


def _show_signals(report: dict[str, Any]) -> None:
    for group, figures in report.items():
        print(f"{group:40}  steps   right  AUC pooled  within equal length  rho with length")
        for name, row in figures.items():
            print(
                f"  {name:38} {row['steps']:6}  {row['right']:6.3f}  {_short(row['pooled']):>10}"
                f"  {_short(row['equal length']):>19}  {_short(row['with length']):>15}"
            )


def _short(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--limit", type=int, help="problems (default: all)")
    parser.add_argument("--part", nargs="+", default=["accuracy", "signals", "runs"])
    parser.add_argument("--preset", nargs="+", default=list(PRESETS), choices=PRESETS)
    parser.add_argument("--set", nargs="+", default=[], help="knobs changed everywhere, name=value")
    parser.add_argument("--k", type=int, default=4, help="draws after each gold prefix")
    parser.add_argument("--draft", default=str(DRAFT))
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument("--problems", type=Path, default=PROBLEMS)
    parser.add_argument("--out", type=Path, help="write all figures as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

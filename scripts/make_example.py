"""Record the example that the page opens without a model: `python -m scripts.make_example`.

Writes assets/traces/example.json and its attention rows, example.evidence.npz, beside it. A good
example is a run with a wrong answer whose first wrong step was accepted, and a higher threshold
that would have caught it.
"""

import argparse
import sys
from dataclasses import replace

from specguard_core import bundled, decode, load_models, preset, save_trace, start
from specguard_core.calibration import default_calibration
from specguard_core.errors import SpecGuardError
from specguard_core.evidence import Evidence
from specguard_core.presets import changed
from specguard_core.problem_files import read_problems
from specguard_core.text import join_pieces
from specguard_core.trace_io import evidence_path, save_evidence


def main() -> int:
    """Decode one held-out problem on the bundled pair and keep the run."""
    flags = argparse.ArgumentParser(description="Record the example that the page opens.")
    flags.add_argument("--problem-id", default="abacus-163adc8edd", help="id in the problem file")
    flags.add_argument("--seed", type=int, default=7)
    flags.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    given = flags.parse_args()
    try:
        problems = {item.problem_id: item for item in read_problems(bundled.PROBLEMS)}
        item = problems.get(given.problem_id)
        if item is None:
            print(f"make_example.py: no problem is called {given.problem_id!r}", file=sys.stderr)
            return 2
        config = changed(replace(preset("cpu"), seed=given.seed), given.settings)
        models = load_models(bundled.DRAFT, bundled.TARGET)
        state = start(
            item.question,
            models,
            config,
            gold=item.answer,
            problem_id=item.problem_id,
            calibration=default_calibration(models),
        )
        evidence = Evidence()
        trace = state.trace
        for event in decode(state, models):
            evidence.record(event)
            trace = getattr(event, "trace", trace)
    except SpecGuardError as error:
        print(f"make_example.py: {error}", file=sys.stderr)
        return 1
    for step in trace.steps:
        score = "" if step.verdict is None else f"{step.verdict.score:.3f}"
        text = join_pieces(step.output.token_ids, trace.pieces).strip()
        print(f"{step.outcome.source:7} {score:6} {text}")
    bundled.EXAMPLE.parent.mkdir(parents=True, exist_ok=True)
    save_trace(trace, bundled.EXAMPLE)
    save_evidence(evidence, evidence_path(bundled.EXAMPLE))
    wrote = (bundled.EXAMPLE.name, evidence_path(bundled.EXAMPLE).name)
    print(f"gold {trace.gold}; wrote {' and '.join(wrote)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

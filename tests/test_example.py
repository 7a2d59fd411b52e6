"""The example that ships opens without a model, and holds the story it is there to tell."""

import math
from dataclasses import replace

from specguard_core.bundled import EXAMPLE
from specguard_core.equations import equation_errors
from specguard_core.files import format_json
from specguard_core.regate import regate
from specguard_core.text import join_pieces
from specguard_core.trace_io import evidence_path, load_evidence, load_trace, to_json
from specguard_core.types import Step, Trace
from viz_app.files import from_file
from viz_app.page import PANELS, draw
from viz_app.session import Look
from viz_app.sight import sight
from viz_app.views.numbers import MINUS
from viz_app.views.scales import bounds_of
from viz_app.views.top import Desk
from viz_app.views.why import why_view
from viz_app.whatif import turned, what_if

TRACE: Trace = load_trace(EXAMPLE)


def wrong_but_kept() -> Step:
    """The first accepted step that holds an equation which is not true."""
    return next(
        step
        for step in TRACE.steps
        if step.outcome.source == "draft"
        and equation_errors(join_pieces(step.output.token_ids, TRACE.pieces))
    )


def test_it_opens_and_every_panel_draws_it():
    session = from_file(EXAMPLE.read_text("utf-8"))
    assert session.trace == TRACE
    for cursor in range(len(session.history)):
        assert set(draw(session, Look(cursor), Desk(("a", "b"), "not loaded"))) == set(PANELS)


def test_its_answer_is_wrong_because_a_wrong_step_was_kept():
    assert TRACE.finish.answer != TRACE.gold
    assert wrong_but_kept().verdict.accepted


def test_a_threshold_just_above_its_score_would_have_caught_the_wrong_step():
    step = wrong_but_kept()
    threshold = math.ceil(step.verdict.score * 100 + 1e-9) / 100
    found = regate(TRACE, turned(TRACE.config, "threshold", threshold))
    assert found.first_flip == step.index


def test_its_rows_let_every_rollout_knob_be_turned():
    evidence = load_evidence(evidence_path(EXAMPLE))
    for name, value in (("sparsify", 0.05), ("residual", False), ("rollout_layers", 1)):
        overlay = what_if(TRACE, turned(TRACE.config, name, value), evidence)
        assert overlay.regate is not None, overlay.trouble


def test_its_calibration_lets_grounding_be_corrected_and_the_page_says_what_is_usual():
    config = turned(TRACE.config, "grounding_correction", "position")
    overlay = what_if(TRACE, config, None)
    assert overlay.regate is not None, overlay.trouble
    judged = zip(TRACE.steps, overlay.regate.verdicts, strict=True)
    steps = tuple(replace(step, verdict=verdict) for step, verdict in judged)
    corrected = replace(TRACE, config=config, units=steps)
    session = from_file(format_json(to_json(corrected)))
    assert session.trace == corrected
    for cursor in range(len(session.history)):
        look = Look(cursor)
        seen = sight(session, look)
        draw(session, look, Desk(("a", "b"), "not loaded"))
        if seen is None or seen.phase != "commit":
            continue
        low, high = bounds_of("grounding", seen)  # what tokens are coloured by
        assert 0 <= low < high <= 1
        rows = {row["name"]: row for row in why_view(seen, look)["readings"]}
        formula, raw = rows["grounding"]["formula"], rows["grounding"]["raw"]
        assert f" usual there = {raw}; ({raw} + " in formula
        had, usual = (float(part.split()[0]) for part in formula.split(MINUS, 1))
        assert f"{had - usual:.3f}" == f"{float(raw.replace(MINUS, '-')):.3f}"
        assert "usual" not in rows["confidence"]["formula"]

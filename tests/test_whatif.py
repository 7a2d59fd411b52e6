"""Other knobs on a recorded run: what flips, what goes stale, and what a flip line promises."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_traces import CONFIG, coin_trace

from specguard_core.errors import ConfigError
from specguard_core.presets import with_beta
from specguard_core.regate import regate
from viz_app.pace import STEPS
from viz_app.requests import looked
from viz_app.session import Look, Session, opened
from viz_app.sight import sight
from viz_app.views.flips import above, below, downward, flips, upward
from viz_app.views.knobs import knobs_view
from viz_app.views.timeline import timeline_view
from viz_app.views.why import why_view
from viz_app.whatif import turned, what_if

TRACE = coin_trace()


def coins() -> Session:
    return opened(Session(), TRACE)


def turned_to(**knobs: object) -> Look:
    return Look(STEPS.cursor_at(2), knobs=replace(CONFIG, **knobs))


def test_knobs_as_they_were_change_nothing():
    assert what_if(TRACE, None, None) is None
    assert what_if(TRACE, CONFIG, None) is None


def test_a_lower_threshold_flips_the_refused_step_and_what_follows_is_stale():
    look = turned_to(threshold=0.35)
    overlay = what_if(TRACE, look.knobs, None)
    assert overlay.first_flip == 2
    assert [overlay.is_stale(index) for index in range(4)] == [False, False, False, True]
    blocks = timeline_view(coins(), look, overlay)["blocks"]
    assert [block["stale"] for block in blocks] == [False, False, False, True]
    view = knobs_view(coins(), look, overlay, has_rows=False)
    assert view["flips"] == [
        {"step": 2, "certain": True, "change": "refused → accepted", "sum": "0.409 ≥ 0.35"}
    ]
    assert view["stale"] == "Step 4 is stale."
    assert TRACE.units[2].outcome.source == "target"


def test_the_why_panel_tells_both_sums():
    look = turned_to(threshold=0.35)
    view = why_view(sight(coins(), look), look, what_if(TRACE, look.knobs, None))
    assert view["word"] == "Refused"
    assert view["whatif"]["word"] == "Accepted"
    assert view["whatif"]["margin_text"] == "0.059"


def test_knobs_that_need_rows_say_so_where_none_were_kept():
    look = turned_to(sparsify=0.05)
    overlay = what_if(TRACE, look.knobs, None)
    assert overlay.regate is None
    assert "attention rows" in overlay.trouble
    view = knobs_view(coins(), look, overlay, has_rows=False)
    off = {slider["key"]: slider["off"] for slider in view["sliders"]}
    assert "not recorded" in off["sparsify"]
    assert off["threshold"] == ""


def test_turning_a_knob_and_back_is_looking_as_before():
    session = coins()
    there = looked(session, Look(), {"knob": "threshold", "value": 0.4})
    assert there.knobs.threshold == 0.4
    assert looked(session, there, {"knob": "threshold", "value": 0.7}) == Look()
    assert looked(session, there, {"knobs": "run"}) == Look()


@pytest.mark.parametrize(
    ("name", "value"), [("threshold", 2), ("nonsense", 1), ("beta", "x"), ("weight grounding", 7)]
)
def test_a_knob_that_cannot_be_turned_so_is_refused_in_a_sentence(name, value):
    with pytest.raises(ConfigError, match="expected"):
        turned(CONFIG, name, value)


unit = st.floats(0, 1)


@given(unit)
def test_rounding_goes_to_the_side_that_holds(value):
    assert downward(value) <= value + 1e-8
    assert value - 1e-8 <= upward(value)
    assert below(value) < value < above(value) or abs(value - round(value, 3)) < 1e-8


def lines(verdict) -> list[dict]:
    session = coins()
    return flips(sight(session, Look(STEPS.cursor_at(2))), verdict, 0)


def test_the_lines_of_the_refused_step():
    found = {line["text"]: (line["value"], line["does"]) for line in lines(TRACE.units[2].verdict)}
    assert found == {
        "threshold lowered to": ("0.409", True),
        "grounding raised to, from 0.580": ("0.747", True),
        "candidate B1 chosen, scoring": ("0.830", True),
        "no confidence does: at most": ("0.643", False),
        "no beta does: at most": ("0.490", False),
    }


@given(unit, unit, unit, st.floats(0.01, 0.99))
def test_a_line_that_names_a_knob_keeps_its_promise(threshold, confidence, grounding, beta):
    verdict = TRACE.units[2].verdict
    readings = {
        "confidence": replace(verdict.readings["confidence"], normalised=confidence, weight=beta),
        "grounding": replace(verdict.readings["grounding"], normalised=grounding, weight=1 - beta),
    }
    score = beta * confidence + (1 - beta) * grounding
    made = replace(
        verdict,
        readings=readings,
        score=score,
        threshold=threshold,
        accepted=score >= threshold,
    )
    for line in lines(made):
        if not line["does"] or line["knob"] is None:
            continue
        if line["knob"] == "threshold":
            margin = score - line["set"]
        else:
            margin = line["set"] * confidence + (1 - line["set"]) * grounding - threshold
        close = abs(score - threshold) < 1e-5 or abs(confidence - grounding) < 1e-5
        assert (margin >= 0) != made.accepted or close or abs(margin) < 1e-7


def test_setting_the_knob_of_a_line_flips_the_recorded_step():
    for line in lines(TRACE.units[2].verdict):
        if line["knob"] == "threshold":
            config = turned(CONFIG, "threshold", line["set"])
            assert 2 in regate(TRACE, config).flips
    assert with_beta(CONFIG, 0.5).weight == {"confidence": 0.5, "grounding": 0.5}

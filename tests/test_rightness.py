"""Which steps of a run are wrong, and that the page says so where one looks."""

import json
from dataclasses import replace

import pytest
from any_traces import traces
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_traces import QUESTION, coin_trace

from specguard_core.bundled import EXAMPLE
from specguard_core.trace_io import load_trace
from specguard_core.types import Outcome
from viz_app.gold import NO_GOLD
from viz_app.page import draw
from viz_app.session import Look, Session, opened
from viz_app.sight import sight
from viz_app.views.rightness import Known, known_steps, wrong, wrong_steps
from viz_app.views.timeline import outcome_word
from viz_app.views.top import Desk
from viz_app.whatif import turned, what_if

SHIPPED = load_trace(EXAMPLE)
OTHER_WAY = {QUESTION: ("She gives 15: 23 - 15 = 8.", "8 + 24 = 32.", "So \\boxed{32}.")}
DESK = Desk(("draft", "target"), "models idle")


def drawn(session: Session, look: Look, right: bool | None, panel: str) -> str:
    return draw(session, look, DESK, right=right, panels=(panel,))[panel]


def test_an_equation_that_does_not_hold_is_wrong_whatever_is_known():
    for known in (Known(None, None), Known(("6 / 2 = 3",), "3")):
        found = wrong("That is 6 / 2 = 4 coins.", known, 0)
        assert found.certain
        assert found.reason == "6 / 2 = 4 does not hold"
    assert wrong("That is 6 / 2 = 3 coins.", Known(None, None), 0) is None
    assert wrong("So we go on.", Known(None, "3"), 0) is None


def test_an_answer_that_is_another_one_is_wrong_and_says_the_gold_one():
    assert wrong("So \\boxed{4}.", Known(None, "3"), 1).reason == "the gold answer is 3"
    assert wrong("So \\boxed{4}.", Known(None, None), 1) is None


def test_another_way_than_the_known_one_is_a_fault_only_where_the_answer_is_wrong():
    trace = coin_trace()
    assert wrong_steps(trace, OTHER_WAY, right=True) == {}
    assert wrong_steps(trace, OTHER_WAY, right=None) == {}
    found = wrong_steps(trace, OTHER_WAY, right=False)
    assert list(found) == [0]
    assert "the known solution has \u201cShe gives 15: 23 - 15 = 8.\u201d" in found[0].reason


def test_what_was_left_behind_is_held_against_nothing_more():
    known = known_steps(coin_trace(), OTHER_WAY)
    assert known[0].steps is not None
    assert all(one.steps is None for one in known[1:])
    assert len(known) == len(coin_trace().steps) + 1


@settings(deadline=None)
@given(traces(), st.sampled_from([True, False, None]))
def test_every_fault_is_at_a_step_there_is_and_has_a_reason(trace, right):
    for index, fault in wrong_steps(trace, NO_GOLD, right).items():
        assert 0 <= index < len(trace.steps)
        assert fault.reason


def test_the_shipped_run_says_where_it_went_wrong_and_which_threshold_catches_it():
    session = opened(Session(), SHIPPED)
    fault = json.loads(drawn(session, Look(), False, "problem"))["fault"]
    look = Look(session.pace.cursor_at(fault["step"]))
    blocks = json.loads(drawn(session, look, False, "timeline"))["blocks"]
    assert [i for i, block in enumerate(blocks) if block.get("wrong")] == [fault["step"]]
    why = json.loads(drawn(session, look, False, "why"))
    assert fault["reason"] in why["fault"]
    threshold = next(line for line in why["flips"] if line["knob"] == "threshold")
    assert threshold["value"] in why["fault"]
    judged = what_if(SHIPPED, turned(SHIPPED.config, "threshold", threshold["set"]), None)
    assert judged.first_flip == fault["step"]
    evidence = json.loads(drawn(session, look, False, "evidence"))
    weakest = why["decided"][0]
    assert evidence["selected"] == weakest["token"]
    assert weakest["label"].startswith(evidence["mode"])


def test_what_a_token_takes_is_its_weight_less_its_part():
    session = opened(Session(), coin_trace())
    why = json.loads(drawn(session, Look(session.pace.cursor_at(2)), True, "why"))
    takes = {item["label"].split()[0]: item["takes"] for item in why["decided"]}
    for row in why["readings"]:
        lost = float(row["weight"]) - float(row["part"])
        assert float(takes[row["name"]].split()[1]) == pytest.approx(lost, abs=0.0011)


def test_a_forced_step_is_named_so_even_where_nothing_judged_it():
    trace = coin_trace()
    session = opened(Session(), trace)
    seen = sight(session, Look(session.pace.cursor_at(2)))
    by_rule = replace(seen, verdict=None, outcome=Outcome("target"))
    assert outcome_word(by_rule) == ("target", "by target")
    by_hand = replace(seen, verdict=None, outcome=Outcome("target", forced=True))
    assert outcome_word(by_hand) == ("forced fallback", "forced fallback")
    unchecked = replace(seen, verdict=None, outcome=Outcome("draft"))
    assert outcome_word(unchecked) == ("accepted", "kept unchecked")

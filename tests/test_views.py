"""Views are pure, their sums hold to the digit, and text stays text."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_traces import coin_trace

from specguard_core.types import Candidate, Outcome, Step, TokenSignal, Trace
from viz_app.pace import STEPS
from viz_app.page import PANELS, answer, draw, to_json, touched
from viz_app.session import WRITTEN, Look, Session, opened
from viz_app.sight import sight
from viz_app.views.alternatives import sampled_probabilities
from viz_app.views.candidates import candidates_view, cluster_letter, difference
from viz_app.views.context import SHARES
from viz_app.views.evidence import evidence_view
from viz_app.views.ledger import ledger_view
from viz_app.views.numbers import (
    MINUS,
    adding_up,
    decimals_apart,
    fixed,
    level,
    nice_ticks,
    significant,
)
from viz_app.views.timeline import timeline_view
from viz_app.views.tokens import chips, step_text, token_text
from viz_app.views.top import Desk, problem_view, top_view
from viz_app.views.why import arithmetic, assertion, why_view

DESK = Desk(("draft", "target"), "models idle")
REFUSED = Look(STEPS.cursor_at(2))


def coins() -> Session:
    return opened(Session(), coin_trace())


def number(text: str) -> float:
    return float(text.replace(MINUS, "-"))


def test_the_refused_step_says_its_sum_as_drawn():
    view = why_view(sight(coins(), REFUSED), REFUSED)
    assert (view["word"], view["score_text"], view["margin_text"]) == (
        "Refused",
        "0.409",
        f"{MINUS}0.291",
    )
    assert [row["part"] for row in view["readings"]] == ["0.066", "0.343"]
    assert [row["formula"] for row in view["readings"]] == [
        f"({MINUS}2.31 + 2.86) ÷ 2.50",
        f"(0.580 {MINUS} 0.384) ÷ 0.400",
    ]
    assert [item["text"] for item in view["decided"]] == ["·9", "8"]


def test_every_sum_on_the_page_holds_to_the_digit():
    session = coins()
    for index in range(4):
        look = Look(STEPS.cursor_at(index))
        view = why_view(sight(session, look), look)
        parts = math.fsum(number(row["part"]) for row in view["readings"])
        assert parts == pytest.approx(number(view["score_text"]), abs=1e-9)
        margin = number(view["score_text"]) - number(view["threshold_text"])
        assert margin == pytest.approx(number(view["margin_text"]), abs=1e-9)
        assert (margin >= 0) == view["accepted"]
        for row in view["readings"]:
            product = number(row["normalised"]) * number(row["weight"])
            assert product == pytest.approx(number(row["part"]), abs=0.0011)


def test_the_copied_assertion_holds():
    for step in coin_trace().units:
        exec(assertion(step.verdict)["full"], {})


unit = st.floats(0, 1)


@given(st.lists(unit, min_size=1, max_size=5), st.integers(3, 6))
def test_rounded_parts_add_up_to_their_rounded_sum(parts, decimals):
    rounded = adding_up(parts, decimals)
    unit = 10.0**-decimals
    assert math.fsum(rounded) / unit == pytest.approx(round(math.fsum(parts) / unit), abs=1e-3)
    assert all(abs(a - b) <= 10.0**-decimals + 1e-9 for a, b in zip(parts, rounded, strict=True))


@given(unit, unit)
def test_a_score_that_misses_the_threshold_is_never_written_as_it(score, threshold):
    decimals = decimals_apart(score, threshold)
    same = fixed(score, decimals) == fixed(threshold, decimals)
    assert not same or abs(score - threshold) < 1e-8


@given(st.floats(-1e6, 1e6).filter(lambda value: abs(value) >= 1e-4))
def test_three_significant_digits_are_within_half_a_percent(value):
    assert number(significant(value)) == pytest.approx(value, rel=0.0051)
    assert "-" not in significant(value)


@given(st.floats(-100, 100), st.floats(0.01, 100))
def test_ticks_lie_inside_their_axis(low, span):
    ticks = nice_ticks(low, low + span)
    assert len(ticks) in (2, 3)
    assert all(low - 1e-6 <= tick <= low + span + 1e-6 for tick in ticks)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_every_number_has_one_of_ten_colours(value):
    assert 0 <= level(value) <= 9


def test_a_shown_token_carries_what_the_trace_recorded():
    view = evidence_view(sight(coins(), REFUSED), REFUSED)
    nine = view["tokens"][7]
    assert view["selected"] == 7
    assert (nine["text"], nine["bytes"], nine["logprob"]) == ("·9", "20 39", f"{MINUS}2.31 nat")
    assert nine["modes"]["confidence"] == [7, f"{MINUS}2.31"]
    assert nine["modes"]["target"] is None
    rows = nine["alternatives"]["rows"]
    assert [row[3] for row in rows][:2] == ["0.386", "0.0993"]
    assert [row[0] for row in rows if row[5]] == ["·9"]
    assert [row[4] for row in rows] == [
        "0.665",
        "0.0956",
        "0.0887",
        "0.0793",
        "0.0707",
        "cut",
    ]
    assert (nine["grounding"], nine["own"], nine["template"]) == ("0.691", "0.309", "0.024")
    assert view["tokens"][12]["boundary"]
    assert not view["tokens"][12]["counted"]


def test_a_column_of_shares_adds_up_to_its_grounding():
    view = evidence_view(sight(coins(), REFUSED), REFUSED)
    for token, column in zip(view["tokens"], view["shares"], strict=True):
        total = math.fsum(column) / SHARES
        assert total == pytest.approx(number(token["grounding"]), abs=0.002)


def test_the_least_token_and_the_threshold_stand_on_the_curve():
    log, grounding, entropy = evidence_view(sight(coins(), REFUSED), REFUSED)["curves"]
    assert log["marked"] == {"index": 7, "text": f"least {MINUS}2.31"}
    assert log["threshold"]["text"] == f"{MINUS}1.11"
    assert grounding["marked"] == {"index": 10, "text": "least 0.580"}
    assert grounding["threshold"]["text"] == "0.664"
    assert entropy["threshold"] is None
    for curve in (log, grounding, entropy):
        assert all(curve["low"] <= value <= curve["high"] for value in curve["values"])


def test_a_run_without_attention_says_so_and_shows_no_zero():
    trace = coin_trace()
    bare = [replace(token, attribution=None) for token in trace.units[0].candidates[0].tokens]
    one = replace(trace.units[0].candidates[0], tokens=tuple(bare))
    session = opened(Session(), replace(trace, units=(replace(trace.units[0], candidates=(one,)),)))
    look = Look(STEPS.cursor_at(0))
    view = evidence_view(sight(session, look), look)
    grounding = next(mode for mode in view["modes"] if mode["key"] == "grounding")
    assert "not recorded" in grounding["off"]
    assert view["curves"][1]["absent"] == "not measured"
    assert view["shares"] == [None] * len(one.tokens)


def test_cards_carry_clusters_differences_and_the_score_if_chosen():
    view = candidates_view(sight(coins(), REFUSED), REFUSED)
    assert view["labels"] == ["A", "B1", "B2"]
    a, b1, b2 = view["cards"]
    assert (a["medoid"], a["score_label"], a["score"]["text"]) == (True, "score", "0.409")
    assert (b1["score_label"], b1["score"]["accepted"]) == ("if chosen", True)
    assert not b2["score"]["accepted"]
    assert [part["text"] for part in b1["text"] if part["kind"] != "same"] == [
        "9",
        "15",
        "38",
        "32",
    ]
    assert view["written"]["note"] == "equals B1"
    assert [hull["text"] for hull in view["graph"]["hulls"]] == ["2 of 4 draws"] * 2


def test_candidates_before_selection_have_no_medoid_and_no_clusters():
    look = Look(STEPS.cursor_at(2, "sample"))
    view = candidates_view(sight(coins(), look), look)
    assert view["labels"] == ["1", "2", "3"]
    assert view["medoid"] is None
    assert view["matrix"] is None
    assert view["pending"] == "not selected yet"
    assert all(card["score"] is None for card in view["cards"])


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_difference_holds_both_texts(text, base):
    parts = difference(text, base)
    assert "".join(part["text"] for part in parts if part["kind"] != "cut") == text
    assert "".join(part["text"] for part in parts if part["kind"] != "new") == base


def test_clusters_are_lettered_past_z():
    assert [cluster_letter(n) for n in (0, 25, 26, 27, 52)] == ["A", "Z", "AA", "AB", "BA"]


def test_blocks_are_as_wide_as_their_tokens_and_say_what_happened():
    view = timeline_view(coins(), REFUSED)
    assert [block["tokens"] for block in view["blocks"]] == [11, 13, 14, 11]
    assert [block["kind"] for block in view["blocks"]] == [
        "accepted",
        "accepted",
        "fallback",
        "accepted",
    ]
    assert view["blocks"][2]["tokens_text"] == "14 tok by target"
    assert view["cursor"] == 12
    assert view["scale"] == 49


def test_a_forced_step_is_called_forced_whatever_the_rule_said():
    trace = coin_trace()
    forced = replace(trace.units[0], outcome=Outcome("draft", forced=True))
    session = opened(Session(), replace(trace, units=(forced, *trace.units[1:])))
    assert timeline_view(session, Look())["blocks"][0]["kind"] == "forced accepted"


def test_the_ledger_adds_up():
    view = ledger_view(coins(), REFUSED)
    by_role = math.fsum(number(row["ms"]) for row in view["rows"])
    assert by_role == pytest.approx(number(view["total"]["ms"]), abs=0.26)
    assert sum(int(row["tokens"] or 0) for row in view["rows"]) == int(view["total"]["tokens"])
    assert view["selected"] == 2
    assert view["alone"]["basis"] == "estimated"


def test_the_answer_is_judged_in_words_and_never_guessed():
    assert problem_view(coins(), (), True)["answer"] == "32"
    assert not problem_view(Session(), (), None)["answered"]


def test_the_top_bar_knows_where_one_stands():
    view = top_view(coins(), REFUSED, DESK)
    assert view["position"] == "step 3 of 4, finished"
    assert [phase["state"] for phase in view["phases"]] == ["done", "done", "done", "on"]
    assert (view["ahead"], view["can"]["on"], view["can"]["back"]) == (True, True, True)
    at_end = top_view(coins(), Look(), DESK)
    assert not at_end["can"]["on"]
    running = top_view(coins(), Look(), replace(DESK, progress="step 5, draft writing"))
    assert running["can"] == {"back": False, "on": False, "stop": True, "reset": False}


def test_every_panel_is_drawn_at_every_stop_and_looks_change_nothing():
    session = coins()
    trace = session.trace
    for cursor in range(len(session.history)):
        for candidate in (None, 0, 2, 99, WRITTEN):
            views = draw(session, Look(cursor, candidate), DESK)
            assert set(views) == set(PANELS)
            assert all(json.loads(text) for text in views.values())
    assert session.trace == trace
    assert set(draw(Session(), Look(), DESK)) == set(PANELS)


def test_turning_a_knob_redraws_only_what_it_can_change():
    session = coins()
    before, after = Look(), Look(knobs=replace(session.trace.config, threshold=0.35))
    names = touched(before, after)
    assert "evidence" not in names
    same = set(PANELS) - set(names)
    first, second = (draw(session, look, DESK) for look in (before, after))
    assert all(first[name] == second[name] for name in same)
    assert set(touched(before, Look(3))) == set(PANELS)


def test_an_answer_carries_the_views_of_its_panels_and_the_ticket_of_a_file():
    views = draw(coins(), Look(), DESK, panels=("top", "why"))
    sent = json.loads(answer(views, 2.5, 'a "file" <b>'))
    assert sent["panels"] == {name: json.loads(text) for name, text in views.items()}
    assert (sent["stamp"], sent["opened"]) == (2.5, 'a "file" <b>')
    assert json.loads(answer({}, 0.0)) == {"stamp": 0.0, "opened": "", "panels": {}}
    assert "<" not in answer(views, 2.5, "<b>")


@pytest.mark.case(24)
@pytest.mark.parametrize("text", ["${1+1}", "<img src=x onerror=alert(1)>", "{{x}}", "</script>"])
def test_hostile_text_reaches_the_page_letter_for_letter(text):
    sent = to_json({"text": text})
    assert json.loads(sent)["text"] == text
    assert "<" not in sent


def signal(token_id: int) -> TokenSignal:
    return TokenSignal(token_id, logprob=-0.5)


@pytest.mark.case(25)
def test_bytes_of_one_character_stand_in_one_chip():
    data = "é😀क्".encode()
    pieces = {i: bytes([byte]) for i, byte in enumerate(data)}
    shown = chips(list(pieces), pieces)
    assert "".join(chip["text"] for chip in shown) == "é😀क्"
    assert [(chip["start"], chip["stop"]) for chip in shown][:2] == [(0, 2), (2, 6)]
    assert token_text(0, pieces) == "⟨c3⟩"


def test_white_space_and_control_characters_are_seen():
    pieces = {0: b" a\n\t", 1: b"\x00"}
    assert token_text(0, pieces) == "·a↵⇥"
    assert token_text(1, pieces) == "⟨00⟩"


def test_the_end_mark_is_no_part_of_a_steps_text():
    pieces = {0: b"x = 2.", 1: b"</s>"}
    step = Candidate((signal(0), signal(1)), "eos")
    assert step_text(step, pieces) == "x = 2."


@given(
    st.lists(st.floats(-8, -0.01), min_size=2, max_size=8, unique=True),
    st.floats(0.2, 2),
    st.floats(0.1, 1),
)
def test_sampled_probabilities_are_the_nucleus_of_the_tempered_ones(raw, temperature, top_p):
    logprobs = sorted((value - math.log(sum(map(math.exp, raw)))) for value in raw)[::-1]
    weights = [math.exp(value / temperature) for value in logprobs]
    total = math.fsum(weights)
    kept, passed = [], 0.0
    for weight in weights:
        if passed / total < top_p:
            kept.append(weight)
        passed += weight
    drawn = TokenSignal(
        0, logprob=logprobs[0], sampling_logprob=math.log(kept[0] / math.fsum(kept))
    )
    found = sampled_probabilities(drawn, logprobs, temperature)
    assert math.fsum(found) == pytest.approx(1, abs=2e-3)
    for probability, weight in zip(found, kept, strict=False):
        assert probability == pytest.approx(weight / math.fsum(kept), abs=2e-3)


def long_trace(n_steps: int) -> Trace:
    trace = coin_trace()
    one = trace.units[0]
    tokens = tuple(
        replace(one.candidates[0].tokens[i % 11], attribution=tuple(0.9 / 46 for _ in range(46)))
        for i in range(100)
    )
    steps = [
        Step(
            index,
            (replace(one.candidates[0], tokens=tokens),),
            one.selection,
            one.verdict,
            one.outcome,
            None,
            one.cost,
        )
        for index in range(n_steps)
    ]
    return replace(trace, units=tuple(steps))


def test_what_is_sent_for_a_step_of_a_long_run_stays_small():
    session = opened(Session(), long_trace(40))
    views = draw(session, Look(STEPS.cursor_at(39)), DESK)
    assert sum(len(text.encode()) for text in views.values()) <= 200_000


def test_the_arithmetic_of_weights_that_do_not_sum_to_one_is_a_mean():
    verdict = coin_trace().units[2].verdict
    halved = {
        name: replace(reading, weight=reading.weight / 2)
        for name, reading in verdict.readings.items()
    }
    view = arithmetic(replace(verdict, readings=halved))
    assert [row["weight"] for row in view["readings"]] == ["0.300", "0.700"]
    assert view["score_text"] == "0.409"

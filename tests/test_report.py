"""A report is one file that holds the page's views, asks for nothing, and is bounded."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_traces import coin_trace

from specguard_core.errors import UsageError
from specguard_core.types import Trace
from viz_app.branches import switched
from viz_app.pace import STEPS
from viz_app.page import draw
from viz_app.report import LOCKED, Assets, difference, laid_over, report
from viz_app.session import Line, Look, Session, opened
from viz_app.theme import report_assets
from viz_app.views.top import Desk

ASSETS = Assets("data:,", "body{}", "void 0;")
PAIR = ("draft", "target")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


def coins() -> Session:
    return opened(Session(), coin_trace())


def data_of(text: str) -> dict:
    (found,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


@given(values, values)
def test_a_difference_laid_over_its_base_gives_the_view_again(base, view):
    assert laid_over(base, json.loads(json.dumps(difference(base, view)))) == view


def test_every_stop_of_a_report_holds_what_the_page_would_draw():
    session = coins()
    frames = data_of(report(session, ASSETS, PAIR))["branches"]["main"]
    for step_index in range(4):
        cursor = STEPS.cursor_at(step_index)
        shown = laid_over(frames["0"][0], frames[str(cursor)])
        desk = Desk(PAIR, "a report: no models", locked=LOCKED)
        drawn = {name: json.loads(t) for name, t in draw(session, Look(cursor), desk).items()}
        drawn["top"]["can"]["reset"] = False
        assert shown == drawn


def test_every_candidate_can_be_looked_at():
    frames = data_of(report(coins(), ASSETS, PAIR))["branches"]["main"]
    cursor = STEPS.cursor_at(2)
    shown = laid_over(frames["0"][0], frames[str(cursor)])
    other = next(key for key in frames if key.startswith(f"{cursor} "))
    looked = laid_over(shown, frames[other])
    assert looked["evidence"]["tokens"] != shown["evidence"]["tokens"]
    assert looked["candidates"]["shown"] == int(other.split()[1])


def test_branches_are_kept_and_the_one_on_the_page_comes_first():
    session = coins()
    other = Line("other", session.history[:5], "main", 1, "a test")
    both = replace(session, lines=(*session.lines, other))
    data = data_of(report(switched(both, "other"), ASSETS, PAIR))
    assert data["current"] == "other"
    assert list(data["branches"]) == ["other", "main"]
    assert max(int(key.split()[0]) for key in data["branches"]["other"]) == 4


def test_a_report_over_its_bound_leaves_views_out_and_says_so():
    small = report(coins(), ASSETS, PAIR, most_bytes=20_000)
    assert "left out" in data_of(small)["note"]
    assert len(small) < 40_000
    assert "left out" not in data_of(report(coins(), ASSETS, PAIR))["note"]


def test_text_in_a_report_is_never_markup():
    hostile = "</script><img src=x onerror=alert(1)> ${1+1} {{x}}"
    trace: Trace = replace(coin_trace(), problem=hostile)
    text = report(opened(Session(), trace), ASSETS, PAIR)
    assert text.count("</script") == 2
    assert "<img" not in text
    frames = data_of(text)["branches"]["main"]
    assert frames["0"][0]["problem"]["question"] == hostile


def test_a_report_of_the_real_page_asks_no_network():
    text = report(coins(), report_assets(), PAIR)
    style = text[text.index("<style>") : text.index("</style>")]
    assert "default-src 'none'" in text
    assert not re.findall(r"@import|url\((?![\"']?(?:data:|#))", style)
    assert not re.findall(r'<(?:link|img|script)[^>]+(?:href|src)="(?!data:)', text)


def test_there_is_no_report_of_nothing():
    with pytest.raises(UsageError, match="step it first"):
        report(Session(), ASSETS, PAIR)

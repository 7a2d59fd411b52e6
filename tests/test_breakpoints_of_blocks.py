"""A run of blocks pauses, too: at what a block adds, once, and never at half a number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_pace import BLOCKS, SPECULATIVE, TEXT, block_models, block_run, run_by_hand

from specguard_core.backends.scripted import ScriptedVocabulary
from specguard_core.config import DecodeConfig
from specguard_core.lm import Models
from specguard_core.sessions import Breakpoint
from specguard_core.text import join_pieces
from specguard_core.types import Block, Trace
from tests.block_models import line_pair
from viz_app.breakpoints import KINDS, checked, hits, words_of
from viz_app.driving import drive
from viz_app.requests import set_up
from viz_app.session import Look, Problem, Session
from viz_app.views.timeline import timeline_view
from viz_app.views.top import Desk, top_view
from viz_app.work import Loaded, Pair, Room

RUN = block_run()
TRACE = RUN.trace
DESK = Desk(("draft", "target"), "models idle")


def told(text: str, gamma: int) -> Trace:
    """The run of a pair that agrees on every token of a text."""
    return run_by_hand(agreed(text), DecodeConfig(strategy="speculative", gamma=gamma)).trace


def agreed(text: str) -> Models:
    segments = ScriptedVocabulary().prompt("How many?", DecodeConfig().system_prompt)
    return line_pair(text, n_prompt=sum(len(segment.token_ids) for segment in segments))


def blocks_hit(kind: str, value: object = None, trace: Trace = TRACE) -> list[int]:
    point = checked(kind, value)
    return [block.index for block in trace.blocks if hits([point], block, trace)]


def written(trace: Trace, n_blocks: int) -> str:
    ids = [token_id for block in trace.blocks[:n_blocks] for token_id in block.token_ids]
    return join_pieces(ids, trace.pieces)


def first_with(text: str, trace: Trace = TRACE) -> int:
    """The block in which a text has come to its end."""
    return next(n for n in range(len(trace.blocks)) if text in written(trace, n + 1))


def refused(block: Block) -> bool:
    return block.n_accepted < block.n_judged


def test_each_kind_that_can_holds_where_it_should():
    assert blocks_hit("step", 2) == [1]
    assert blocks_hit("pattern", "23 \\+ 24") == [first_with("23 + 24")]
    assert blocks_hit("answer") == [first_with("\\boxed{")]
    expected = [block.index for block in TRACE.blocks if refused(block)]
    assert blocks_hit("rejected") == expected != []
    assert blocks_hit("equation") == []


@given(st.integers(0, len(TEXT) - 1), st.integers(1, 9))
def test_a_text_that_is_there_is_found_once_in_the_block_that_ends_it(start, length):
    import re

    part = TEXT[start : start + length]
    if TEXT.count(part) == 1 and "\n" not in part:
        assert blocks_hit("pattern", re.escape(part)) == [first_with(part)]


@pytest.mark.parametrize("gamma", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("47 - 15 = 32.\n\n\\boxed{32}", None),
        ("47 - 15 = 33.\n\n\\boxed{33}", "= 33.\n"),
        ("9 - 7 = 1 + 1 = 2 coins.\n\n\\boxed{2}", None),
        ("5 / 2 = 2.5 coins.\n\n\\boxed{2.5}", None),
        ("7 + 1 = 9", "= 9"),
    ],
)
def test_a_wrong_equation_holds_once_it_is_whole_and_half_a_number_is_none(gamma, text, ends):
    trace = told(text, gamma)
    found = blocks_hit("equation", None, trace)
    assert len(found) == (ends is not None)
    if ends is not None:
        assert first_with(ends.strip(), trace) <= found[0]


def test_a_run_of_blocks_pauses_and_goes_on_to_the_same_end():
    pair = Pair(lambda: Loaded(block_models(), None), ("draft", "target"))
    session = set_up(
        Session(Problem("How many?", "47"), SPECULATIVE), {"breakpoint": "step", "value": 2}, ()
    )
    *_, last = drive(session, "run", pair, Room())
    assert last.session.pause == "block number 2"
    assert len(last.session.trace.blocks) == 2
    *_, end = drive(last.session, "run", pair, Room())
    assert end.session.finished
    assert end.session.trace.units == TRACE.units


def test_where_it_held_is_on_the_timeline_and_a_recorded_run_stops_there():
    session = set_up(RUN, {"breakpoint": "answer"}, ())
    block = first_with("\\boxed{")
    marked = [i for i, b in enumerate(timeline_view(session, Look())["blocks"]) if b["hits"]]
    assert marked == [block]
    view = top_view(session, Look(0), DESK)
    assert view["next_hit"] == BLOCKS.cursor_at(block)


def test_a_kind_that_cannot_hold_says_so_and_never_does():
    steps = top_view(Session(), Look(), DESK)["kinds"]
    assert {kind["kind"] for kind in steps if kind["off"]} == {"rejected"}
    blocks = top_view(RUN, Look(), DESK)["kinds"]
    assert {kind["kind"] for kind in blocks if not kind["off"]} == {
        "rejected",
        "equation",
        "pattern",
        "step",
        "answer",
    }
    for kind, row in KINDS.items():
        point = Breakpoint(kind, row.value)
        if row.why_not("block"):
            assert not any(hits([point], block, TRACE) for block in TRACE.blocks)
    kept = top_view(set_up(RUN, {"breakpoint": "clusters"}, ()), Look(), DESK)["breakpoints"]
    assert "not in runs of blocks" in kept[0]["off"]


def test_a_pattern_stands_in_the_words_as_it_was_written():
    assert words_of(checked("pattern", r"= ?\d")) == "text matches \u201c= ?\\d\u201d"

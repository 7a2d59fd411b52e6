"""What the page says of a block agrees with the rule that judged it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.config import DecodeConfig
from specguard_core.metrics import expected_block_tokens, expected_lengths
from specguard_core.types import Block, Correction, Decision
from tests.test_pace import block_run, tokens_of
from viz_app.page import draw
from viz_app.session import Look, Session, opened
from viz_app.views.blocks import block_chips, blocks_view, chips_view, lengths_view, opened_at
from viz_app.views.compare import compare_view
from viz_app.views.ledger import ledger_view
from viz_app.views.log import log_view
from viz_app.views.timeline import timeline_view
from viz_app.views.top import Desk

EASD = DecodeConfig(
    strategy="easd",
    target_temperature=1.0,
    easd_bounds="fixed",
    easd_draft_entropy=1.0,
    easd_target_entropy=1.5,
    easd_overlap=0.5,
)


def decision(outcome: str, ratio: float = 0.5, uniform: float | None = 0.25) -> Decision:
    return Decision(0.4, 0.2, ratio, uniform, outcome, 2.0, 1.0, 0.6)


def sampled(*decisions: Decision, correction: Correction | None, n_drafted: int = 4) -> Session:
    trace = block_run().trace
    ids = tuple(sorted(trace.pieces))[:n_drafted]
    block = Block(0, ids, decisions, correction, ended_by_eos=False)
    return opened(Session(), replace(trace, config=EASD, units=(block,)))


def test_every_token_of_a_block_is_a_chip_with_its_word():
    session = sampled(
        decision("accepted"), decision("rejected", 0.1), correction=Correction(80, "corrected", 0.3)
    )
    view = blocks_view(session, Look())
    words = [chip["word"] for chip in view["chips"]]
    assert words == ["accepted", "rejected", "not judged", "not judged", "corrected"]
    assert view["selected"] == 1
    assert view["note"] == "4 drafted, 1 accepted, 1 rejected, 1 by the target"
    assert chips_view(session, Look())["chips"] == view["chips"]


def test_a_chip_has_p_q_ratio_and_u_in_words_too():
    session = sampled(decision("rejected", 0.1), correction=Correction(80, "corrected", 0.3))
    chip = block_chips(session.trace.blocks[0], session.trace)[0]
    numbers = {number["name"]: number["text"] for number in chip["numbers"]}
    assert (numbers["q(x)"], numbers["p(x)"]) == ("0.400", "0.200")
    assert (numbers["ratio"], numbers["u"]) == ("0.100", "0.250")
    assert "u 0.250 is not below the ratio 0.100" in chip["sentence"]


def test_easd_names_the_bounds_and_what_reaches_them():
    session = sampled(decision("overridden", 1.0), correction=Correction(80, "corrected", 0.3))
    view = blocks_view(session, Look())
    high = {n["name"]: n["high"] for n in view["chips"][0]["numbers"]}
    assert (high["draft entropy"], high["target entropy"], high["overlap"]) == (True, False, True)
    assert "1.00 nat" in view["rule"]
    assert "1.50 nat" in view["rule"]


def test_greedy_chips_claim_no_number_that_was_not_drawn():
    session = block_run()
    for block in session.trace.blocks:
        for chip in block_chips(block, session.trace):
            for number in chip["numbers"]:
                assert number["name"] != "u" or number["text"] == "greedy"
            assert "ratio" not in chip["sentence"]


def test_each_block_opens_at_the_token_that_was_not_kept():
    for block in block_run().trace.blocks:
        index = opened_at(block)
        assert 0 <= index < len(block.drafted) + (block.correction is not None)
        assert all(d.outcome == "accepted" for d in block.decisions[:index])


def test_the_lengths_count_every_block_that_drafted():
    trace = block_run().trace
    view = lengths_view(trace)
    drafted = [block for block in trace.blocks if block.drafted]
    assert sum(bar["count"] for bar in view["bars"]) == len(drafted)
    assert sum(b["length"] * b["count"] for b in view["bars"]) == sum(b.n_accepted for b in drafted)


@given(st.floats(0, 1), st.integers(1, 12))
def test_expected_lengths_are_chances_and_add_up_to_the_expected_tokens(alpha, gamma):
    chances = expected_lengths(alpha, gamma)
    assert sum(chances) == pytest.approx(1)
    mean = sum(n * chance for n, chance in enumerate(chances))
    assert expected_block_tokens(alpha, gamma) == pytest.approx(mean + 1, rel=1e-6)


@given(st.integers(1, 12))
def test_a_certain_draft_keeps_gamma_tokens_and_one_more(gamma):
    assert expected_block_tokens(1.0, gamma) == gamma + 1
    assert expected_block_tokens(0.0, gamma) == 1


def test_the_timeline_has_a_bar_per_block_and_no_threshold():
    session = block_run()
    view = timeline_view(session, Look())
    assert view["gate"] is None
    assert view["n_phases"] == 1
    assert [bar["score"] for bar in view["blocks"]] == [
        block.n_accepted / len(block.drafted) if block.drafted else None
        for block in session.trace.blocks
    ]


def test_the_ledger_and_the_log_speak_of_blocks():
    session = block_run()
    ledger = ledger_view(session, Look())
    assert ledger["steps"][0] == "block 1"
    assert int(ledger["total"]["tokens"]) == tokens_of(session.trace.cost)
    rows = log_view(session, Look())["rows"]
    assert len(rows) == len(session.trace.blocks)
    assert "drafted" in rows[0]["text"]


def test_every_panel_can_be_drawn_at_every_stop_of_a_block_run():
    session = block_run()
    for cursor in range(len(session.history)):
        views = draw(session, Look(cursor), Desk(("a", "b"), "idle"))
        assert '"hidden"' not in views["blocks"]
    assert compare_view(session, Look())["rows"] == []

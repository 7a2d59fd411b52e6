"""Two runs beside each other: aligned by reasoning step, whatever units they were made in."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.config import DecodeConfig
from specguard_core.errors import ConfigError, TraceFileError, UsageError
from specguard_core.text import join_pieces
from specguard_core.trace_io import to_json
from specguard_core.types import Block, Correction, Decision, Trace
from tests.builders import pair as pair_of
from tests.builders import recited
from tests.test_pace import (
    TEXT,
    WRONG,
    block_run,
    chain_models,
    chain_run,
    run_by_hand,
)
from viz_app.abilities import Ability
from viz_app.beside import joined, run_beside
from viz_app.branches import dropped, switched
from viz_app.driving import drive
from viz_app.files import from_file, to_file
from viz_app.page import draw
from viz_app.passages import passages
from viz_app.requests import departed, set_up
from viz_app.session import Look, Problem, Session
from viz_app.views.compare import compare_view, ledgers
from viz_app.views.top import Desk
from viz_app.work import Loaded, Pair, Room

KEEPING = DecodeConfig(strategy="draft_only")
SIDES = [{"strategy": "draft_only"}, {"strategy": "target_only"}]


def pair() -> Pair:
    return Pair(lambda: Loaded(chain_models(), None), ("draft", "target"))


def compared(sides: list[dict[str, str]] = SIDES) -> Session:
    session = Session(Problem("How many?", "9"), KEEPING)
    again, move = departed(session, Look(), {"move": "beside", "sides": sides})
    *_, last = drive(again, move, pair(), Room())
    assert last.progress is None
    assert last.session.notice is None
    return last.session


def test_the_passages_of_a_run_of_steps_are_its_steps():
    session = run_by_hand(chain_models(), KEEPING)
    assert [one.text for one in passages(session.trace)] == [text.strip() for text in WRONG]
    assert [one.unit_index for one in passages(session.trace)] == [0, 1]


def test_the_passages_of_a_run_of_blocks_are_the_steps_it_wrote():
    trace = block_run().trace
    found = passages(trace)
    assert [one.text for one in found] == [text.strip() for text in TEXT.split("\n\n")]
    for one in found:
        before = join_pieces(
            [i for block in trace.blocks[: one.unit_index] for i in block.token_ids], trace.pieces
        )
        inside = join_pieces(trace.blocks[one.unit_index].token_ids, trace.pieces)
        assert TEXT.index(one.text) in range(len(before), len(before) + len(inside))


def cut_into(text: str, size: int) -> Trace:
    """A run of blocks of so many bytes, all of them accepted."""
    base = block_run().trace
    ids = tuple(text.encode())
    sure = Decision(1.0, 1.0, 1.0, None, "accepted")
    parts = [ids[i : i + size] for i in range(0, len(ids), size)]
    units = tuple(
        Block(
            index,
            part[:-1],
            (sure,) * (len(part) - 1),
            Correction(part[-1], "bonus", 1.0),
            ended_by_eos=False,
        )
        for index, part in enumerate(parts)
    )
    return replace(base, units=units, pieces={**base.pieces, **{i: bytes([i]) for i in ids}})


@given(st.text(alphabet="ab \n", min_size=1, max_size=40), st.integers(1, 6))
def test_however_a_text_is_cut_into_blocks_its_steps_are_the_same(text, size):
    found = [one.text for one in passages(cut_into(text, size))]
    assert found == [one.text for one in passages(cut_into(text, 1))]
    assert "".join("".join(found).split()) == "".join(text.split())
    assert not any("\n\n" in one for one in found)


def test_two_strategies_run_one_after_the_other_and_stand_side_by_side():
    session = compared()
    assert [line.name for line in session.lines] == ["draft_only", "target_only"]
    assert session.current == "target_only"
    view = compare_view(session, Look(compared="draft_only"))
    assert view["names"] == ["draft_only", "target_only"]
    assert [side["word"] for side in view["sides"]] == ["wrong", "right"]
    assert [row["same"] for row in view["rows"]] == [False, False]
    parts = view["rows"][0]["right"]["text"]
    assert [p["text"] for p in parts if p["kind"] == "cut"] == ["8"]
    assert [p["text"] for p in parts if p["kind"] == "new"] == ["9"]


def test_a_run_of_blocks_stands_beside_a_run_of_steps_at_the_same_step():
    steps = ("4 * 6 = 24.\n\n", "23 + 24 = \\boxed{47}.")
    left = run_by_hand(pair_of(recited(*steps)), DecodeConfig(strategy="draft_only"))
    right = block_run()
    session = joined(left, right)
    assert [line.name for line in session.lines] == ["main", "main (2)"]
    view = compare_view(switched(session, "main (2)"), Look())
    assert view["same"] == len(view["rows"]) == 2
    assert view["rows"][1]["right"]["unit"] == passages(right.trace)[1].unit_index


def test_the_ledgers_say_what_the_traces_say():
    session = compared()
    left, right = (line.history[-1].trace for line in session.lines)
    rows = {row["name"]: row for row in ledgers(left, right)}
    written = right.cost.roles["target_written"].tokens
    assert (rows["target, written"]["a"], rows["target, written"]["b"]) == ("0", str(written))
    assert rows["draft, kept"]["ratio"] == "0"
    assert rows["target, written"]["ratio"] == ""


def test_a_branch_that_is_there_is_not_run_again():
    session = compared()
    move = run_beside(session, [{"branch": "draft_only"}, {"strategy": "target_only"}])
    assert move.sides == ("draft_only", "target_only (2)")
    assert [name for name, _ in move.runs] == ["target_only (2)"]
    *_, last = drive(session, move, pair(), Room())
    assert last.session.lines[:2] == session.lines
    assert last.session.lines[2].parent == "draft_only"


def test_each_side_can_be_deleted_but_the_first():
    session = compared()
    assert [line.name for line in dropped(session, "target_only").lines] == ["draft_only"]
    with pytest.raises(UsageError, match="other than the first"):
        dropped(session, "draft_only")


def test_what_was_compared_is_saved_and_loads():
    session = compared()
    again = from_file(to_file(session))
    assert compare_view(again, Look()) == compare_view(session, Look())


def test_a_file_of_the_same_problem_adds_its_runs():
    session = run_by_hand(chain_models(), KEEPING)
    other = to_file(compared())
    added = set_up(session, {"join": other}, [])
    assert [line.name for line in added.lines] == ["main", "draft_only", "target_only"]
    assert {line.parent for line in added.lines[1:]} == {"main", "draft_only"}
    assert added.current == "main"


def test_a_file_of_another_problem_is_refused_in_one_sentence():
    session = run_by_hand(chain_models(), KEEPING)
    other = compared()
    trace = replace(other.trace, problem="Another?")
    with pytest.raises(UsageError, match="expected a run of the problem on the page"):
        set_up(session, {"join": json.dumps(to_json(trace))}, [])
    with pytest.raises(TraceFileError):
        set_up(session, {"join": "{"}, [])


@pytest.mark.parametrize(
    "sides",
    [
        None,
        [],
        [{"strategy": "draft_only"}],
        [{"branch": "gone"}, {"strategy": "draft_only"}],
        [{"strategy": 3}, {"strategy": "draft_only"}],
        ["a", "b"],
    ],
)
def test_sides_that_name_no_run_are_refused(sides):
    with pytest.raises(UsageError, match=r"expected (two|a branch)"):
        run_beside(Session(Problem("How many?")), sides)


def test_an_unknown_strategy_or_preset_is_answered_with_the_menu():
    with pytest.raises(ConfigError, match="specguard, draft_only"):
        run_beside(Session(), [{"strategy": "x"}, {"strategy": "rsd"}])
    with pytest.raises(ConfigError, match="paper, cpu, best"):
        run_beside(Session(), [{"strategy": "rsd", "preset": "x"}, {"strategy": "rsd"}])


def test_several_chains_stand_beside_one_run():
    session = compared([{"strategy": "rsd_majority"}, {"strategy": "target_only"}])
    view = compare_view(session, Look(compared="rsd_majority"))
    assert "chains" in view["sides"][0]["kept"]
    assert len(view["rows"]) == 2


def test_a_preset_cannot_stand_on_a_side_where_specguard_cannot_run():
    runs = compare_view(Session(), Look(), {"specguard": Ability("no target is loaded")})["runs"]
    off = {run["off"] for run in runs if run["set"]["strategy"] == "specguard"}
    assert off == {"no target is loaded"}


def test_a_chain_run_shows_its_votes_and_rewards_beside_the_candidates():
    session = chain_run()
    for chain in (None, 0, 2):
        views = draw(session, Look(2, chain=chain), Desk(("a", "b"), "idle"))
        assert '"ballots":[' in views["candidates"]
        assert '"name":"reward"' in views["candidates"]

"""Runs of steps, of blocks and of several chains are looked at, kept and left the same way."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.backends.scripted import ScriptedModel, ScriptedVocabulary, scripted_info
from specguard_core.config import DecodeConfig
from specguard_core.decoder.step import AwaitingChains, Finished, advance, start
from specguard_core.errors import UsageError
from specguard_core.lm import Models
from specguard_core.types import Cost
from tests.block_models import line_pair
from tests.builders import recited
from tests.test_rsd import RIGHT, WRONG, ScriptedReward
from viz_app.branches import forced, redrawn, rerun
from viz_app.driving import drive
from viz_app.files import from_file, to_file
from viz_app.history import history_of, lanes
from viz_app.pace import BLOCKS, STEPS
from viz_app.requests import looked
from viz_app.session import Look, Problem, Session, chain_shown, grown, lane, moved
from viz_app.sight import sight, steps_in_sight, unit_costs
from viz_app.work import Loaded, Pair, Room

TEXT = "4 * 6 = 24.\n\n23 + 24 = \\boxed{47}."
SPECULATIVE = DecodeConfig(strategy="speculative", gamma=3)
MAJORITY = DecodeConfig(strategy="rsd_majority", n_chains=3, draft_temperature=0.0)
paces = st.sampled_from([STEPS, BLOCKS])
cursors = st.integers(0, 60)


def block_models() -> Models:
    config = DecodeConfig()
    n_prompt = sum(
        len(s.token_ids) for s in ScriptedVocabulary().prompt("How many?", config.system_prompt)
    )
    return line_pair(TEXT, TEXT.replace("24", "26"), n_prompt=n_prompt)


def chain_models() -> Models:
    pair = Models(
        ScriptedVocabulary(),
        ScriptedModel(recited(*WRONG), info=scripted_info("draft")),
        ScriptedModel(recited(*RIGHT), info=scripted_info("target")),
    )
    return replace(pair, reward=ScriptedReward({WRONG[0]: 0.9, WRONG[1]: 0.8}))


def run_by_hand(models: Models, config: DecodeConfig) -> Session:
    session = Session(Problem("How many?", "47"), config)
    session = grown(session, start("How many?", models, config, gold="47"))
    while not session.finished:
        session = grown(session, advance(session.history[-1], models)[0])
    return session


def tokens_of(cost: Cost) -> int:
    return sum(role.tokens for role in cost.roles.values())


def block_run() -> Session:
    return run_by_hand(block_models(), SPECULATIVE)


def chain_run() -> Session:
    return run_by_hand(chain_models(), MAJORITY)


@given(paces, cursors)
def test_a_cursor_and_its_stop_name_each_other(pace, cursor):
    assert pace.cursor_at(*pace.stop_at(cursor + 1)) == cursor + 1


@given(paces, cursors)
def test_going_on_and_back_by_units_lands_between_units(pace, cursor):
    assert not pace.within(pace.on(cursor))
    assert cursor < pace.on(cursor) <= cursor + pace.n
    assert not pace.within(pace.back(cursor))
    assert pace.back(cursor) < cursor or cursor == 0


def test_a_block_is_one_transition_and_one_stop():
    session = block_run()
    assert session.pace.unit == "block"
    assert len(session.history) == len(session.trace.blocks) + 1
    assert [looked(session, Look(0), {"move": m}).cursor for m in ("step", "phase")] == [1, 1]
    assert sight(session, Look(2)) is None


@pytest.mark.parametrize("made", [block_run, chain_run])
def test_a_recorded_run_has_the_states_it_had_when_it_ran(made):
    session = made()
    again = history_of(session.trace)
    assert len(again) == len(session.history)
    for before, after in zip(session.history, again, strict=True):
        assert type(before) is type(after)
        assert before.trace.units == after.trace.units
        assert before.trace.chains == after.trace.chains


@pytest.mark.parametrize("made", [block_run, chain_run])
def test_a_saved_run_loads_and_can_be_stepped_through(made):
    session = made()
    again = from_file(to_file(session))
    assert again.trace == session.trace
    assert again.finished
    cursor, stops = 0, []
    while cursor < len(again.history) - 1:
        cursor = looked(again, Look(cursor), {"move": "step"}).cursor or len(again.history) - 1
        stops.append(cursor)
    assert stops == [again.pace.on(n * again.pace.n) for n in range(len(stops))]


@pytest.mark.parametrize(
    ("config", "models"), [(SPECULATIVE, block_models), (MAJORITY, chain_models)]
)
def test_a_stopped_run_that_was_saved_goes_on_to_the_same_end(config, models):
    pair = Pair(lambda: Loaded(models(), None), ("draft", "target"))
    *_, last = drive(Session(Problem("How many?"), config), "step", pair, Room())
    half = from_file(to_file(last.session))
    assert not half.finished
    assert len(half.history) == len(last.session.history)
    *_, end = drive(half, "run", pair, Room())
    *_, straight = drive(Session(Problem("How many?"), config), "run", pair, Room())
    assert end.session.finished
    assert end.session.trace.units == straight.session.trace.units


def test_one_chain_of_several_is_looked_at_like_any_run_of_steps():
    session = chain_run()
    assert isinstance(session.history[0], AwaitingChains)
    for chain in range(3):
        own = lane(session, Look(chain=chain))
        assert isinstance(own.head, Finished)
        assert own.trace.units == session.trace.chains[chain].units
        assert len(steps_in_sight(own)) == 2
        assert sight(own, moved(own, Look(), 3)).verdict.score == 0.9
    assert chain_shown(session, Look()) == session.trace.vote.chosen
    assert lane(block_run(), Look(chain=1)).trace.blocks


def test_the_cost_of_a_step_is_that_of_all_chains():
    session = chain_run()
    total = unit_costs(session)
    assert len(total) == 2
    assert sum(tokens_of(cost) for cost in total) == tokens_of(session.trace.cost)
    assert [len(own) for own in lanes(session.history)] == [9, 9, 9]


def test_a_block_and_a_round_of_chains_are_drawn_again_on_a_branch():
    for session, index in ((block_run(), 1), (chain_run(), 1)):
        branch = redrawn(session, index)
        assert branch.head.attempt == 1
        assert len(branch.history) == session.pace.before(index) + 1
    chains = redrawn(chain_run(), 1).head
    assert [chain.attempt for chain in chains.chains] == [1, 1, 1]


def test_other_knobs_hold_in_every_chain_from_the_fork_on():
    branch = rerun(chain_run(), 1, replace(MAJORITY, threshold=0.95))
    assert {chain.trace.config.threshold for chain in branch.head.chains} == {0.95}
    assert branch.history[0].trace.config.threshold == MAJORITY.threshold


@pytest.mark.parametrize("made", [block_run, chain_run])
def test_what_only_one_chain_of_steps_can_be_given_is_refused_in_one_sentence(made):
    with pytest.raises(UsageError, match=r"expected .*: redraw"):
        forced(made(), 0, "fall back")

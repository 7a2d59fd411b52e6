"""The menu of strategies: every row of the table, the knobs it reads, and why one cannot be run."""

from dataclasses import replace

import pytest

from specguard_core.config import KNOBS, DecodeConfig
from specguard_core.errors import ConfigError
from specguard_core.presets import preset
from specguard_core.strategies import STRATEGIES, knobs_of
from tests.test_pace import block_models, block_run, chain_models, run_by_hand
from viz_app.abilities import Ability, abilities
from viz_app.requests import set_up
from viz_app.session import Look, Problem, Session
from viz_app.views.gates import gate_of
from viz_app.views.knobs import knobs_view
from viz_app.views.strategies import abilities_view, strategies_view
from viz_app.views.timeline import timeline_view
from viz_app.views.top import preset_of


def test_the_menu_is_the_table():
    rows = strategies_view(DecodeConfig(strategy="easd"), {})
    assert [row["name"] for row in rows] == list(STRATEGIES)
    assert [row["text"] for row in rows] == [row.sentence for row in STRATEGIES.values()]
    assert [row["name"] for row in rows if row["chosen"]] == ["easd"]
    assert not any(row["off"] for row in rows)


def test_every_knob_is_read_by_some_strategy_and_every_name_is_a_knob():
    read = {name for strategy in STRATEGIES for name in knobs_of(strategy)}
    assert read == set(KNOBS)
    ends = {"delimiter", "max_steps", "max_step_tokens", "repeat_limit", "max_new_tokens"}
    assert all(ends <= knobs_of(strategy) for strategy in STRATEGIES)


def test_a_strategy_without_a_reward_model_says_so_in_one_sentence():
    models = replace(chain_models(), reward=None)
    found = abilities(models)
    assert "reward model" in found["rsd"].trouble
    assert "reward model" in found["rsd_majority"].trouble
    assert not found["specguard"].trouble
    assert not abilities(chain_models())["rsd"].trouble


def test_a_target_that_takes_no_instructions_grades_by_log_probability():
    found = abilities(chain_models())["specreason"]
    assert found.grade_method in ("digit", "logprob")
    assert (found.grade_method == "logprob") == ("(ours)" in found.note)


def test_what_is_known_later_is_what_the_rows_would_say():
    known: dict[str, Ability] = {"specreason": Ability("", "another way", "logprob")}
    late = abilities_view(known)["specreason"]
    row = next(r for r in strategies_view(DecodeConfig(), known) if r["name"] == "specreason")
    assert late == {name: row[name] for name in ("note", "off", "set")}
    assert late["set"] == {"strategy": "specreason", "grade_method": "logprob"}


def test_a_strategy_starts_the_problem_afresh_and_a_preset_keeps_it():
    session = run_by_hand(chain_models(), DecodeConfig(strategy="draft_only", seed=4))
    fresh = set_up(session, {"strategy": "speculative", "grade_method": "digit"}, [])
    assert (fresh.lines, fresh.config.strategy, fresh.config.seed) == ((), "speculative", 4)
    again = set_up(fresh, {"preset": "best"}, [])
    assert (again.config.strategy, again.config.seed) == ("speculative", 4)
    assert again.config.threshold == preset("best").threshold
    with pytest.raises(ConfigError, match="specguard, draft_only"):
        set_up(session, {"strategy": "none such"}, [])


@pytest.mark.parametrize("name", STRATEGIES)
def test_only_knobs_that_the_strategy_reads_are_shown(name):
    session = Session(Problem("How many?"), DecodeConfig(strategy=name, normalisation="fixed"))
    view = knobs_view(session, Look(), None, has_rows=False)
    keys = [k["key"] for part in ("sliders", "sampling", "choices", "switches") for k in view[part]]
    keys += [k["key"] for part in ("fresh_choices", "fresh_switches") for k in view[part]]
    assert len(set(keys)) == len(keys)
    read = knobs_of(name) | {"beta"}
    assert set(keys) <= read
    assert ("gamma" in keys) == ("gamma" in read)
    assert ("beta" in keys) == (name == "specguard")


def test_a_knob_that_the_strategy_does_not_read_is_no_change_of_the_preset():
    config = replace(preset("cpu"), strategy="speculative", threshold=0.1, seed=9)
    assert preset_of(Session(config=config)) == ("cpu", [])
    assert preset_of(Session(config=replace(config, gamma=3)))[1] == ["gamma"]


def test_the_threshold_line_is_that_of_the_strategy():
    assert gate_of(DecodeConfig()).knob == "threshold"
    assert gate_of(DecodeConfig(strategy="target_only")) is None
    assert gate_of(DecodeConfig(strategy="speculative")) is None
    for name in ("rsd", "rsd_majority"):
        gate = gate_of(DecodeConfig(strategy=name, threshold=0.65))
        assert (gate.knob, gate.value, gate.whole) == ("reward_threshold", 0.7, 1.0)
    graded = DecodeConfig(strategy="specreason", grade_threshold=4.5)
    gate = timeline_view(Session(config=graded), Look())["gate"]
    assert (gate["knob"], gate["threshold"], gate["threshold_text"]) == (
        "grade_threshold",
        0.5,
        "4.50",
    )
    assert timeline_view(block_run(), Look())["gate"] is None
    assert abilities(block_models())["speculative"] == Ability()

"""Whole decodes of the pair that ships: equal traces whatever was asked of the models before."""

import json
import shutil
from dataclasses import replace

import pytest

from specguard_core.backends.hf import load_models
from specguard_core.bundled import DRAFT, PROBLEMS, TARGET
from specguard_core.config import DecodeConfig
from specguard_core.decoder.step import Finished, State, advance, advance_many, start
from specguard_core.lm import Models
from specguard_core.trace_io import save_trace
from specguard_core.types import Trace

CONFIG = DecodeConfig(normalisation="fixed", threshold=0.6)


@pytest.fixture(scope="module")
def models() -> Models:
    return load_models(DRAFT, TARGET)


@pytest.fixture(scope="module")
def questions() -> list[str]:
    lines = PROBLEMS.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["question"] for line in lines[:2]]


def states_of(question: str, models: Models) -> list[State]:
    states = [start(question, models, CONFIG)]
    while not isinstance(states[-1], Finished):
        states.append(advance(states[-1], models)[0])
    return states


def trace_of(question: str, models: Models) -> Trace:
    return states_of(question, models)[-1].trace


def test_a_rerun_gives_an_equal_trace_on_used_models_and_on_fresh_ones(models, questions):
    first = [trace_of(question, models) for question in questions]
    assert [trace_of(question, models) for question in questions] == first
    fresh = load_models(DRAFT, TARGET)
    assert [trace_of(question, fresh) for question in reversed(questions)] == first[::-1]


def test_going_on_from_any_earlier_state_gives_an_equal_trace(models, questions):
    states = states_of(questions[0], models)
    trace_of(questions[1], models)
    for earlier in (states[1], states[len(states) // 2]):
        state = earlier
        while not isinstance(state, Finished):
            state, _ = advance(state, models)
        assert state.trace == states[-1].trace


def test_problems_decoded_together_are_problems_decoded_one_by_one(models, questions):
    alone = [trace_of(question, models) for question in questions]
    states: list[State] = [start(question, models, CONFIG) for question in questions]
    while not all(isinstance(state, Finished) for state in states):
        live = [i for i, state in enumerate(states) if not isinstance(state, Finished)]
        for i, (state, _) in zip(
            live, advance_many([states[i] for i in live], models), strict=True
        ):
            states[i] = state
    for state, trace in zip(states, alone, strict=True):
        assert state.trace.text == trace.text
        assert state.trace.context_ids == trace.context_ids


def test_a_trace_names_the_bundled_pair_by_its_place_in_the_project(models, questions):
    trace = start(questions[0], models, CONFIG).trace
    assert trace.draft.source == "assets/models/abacus-draft"
    assert trace.target.source == "assets/models/abacus-target"


def test_a_trace_tells_the_name_of_a_folder_and_not_where_it_lies(
    tmp_path, monkeypatch, models, questions
):
    shutil.copytree(DRAFT, tmp_path / "home" / "mine")
    monkeypatch.chdir(tmp_path)
    for named in (tmp_path / "home" / "mine", "home/mine"):
        loaded = load_models(named, TARGET)
        assert loaded.draft.info.source == str(tmp_path / "home" / "mine")
        trace = start(questions[0], loaded, CONFIG).trace
        assert trace.draft.source == "mine"
        save_trace(trace, tmp_path / "t.json")
        assert "home" not in (tmp_path / "t.json").read_text("utf-8")


@pytest.mark.parametrize("source", ["owner/name", "http://host:80/v1", "scripted"])
def test_a_hub_id_and_an_address_are_recorded_as_they_are(models, source):
    info = replace(models.draft.info, source=source)
    assert info.recorded() == info

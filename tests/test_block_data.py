"""What blocks leave behind: traces, entropies, events, and blocks that cannot be."""

from dataclasses import replace

import pytest

from specguard_core.blocks import Block, Correction, Decision
from specguard_core.decoder.step import decode, start
from specguard_core.entropies import with_entropies, writes_blocks
from specguard_core.errors import ConfigError, PairError, TraceFileError
from specguard_core.events import BlockCommitted
from specguard_core.problem_files import FileProblem
from specguard_core.trace_io import from_json, to_json
from specguard_core.types import Calibration
from tests.block_models import LONG, blocks, decisions_of, generated, random_pair
from tests.builders import PROBLEM, pair, run, trace_from


def test_a_block_trace_comes_back_from_json_and_its_pieces_cover_it():
    trace = run(random_pair(), blocks(strategy="easd", max_new_tokens=30, target_temperature=1.0))
    assert from_json(to_json(trace)) == trace
    assert {i for block in trace.blocks for i in block.drafted} <= trace.pieces.keys()
    assert (trace.steps, trace.units) == ((), trace.blocks)


def test_a_block_trace_that_was_changed_is_refused_with_the_place():
    data = to_json(run(random_pair(), blocks(max_new_tokens=12)))
    data["units"][1]["candidates"] = []
    with pytest.raises(TraceFileError, match=r"unknown key 'candidates' at units\.1"):
        from_json(data)
    data = to_json(run(random_pair(), blocks(max_new_tokens=12)))
    data["units"][0]["drafted"][-1] = 299
    with pytest.raises(TraceFileError, match="299 without its bytes"):
        from_json(data)


def test_entropy_bounds_are_percentiles_of_what_easd_measures():
    models = random_pair()
    problems = [FileProblem(str(number), f"{PROBLEM} {number}", "1") for number in range(2)]
    config = blocks(max_new_tokens=80, target_temperature=1.0, **LONG)
    measuring = replace(config, strategy="easd", easd_overlap=1.01)
    empty = Calibration("p", 3, 20, ())
    known = with_entropies(empty, problems, models, config).entropies
    traces = [
        trace_from(
            start(p.question, models, measuring, problem_id=p.problem_id),
            models,
        )
        for p in problems
    ]
    assert not any(d.outcome == "overridden" for d in decisions_of(*traces))
    entropies = [decision.target_entropy for decision in decisions_of(*traces)]
    below = sum(entropy <= known["target"] for entropy in entropies) / len(entropies)
    assert below == pytest.approx(0.85, abs=0.02)
    with pytest.raises(ConfigError, match="at least 100 drafted tokens"):
        with_entropies(empty, problems[:1], models, replace(config, max_new_tokens=4))
    assert writes_blocks(models)
    assert not writes_blocks(pair())


def test_easd_measures_both_entropies_and_the_overlap_and_speculative_does_not():
    models = random_pair()
    for strategy, measured in (("easd", True), ("speculative", False)):
        knobs = {"max_new_tokens": 20, "target_temperature": 1.0}
        trace = run(models, blocks(strategy=strategy, **knobs, **LONG))
        for decision in (d for block in trace.blocks for d in block.decisions):
            assert (decision.draft_entropy is not None) == measured
            assert (decision.target_entropy is not None) == measured
            assert (decision.overlap is not None) == measured


def test_easd_bounds_come_from_the_calibration_unless_fixed():
    models = random_pair(noise=0.05)
    low = Calibration("p", 1, 20, (), {"draft": 0.0, "target": 0.0})
    words = {}
    for bounds in ("calibrated", "fixed"):
        knobs = {"easd_overlap": 0.0, "easd_draft_entropy": 99.0, "easd_bounds": bounds}
        config = blocks(strategy="easd", target_temperature=1.0, max_new_tokens=20, **knobs, **LONG)
        trace = trace_from(start(PROBLEM, models, config, calibration=low), models)
        words[bounds] = {d.outcome for block in trace.blocks for d in block.decisions}
    assert "overridden" in words["calibrated"]
    assert "accepted" not in words["calibrated"]
    assert "overridden" not in words["fixed"]


def test_easd_that_finds_nothing_doubtful_is_speculative():
    models = random_pair()
    knobs = {"target_temperature": 1.0, "max_new_tokens": 40, **LONG}
    plain = run(models, blocks(**knobs))
    never = run(models, blocks(strategy="easd", easd_overlap=1.01, **knobs))
    assert generated(plain) == generated(never)


def test_every_block_is_one_event_and_the_last_one_finishes():
    models = random_pair()
    state = start(PROBLEM, models, blocks(max_new_tokens=12, **LONG))
    events = list(decode(state, models))
    assert all(isinstance(event, BlockCommitted) for event in events)
    assert [event.finish is not None for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1].trace.blocks == tuple(event.block for event in events)


def test_a_model_that_writes_steps_only_is_refused():
    with pytest.raises(PairError, match="writes whole steps only"):
        run(pair(), blocks())


YES = Decision(0.5, 0.5, 1.0, 0.3, "accepted")
NO = replace(YES, outcome="rejected")
GONE = replace(YES, outcome="dropped")
OWN = Correction(9, "corrected", 0.5)


def test_a_block_keeps_what_was_accepted_and_the_correction():
    block = Block(0, (1, 2, 3), (YES, NO), OWN, ended_by_eos=False)
    assert (block.token_ids, block.n_accepted, block.n_judged) == ((1, 9), 1, 2)
    ended = Block(0, (1, 2, 3), (YES, GONE), None, ended_by_eos=True)
    assert (ended.token_ids, ended.n_accepted, ended.n_judged) == ((1,), 1, 1)


@pytest.mark.parametrize(
    ("decisions", "correction"),
    [((NO, YES), OWN), ((YES,) * 4, OWN), ((NO,), None), ((YES, GONE), OWN), ((), None)],
)
def test_a_block_that_cannot_be_is_refused(decisions, correction):
    with pytest.raises(ValueError, match="expected"):
        Block(0, (1, 2, 3), decisions, correction, ended_by_eos=False)

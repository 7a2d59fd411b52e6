"""The rows of judged steps are kept, shared by branches, and bounded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.decoder.step import advance, decode, start
from specguard_core.events import Committed, Proposed
from specguard_core.evidence import Evidence, context_before, evidence_key
from tests.builders import PROBLEM, configured, events_of, pair, run

IDS = st.lists(st.integers(0, 300), max_size=4).map(tuple)


def recorded(events, evidence=None):
    evidence = Evidence() if evidence is None else evidence
    for event in events:
        evidence.record(event)
    return evidence


@given(IDS, IDS, IDS, IDS)
def test_two_places_share_a_key_exactly_where_context_and_step_are_equal(a, b, c, d):
    assert (evidence_key(a, b) == evidence_key(c, d)) == ((a, b) == (c, d))


@pytest.mark.parametrize("threshold", [0.0, 1.01])
def test_after_a_decode_exactly_the_judged_candidates_have_their_rows(threshold):
    events = events_of(pair(), configured(threshold=threshold, max_steps=4))
    evidence = recorded(events)
    trace = events[-1].trace
    proposed = {e.step_index: e for e in events if isinstance(e, Proposed)}
    for step in trace.units:
        context_ids = context_before(trace, step.index)
        assert context_ids == proposed[step.index].context_ids
        for one, rows in zip(
            proposed[step.index].candidates, proposed[step.index].attention, strict=True
        ):
            kept = evidence.rows(context_ids, one.token_ids)
            if one.token_ids == step.chosen.token_ids:
                assert np.array_equal(kept, rows)
            else:
                assert kept is None
    assert len(list(evidence.items())) == len(trace.units)


def test_before_a_commit_every_candidate_has_its_rows():
    models = pair()
    state = start(PROBLEM, models, configured(n_candidates=4))
    _, event = advance(state, models)
    evidence = recorded([event])
    assert len(list(evidence.items())) == len(event.candidates)


def test_a_strategy_that_judges_nothing_leaves_no_rows():
    for strategy in ("draft_only", "target_only"):
        assert recorded(events_of(pair(), configured(strategy=strategy))).size_bytes == 0


def test_the_size_is_the_sum_of_the_rows_and_recording_again_adds_nothing():
    events = events_of(pair(), configured(threshold=0.0, max_steps=3))
    evidence = recorded(events)
    size = sum(rows.nbytes for _, rows in evidence.items())
    assert evidence.size_bytes == size > 0
    recorded(events, evidence)
    assert evidence.size_bytes == size


@given(st.integers(0, 200_000))
def test_the_bound_is_never_passed_and_the_oldest_rows_go_first(limit_bytes):
    rows = {str(i): np.zeros((1, 10, 1000 * (i % 3 + 1) // 10), np.float32) for i in range(12)}
    evidence = Evidence.from_rows(rows, limit_bytes)
    assert evidence.size_bytes <= limit_bytes
    kept = [key for key, _ in evidence.items()]
    assert kept == list(rows)[len(rows) - len(kept) :]


def test_rows_that_fit_in_no_store_are_not_kept():
    evidence = Evidence.from_rows({"a": np.zeros((1, 2, 3), np.float32)}, 23)
    assert (evidence.size_bytes, list(evidence.items())) == (0, [])


def test_a_branch_that_chose_another_candidate_takes_no_rows_from_its_sibling():
    models = pair()
    config = configured(n_candidates=4, threshold=0.0, max_steps=1, seed=5)
    evidence = Evidence()
    chosen = {}
    for method in ("lexical", "hidden"):
        branch = configured(
            n_candidates=4, threshold=0.0, max_steps=1, seed=5, selection_method=method
        )
        for event in decode(start(PROBLEM, models, branch), models):
            evidence.record(event)
            if isinstance(event, Committed):
                chosen[method] = event.step.chosen.token_ids
    assert chosen["lexical"] != chosen["hidden"]  # else this test shows nothing
    prompt = run(models, config).prompt_ids
    assert all(evidence.rows(prompt, ids) is not None for ids in chosen.values())


def test_rows_of_another_context_are_not_taken_for_these():
    events = events_of(pair(), configured(threshold=0.0, max_steps=1))
    evidence = recorded(events)
    trace = events[-1].trace
    ids = trace.units[0].chosen.token_ids
    assert evidence.rows(trace.prompt_ids, ids) is not None
    assert evidence.rows(trace.prompt_ids[1:], ids) is None
    assert evidence.rows(trace.prompt_ids, ids[:-1]) is None

"""A value that cannot have happened cannot be built."""

from dataclasses import replace

import pytest

from specguard_core.sessions import Branch, Session
from specguard_core.types import (
    Candidate,
    Cost,
    Finish,
    Heatmap,
    Outcome,
    RoleCost,
    Step,
    TokenSignal,
    Verdict,
)
from tests.builders import candidate, chosen_among, configured, pair, run, start

ONE, OTHER = candidate("a.\n\n"), candidate("b.\n\n")
ACCEPTED = Verdict({}, 0.9, 0.7, accepted=True)
REFUSED = Verdict({}, 0.5, 0.7, accepted=False)


def step(candidates=(ONE,), selection=None, verdict=None, outcome=None, written=None, index=0):
    return Step(index, candidates, selection, verdict, outcome or Outcome("draft"), written, Cost())


def test_an_edited_step_is_forced_by_definition():
    with pytest.raises(ValueError, match="forced by definition"):
        Outcome("edited")
    assert Outcome("edited", forced=True).source == "edited"


def test_a_step_holds_a_token():
    with pytest.raises(ValueError, match="at least one token"):
        Candidate((), "eos")


def test_a_step_that_was_written_says_so_and_one_that_was_kept_does_not():
    with pytest.raises(ValueError, match="written step"):
        step(outcome=Outcome("target"))
    with pytest.raises(ValueError, match="written step"):
        step(outcome=Outcome("draft"), written=OTHER)
    with pytest.raises(ValueError, match="written step"):
        step(outcome=Outcome("edited", forced=True))


def test_a_drafts_step_needs_a_candidate():
    with pytest.raises(ValueError, match="got none"):
        step(candidates=())


@pytest.mark.parametrize("chosen", [-1, 1, 5])
def test_the_chosen_candidate_is_one_of_them(chosen):
    with pytest.raises(ValueError, match="chosen candidate"):
        step(selection=chosen_among(1, chosen))


def test_an_unforced_outcome_follows_the_verdict():
    with pytest.raises(ValueError, match="follow the verdict"):
        step(verdict=REFUSED)
    with pytest.raises(ValueError, match="follow the verdict"):
        step(verdict=ACCEPTED, outcome=Outcome("target"), written=OTHER)
    assert step(verdict=REFUSED, outcome=Outcome("draft", forced=True)).output == ONE
    forced = step(verdict=ACCEPTED, outcome=Outcome("target", forced=True), written=OTHER)
    assert (forced.chosen, forced.output) == (ONE, OTHER)


def test_the_chosen_candidate_is_the_selected_one_or_the_only_one():
    assert step(candidates=(ONE, OTHER), selection=chosen_among(2, 1)).output == OTHER
    assert step().chosen == ONE
    assert step(candidates=(), outcome=Outcome("target"), written=OTHER).chosen is None


def test_a_heatmap_has_a_cell_for_each_token_and_context_token():
    with pytest.raises(ValueError, match="2 x 3 cells, got 5"):
        Heatmap(3, (1.0, 1.0), bytes(5))


def test_a_mean_is_not_taken_over_what_was_not_measured():
    assert candidate("abc", -0.5).mean_logprob == -0.5
    assert candidate("ab", (-1.0, None, -1.0)).mean_logprob is None


def test_a_token_that_was_not_measured_has_no_grounding():
    assert TokenSignal(1).grounding is None
    assert TokenSignal(1, attribution=()).grounding == 0.0
    assert TokenSignal(1, attribution=(0.1,) * 10).grounding == 1.0


def test_costs_add_up_by_role_and_are_equal_whatever_time_and_passes_they_took():
    one = Cost({"draft_kept": RoleCost(2, 10.0)}, 1, 5)
    other = Cost({"draft_kept": RoleCost(3, 1.0), "verification": RoleCost(0, 2.0)}, 2, 7)
    total = one + other
    assert total == Cost({"draft_kept": RoleCost(5), "verification": RoleCost(0)})
    assert (total.target_passes, total.target_positions) == (3, 12)
    assert total.roles["draft_kept"].milliseconds == 11.0
    assert one.roles["draft_kept"] == RoleCost(2, 0.0)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"status": "failed"}, "failure"),
        ({"failure": "it broke"}, "failure"),
        ({"status": "finished"}, "finish"),
        ({"finish": Finish("eos", None)}, "finish"),
        ({"units": (step(index=1),)}, "unit 0"),
    ],
)
def test_a_trace_agrees_with_itself(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        replace(start("a", pair()).trace, **changes)


def test_a_trace_knows_its_segments_and_its_text():
    trace = run(pair(), configured(max_steps=3, strategy="target_only"))
    prompt = [len(segment.token_ids) for segment in trace.prompt_segments]
    outputs = [len(unit.output.tokens) for unit in trace.units]
    for index in range(len(trace.units) + 1):
        lengths = trace.context_segment_lengths(index)
        assert list(lengths) == prompt + outputs[:index]
    assert len(trace.context_ids) == sum(lengths)


def test_a_sessions_branches_are_distinct_and_the_current_one_is_among_them():
    trace = start("a", pair()).trace
    main = Branch("main", trace)
    with pytest.raises(ValueError, match="distinct"):
        Session((main, main), "main")
    with pytest.raises(ValueError, match="other"):
        Session((main,), "other")
    with pytest.raises(ValueError, match="parent"):
        Session((main, Branch("b", trace, parent="gone")), "main")

"""Taking over: where a refused step is kept from, and what the target then writes after it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.backends.scripted import ScriptedStep
from specguard_core.commands.briefs import trace_brief
from specguard_core.commands.lines import regate_lines, step_lines
from specguard_core.decoder.step import advance
from specguard_core.metrics import target_only_time
from specguard_core.regate import regate
from specguard_core.text import StepWatch, join_pieces
from specguard_core.token_table import COLUMNS, rows
from specguard_core.trace_io import from_json, to_json
from specguard_core.types import Outcome
from specguard_core.verification import n_standing, verify
from tests.builders import (
    PIECES,
    UNCALIBRATED,
    VOCABULARY,
    candidate,
    chosen_among,
    configured,
    overheard,
    pair,
    run,
    scripted,
    with_config,
)
from tests.test_verification import judged_steps
from tests.tiny_models import sample_request, some_ids, tiny_model
from viz_app.branches import forced
from viz_app.pace import STEPS
from viz_app.session import WRITTEN, Look, Session, opened
from viz_app.sight import sight
from viz_app.views.candidates import candidates_view
from viz_app.views.evidence import evidence_view
from viz_app.views.knobs import flip_list
from viz_app.views.timeline import timeline_view
from viz_app.views.why import why_view
from viz_app.whatif import what_if

ALONE = {"weights": {"confidence": 1.0}, "normalisation": "fixed", "n_candidates": 1}
AT_TOKEN = {**ALONE, "fallback_from": "token", "draft_temperature": 0.0, "max_steps": 1}


def standing(text: str, logprobs: tuple[float, ...], **knobs: object) -> int:
    """What stands of one candidate, judged by confidence alone, in [0, 1] from -10 nats on."""
    config = configured(**{**ALONE, "fallback_from": "token", "threshold": 0.5, **knobs})
    one = candidate(text, logprobs, stop="step_limit")
    verdict = verify([one], None, config, scales=UNCALIBRATED, pieces=PIECES)
    assert not verdict.accepted
    return n_standing(verdict, one, config, scales=UNCALIBRATED, pieces=PIECES)


# Where


def test_what_stands_ends_before_the_first_token_under_the_threshold_not_before_the_least():
    assert standing("abcde", (-1.0, -1.0, -5.5, -1.0, -9.0)) == 2


def test_a_first_token_that_is_refused_leaves_nothing():
    assert standing("abc", (-6.0, -1.0, -1.0)) == 0


def test_only_tokens_that_count_are_to_blame():
    logprobs = (-1.0, -9.0, -1.0, -6.0)
    assert standing("ab1" + "2", logprobs) == 1
    assert standing("ab1" + "2", logprobs, signal_tokens="numeric") == 3


def test_readings_of_tokens_are_to_blame_together():
    knobs = {"weights": {"confidence": 0.5, "target_confidence": 0.5}}
    config = configured(**{**ALONE, "fallback_from": "token", "threshold": 0.5, **knobs})
    one = candidate(
        "abcd", (-8.0, 0.0, 0.0, 0.0), target_logprobs=(0.0, -1.0, -3.0, 0.0), stop="step_limit"
    )
    verdict = verify([one], None, config, scales=UNCALIBRATED, pieces=PIECES)
    # 0.5 * 0.2 + 0.5 * 0.9 is enough, 0.5 * 0.2 + 0.5 * 0.7 is not.
    assert n_standing(verdict, one, config, scales=UNCALIBRATED, pieces=PIECES) == 2


def test_where_the_draws_disagree_no_token_is_to_blame():
    config = configured(
        weights={"agreement": 0.9, "confidence": 0.1},
        normalisation="fixed",
        threshold=0.8,
        fallback_from="token",
    )
    one = candidate("abc", (-1.0, -9.0, -1.0, -1.0), draws=(0,))
    several = [one, candidate("xyz", draws=(1, 2, 3))]
    selection = chosen_among(2, 0, (1, 0))
    verdict = verify(several, selection, config, scales=UNCALIBRATED, pieces=PIECES)
    assert n_standing(verdict, one, config, scales=UNCALIBRATED, pieces=PIECES) == 0


@given(judged_steps(), st.floats(0, 1.01), st.sampled_from(["fixed", "candidates"]))
def test_what_stands_would_pass_alone_and_one_token_more_would_not(judged, threshold, way):
    candidates, selection, weights = judged
    config = configured(
        weights=weights, threshold=threshold, normalisation=way, fallback_from="token"
    )
    verdict = verify(candidates, selection, config, scales=UNCALIBRATED, pieces=PIECES)
    if verdict.accepted:
        return
    index = 0 if selection is None else selection.chosen
    chosen = candidates[index]
    n_kept = n_standing(verdict, chosen, config, scales=UNCALIBRATED, pieces=PIECES)
    assert 0 <= n_kept < len(chosen.tokens)
    if way == "candidates":
        return  # a cut candidate would move the bounds of all

    def passes(n_tokens: int) -> bool:
        cut = replace(chosen, tokens=chosen.tokens[:n_tokens], stop="step_limit")
        others = [cut if place == index else one for place, one in enumerate(candidates)]
        return verify(others, selection, config, scales=UNCALIBRATED, pieces=PIECES).accepted

    if n_kept:
        assert passes(n_kept)
        assert not passes(n_kept + 1)


def test_by_default_the_target_takes_over_at_the_step():
    one = candidate("abc", (-1.0, -9.0, -1.0, -1.0))
    config = configured(**ALONE)
    verdict = verify([one], None, config, scales=UNCALIBRATED, pieces=PIECES)
    assert n_standing(verdict, one, config, scales=UNCALIBRATED, pieces=PIECES) == 0


def test_a_grade_speaks_of_the_whole_step():
    config = configured(strategy="specreason", grade_threshold=9.01, fallback_from="token")
    step = run(pair(), replace(config, max_steps=1)).units[0]
    assert step.outcome == Outcome("target")


# What the target writes


def taken_over(**knobs: object):
    """A step whose fourth token is refused, and the target that went on from the third."""
    drafted = {"": [ScriptedStep("ab7x.\n\n", (-1.0, -1.0, -1.0, -9.0, -1.0))]}
    target = overheard({"ab7": [ScriptedStep("yz.\n\n", -0.5)]}, "target")
    config = configured(**{**AT_TOKEN, "threshold": 0.5, **knobs})
    return run(pair(scripted(drafted), target), config), target


def test_the_target_goes_on_from_what_stands():
    trace, target = taken_over()
    step = trace.units[0]
    assert step.outcome == Outcome("target", n_kept=3)
    assert join_pieces(step.token_ids, trace.pieces) == "ab7yz.\n\n"
    assert step.written.tokens[:3] == step.chosen.tokens[:3]
    (request,) = target.sampled
    assert request.begun == VOCABULARY.encode("ab7")
    assert request.prefix == trace.prompt_ids + request.begun
    assert request.max_tokens == trace.config.max_step_tokens - 3


def test_each_token_is_paid_for_by_who_wrote_it():
    trace, _ = taken_over()
    spent = {role: cost.tokens for role, cost in trace.units[0].cost.roles.items()}
    n_drafted, n_written = len(VOCABULARY.encode("ab7x.\n\n")), len(VOCABULARY.encode("yz.\n\n"))
    assert spent["draft_kept"] == 3
    assert spent["draft_discarded"] == n_drafted - 3
    assert spent["target_written"] == n_written


def test_a_step_that_was_opened_and_is_kept_after_all_costs_what_it_cost():
    trace, _ = taken_over()
    session = opened(Session(), trace)
    session = forced(session, 0, "accept")
    state, _ = advance(session.history[-1], pair())
    spent = {role: cost.tokens for role, cost in state.trace.units[0].cost.roles.items()}
    assert spent["draft_kept"] == len(VOCABULARY.encode("ab7x.\n\n"))
    assert spent["draft_discarded"] == 0


def test_the_targets_own_tokens_are_read_where_those_before_are():
    assert taken_over()[0].units[0].written.tokens[-1].target_logprob is None
    drafted = {"": [ScriptedStep("ab7x.\n\n", (-1.0, -1.0, -1.0, -9.0, -1.0))]}
    target = {"": drafted[""], "ab7": [ScriptedStep("yz.\n\n", -0.5)]}
    config = configured(**{**AT_TOKEN, "weights": {"target_confidence": 1.0}, "threshold": 0.5})
    step = run(pair(scripted(drafted), scripted(target, "target")), config).units[0]
    assert step.outcome.n_kept == 3
    read = [token.target_logprob for token in step.written.tokens]
    assert read == pytest.approx([-1.0, -1.0, -1.0, -0.5, -0.5, -0.5])


def test_the_targets_own_time_counts_its_own_tokens():
    trace, _ = taken_over()
    step = trace.units[0]
    roles = dict(step.cost.roles)
    written = replace(roles["target_written"], milliseconds=100.0 * roles["target_written"].tokens)
    cost = replace(step.cost, roles={**roles, "target_written": written})
    timed = replace(trace, units=(replace(step, cost=cost),))
    alone = target_only_time(timed)
    assert alone.basis == "estimated"
    assert alone.milliseconds == pytest.approx(100.0 * len(step.token_ids))


def test_a_step_that_a_person_has_written_anew_is_written_whole():
    trace, _ = taken_over()
    with pytest.raises(ValueError, match="only where the target took over"):
        Outcome("edited", forced=True, n_kept=3)
    with pytest.raises(ValueError, match="go on from the draft's kept tokens"):
        replace(trace.units[0], outcome=Outcome("target", n_kept=4))


def test_a_trace_comes_back_with_what_was_kept():
    trace, _ = taken_over()
    assert from_json(to_json(trace)) == trace


def test_commands_and_tables_name_who_wrote_which_token():
    trace, _ = taken_over()
    step = trace.units[0]
    (line, *_) = step_lines(step, trace.pieces, lambda text, style: text)
    assert "the first 3 the draft's" in line
    assert trace_brief(trace)["steps"][0]["n_kept"] == 3
    writer = next(column for column in COLUMNS if column.name == "writer")
    written = [writer.of(row) for row in rows(trace) if row.candidate is None]
    assert written == ["draft"] * 3 + ["target"] * (len(step.token_ids) - 3)


def test_another_threshold_that_moves_the_place_makes_what_follows_stale():
    drafted = {"": [ScriptedStep("ab7x.\n\n", (-1.0, -6.0, -1.0, -9.0, -1.0))]}
    config = configured(**{**AT_TOKEN, "threshold": 0.3})
    trace = run(pair(scripted(drafted)), config)
    assert trace.units[0].outcome.n_kept == 3
    same = regate(trace, with_config(trace, threshold=0.35))
    assert (same.flips, same.n_kept) == ((), (3,))
    later = regate(trace, with_config(trace, threshold=0.5))
    assert (later.flips, later.n_kept) == ((0,), (1,))
    assert not later.verdicts[0].accepted
    assert "refused at another token" in regate_lines(trace, later)[0]


# On the page


def test_the_page_shows_where_the_target_took_over():
    session = opened(Session(), taken_over()[0])
    look = Look(STEPS.cursor_at(0))
    seen = sight(session, look)
    assert why_view(seen, look)["sentence"][1] == "so the target wrote on from token 4."
    card = candidates_view(seen, look)["written"]
    assert card["title"] == "Target wrote on from token 4"
    assert card["text"] == [{"kind": "kept", "text": "ab7"}, {"kind": "same", "text": "yz."}]
    assert timeline_view(session, look)["blocks"][0]["tokens_text"] == "6 tok, 3 by target"
    judged = evidence_view(seen, look)
    written = evidence_view(seen, replace(look, candidate=WRITTEN))
    assert judged["taken_over"] == written["taken_over"] == written["selected"] == 3


def test_the_page_says_that_other_knobs_move_the_place():
    drafted = {"": [ScriptedStep("ab7x.\n\n", (-1.0, -6.0, -1.0, -9.0, -1.0))]}
    trace = run(pair(scripted(drafted)), configured(**{**AT_TOKEN, "threshold": 0.3}))
    look = Look(STEPS.cursor_at(0))
    seen = sight(opened(Session(), trace), look)
    moved = what_if(trace, with_config(trace, threshold=0.5), None)
    said = why_view(seen, look, moved)["whatif"]["sentence"][1]
    assert said == "so at these knobs it would be refused at another token, number 2."
    assert flip_list(trace, moved)["flips"][0]["change"] == "refused at another token"
    same = what_if(trace, with_config(trace, threshold=0.35), None)
    said = why_view(seen, look, same)["whatif"]["sentence"][1]
    assert said == "so at these knobs it would be refused."


# Models


def test_a_delimiter_that_both_wrote_a_half_of_ends_the_step():
    assert StepWatch(b"\n\n", [b"so", b"\n"]).feed(b"\n")
    assert not StepWatch(b"\n\n", [b"\n"]).feed(b"\n")


@pytest.mark.parametrize("n_begun", [1, 3])
def test_a_model_goes_on_as_it_would_have_written(n_begun):
    model = tiny_model(eos=())
    prefix = some_ids(20, seed=1)
    whole = model.sample_steps([sample_request(prefix, temperature=0.0, max_tokens=8)])[0].draws[0]
    begun = whole.token_ids[:n_begun]
    request = sample_request(
        prefix + begun, temperature=0.0, max_tokens=8 - n_begun, n_begun=n_begun
    )
    rest = model.sample_steps([request])[0].draws[0]
    assert begun + rest.token_ids == whole.token_ids
    assert rest.stop == whole.stop

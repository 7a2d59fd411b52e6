"""What is said of a step's tokens: which count, where their mass is, where the target disagrees."""

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_traces import coin_trace

from specguard_core.types import Alternative, Heatmap, Trace
from viz_app.pace import STEPS
from viz_app.page import PANELS, draw
from viz_app.requests import looked
from viz_app.session import Look, Session, opened
from viz_app.sight import sight
from viz_app.theme import contrast, css
from viz_app.views.candidates import candidates_view
from viz_app.views.colouring import SPLIT_LEVELS, split_level
from viz_app.views.context import LARGEST, MOST_CELLS, context_rows, paint
from viz_app.views.evidence import evidence_view
from viz_app.views.raw import LONG, MOST_ROWS, raw_view, toggled
from viz_app.views.top import Desk
from viz_app.whatif import what_if

REFUSED = Look(STEPS.cursor_at(2))
DESK = Desk(("draft", "target"), "models idle")


def counted_by(rule: str) -> Trace:
    trace = coin_trace()
    return replace(trace, config=replace(trace.config, signal_tokens=rule))


def evidence(trace: Trace, look: Look = REFUSED) -> dict:
    return evidence_view(sight(opened(Session(), trace), look), look)


def test_tokens_left_out_of_the_minimum_say_why_and_the_least_is_among_the_others():
    view = evidence(counted_by("equation"))
    left_out = [token["text"] for token in view["tokens"] if token["left_out"]]
    assert left_out == ["Ana", "·is", "·left", "·with", "·coins", ".↵↵"]
    assert view["tokens"][0]["left_out"] == "in no minimum: no digit or operator in it"
    assert view["tokens"][12]["left_out"] == "in no minimum: it ends the step"
    assert view["counts"]["text"] == "7 of 13 count"
    assert all(view["tokens"][curve["marked"]["index"]]["counted"] for curve in view["curves"])


@pytest.mark.parametrize("rule", ["all", "numeric", "equation", "setup"])
def test_a_token_is_left_out_exactly_where_it_does_not_count(rule):
    view = evidence(counted_by(rule))
    assert all(bool(token["left_out"]) != token["counted"] for token in view["tokens"])
    n = sum(token["counted"] for token in view["tokens"])
    assert view["counts"]["text"] == f"{n} of 13 count"


def with_target(*, gap: float) -> Trace:
    """The coins with the target's view of the judged candidate; one token `gap` nats apart."""
    trace = coin_trace()
    step = trace.units[2]
    one = step.candidates[0]
    tokens = tuple(
        replace(t, target_logprob=min(t.logprob - (gap if i == 10 else 0.0), 0.0))
        for i, t in enumerate(one.tokens)
    )
    candidates = (replace(one, tokens=tokens), *step.candidates[1:])
    units = (*trace.units[:2], replace(step, candidates=candidates), *trace.units[3:])
    return replace(trace, units=units)


def test_before_it_is_measured_the_target_s_view_says_what_it_costs():
    view = evidence(coin_trace())
    mode = next(mode for mode in view["modes"] if mode["key"] == "target")
    assert mode["ask"] == "not measured: one target pass, about 4.1 ms"
    assert view["disagreement"] is None
    assert view["curves"][0]["target"] is None


def test_disagreement_is_listed_worst_first_and_drawn_beside_the_draft():
    view = evidence(with_target(gap=2.5))
    mode = next(mode for mode in view["modes"] if mode["key"] == "target")
    assert mode["ask"] == ""
    assert view["disagreement"]["least"]["token"] == 10
    assert [item["value"] for item in view["disagreement"]["most"]] == ["+2.50"]
    assert view["tokens"][10]["modes"]["target"] == [SPLIT_LEVELS // 2 + 3, "+2.50"]
    target = view["curves"][0]["target"]
    assert target["marked"] == {"index": 10, "text": "least −2.83"}
    assert view["curves"][0]["low"] < -2.83


@given(st.floats(-50, 50))
def test_the_two_sided_ramp_is_even_and_its_middle_is_agreement(apart):
    found = split_level(apart)
    assert 0 <= found < SPLIT_LEVELS
    assert found + split_level(-apart) == SPLIT_LEVELS - 1
    assert split_level(0.0) == SPLIT_LEVELS // 2


def test_every_colour_of_the_ramps_bears_text():
    import re

    pairs = re.findall(r"--(?:signal|mass|split)-\d: (#\w+); --\S+-ink: (#\w+);", css())
    assert len(pairs) == 2 * (10 + 10 + SPLIT_LEVELS)
    assert [pair for pair in pairs if contrast(*pair) < 4.5] == []


def test_the_rows_of_the_context_hold_every_token_of_it_once():
    trace = coin_trace()
    rows = context_rows(trace, 2)
    covered = []
    for row in rows[1:]:
        sizes = row["sizes"] or [1] * len(row["texts"])
        covered += range(row["start"], row["start"] + sum(sizes))
    template = [len(s.token_ids) for s in trace.prompt_segments if s.kind == "template"]
    n_context = sum(trace.context_segment_lengths(2))
    assert len(set(covered)) == len(covered) == n_context - sum(template)
    assert "".join(rows[1]["texts"]) == "Ana has 23 coins."


def test_a_large_heatmap_is_sent_by_each_token_s_largest_cells():
    n = MOST_CELLS // 2 + 1
    cells = bytes(i % 251 for i in range(n)) + bytes(255 if i < 3 else 0 for i in range(n))
    small = coin_trace().units[2].candidates[0]
    assert base64.b64decode(paint(small)["cells"]) == small.heatmap.cells
    large = paint(replace(small, heatmap=Heatmap(n, (0.5, 0.5), cells)))
    assert large["cells"] is None
    first, second = large["largest"]
    assert len(first) == 2 * LARGEST
    assert min(first[1::2]) >= 250
    assert second == [0, 255, 1, 255, 2, 255]


def test_another_cut_regroups_the_recorded_draws_and_letters_stay():
    session = opened(Session(), coin_trace())
    for cut, clusters in ((0.8, [0, 1, 1]), (0.5, [0, 0, 0]), (0.9, [0, 1, 2])):
        look = looked(session, REFUSED, {"knob": "cluster_similarity", "value": cut})
        overlay = what_if(session.trace, look.knobs, None)
        view = candidates_view(sight(session, look), look, overlay)
        assert [card["cluster"] for card in view["cards"]] == clusters
        assert view["labels"] == ["A", "B1", "B2"]
        assert view["cut"] == cut
        assert (view["turned"] is None) == (cut == 0.8)
        assert len(view["graph"]["hulls"]) == len(set(clusters))
    assert session.trace == coin_trace()


def test_the_raw_trace_unfolds_node_by_node():
    trace = coin_trace()
    names = [row[2] for row in raw_view(trace, frozenset())["rows"]]
    assert {"problem", "pieces", "config", "units"} <= set(names)
    assert "chains" not in names
    inside = toggled(toggled(frozenset(), "/units"), "/units/2")
    rows = {row[1]: row[3:] for row in raw_view(trace, inside)["rows"]}
    assert rows["/units"] == ["[ 4 ]", "open"]
    assert rows["/units/2/index"] == ["2", "leaf"]
    assert rows["/units/2/candidates"] == ["[ 3 ]", "shut"]
    assert toggled(inside, "/units") == frozenset()


def test_long_lists_come_in_groups_and_no_answer_is_long():
    trace = coin_trace()
    longer = replace(trace, pieces={**trace.pieces, **{1000 + i: b"x" for i in range(900)}})
    rows = raw_view(longer, frozenset(["/pieces"]))["rows"]
    groups = [row for row in rows if row[1].startswith("/pieces/")]
    assert groups[0][2:] == [f"0-{LONG - 1}", f"{LONG} of them", "shut"]
    opened_all = frozenset(["/pieces", *(row[1] for row in groups)])
    view = raw_view(longer, opened_all)
    assert len(view["rows"]) == MOST_ROWS
    assert view["left_out"] > 0


def long_run(n_steps: int = 40, n_tokens: int = 100) -> Trace:
    """Four candidates of a hundred tokens a step, all that can be recorded on each token."""
    trace = coin_trace()
    step = trace.units[2]
    base = step.candidates[0]
    others = tuple(Alternative(i, -1.2345 * i - 0.1) for i in range(5))
    units = []
    n_context = len(trace.prompt_ids)
    for index in range(n_steps):
        n_segments = 6 + index
        tokens = tuple(
            replace(
                base.tokens[i % 12],
                alternatives=others,
                attribution=tuple(0.7 / (n_segments + s) for s in range(n_segments)),
            )
            for i in range(n_tokens - 1)
        )
        cells = bytes(i * 7 % 251 for i in range(n_context)) * (n_tokens - 1)
        heatmap = Heatmap(n_context, (0.0213,) * (n_tokens - 1), cells)
        one = replace(base, tokens=(*tokens, base.tokens[12]), heatmap=heatmap)
        candidates = tuple(replace(one, draws=(slot,)) for slot in range(4))
        verdict = replace(step.verdict, accepted=True, score=0.8)
        units.append(
            replace(
                step,
                index=index,
                candidates=candidates,
                selection=None,
                verdict=verdict,
                written=None,
                outcome=replace(step.outcome, source="draft"),
            )
        )
        n_context += n_tokens
    return replace(trace, units=tuple(units))


def test_a_step_of_a_run_of_4000_tokens_is_an_answer_of_at_most_200_kb():
    session = opened(Session(), long_run())
    views = draw(session, Look(STEPS.cursor_at(39)), DESK)
    assert set(views) == set(PANELS)
    size = sum(len(text.encode()) for text in views.values())
    assert size <= 200_000, {name: len(text) for name, text in views.items()}
    assert json.loads(views["evidence"])["rows"][-1]["label"] == "step 39"

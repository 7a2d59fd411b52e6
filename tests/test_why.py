"""The copied assertion holds for whatever the rule may say."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from sample_traces import CONFIG, coin_trace, scales

from specguard_core.types import Candidate, TokenSignal, Verdict
from specguard_core.verification import verify
from viz_app.views.why import arithmetic, assertion

PIECES = {0: b" a", 1: b" 7", 2: b"+"}
unit = st.floats(0, 1)

tokens = st.lists(
    st.builds(
        TokenSignal,
        token_id=st.integers(0, 2),
        logprob=st.floats(-30, 0),
        attribution=st.tuples(unit.map(lambda share: share / 2), unit.map(lambda share: share / 2)),
        target_logprob=st.floats(-30, 0),
    ).map(lambda token: replace(token, entropy=1.0)),
    min_size=1,
    max_size=5,
)
weights = st.dictionaries(
    st.sampled_from(["confidence", "grounding", "target_confidence"]),
    st.floats(0.01, 1),
    min_size=1,
).map(lambda found: tuple(found.items()))


@st.composite
def verdicts(draw: st.DrawFn) -> Verdict:
    config = replace(
        CONFIG,
        weights=draw(weights),
        threshold=draw(st.floats(0, 1.01)),
        normalisation=draw(st.sampled_from(["calibrated", "fixed"])),
        signal_tokens=draw(st.sampled_from(["all", "numeric", "equation", "setup"])),
    )
    one = Candidate(tuple(draw(tokens)), "delimiter", draws=(0,))
    return verify([one], None, config, scales=scales(), pieces=PIECES)


@settings(max_examples=200)
@given(verdicts())
def test_the_copied_assertion_holds_for_any_verdict(verdict):
    exec(assertion(verdict)["full"], {})


@given(verdicts())
def test_at_a_threshold_that_is_its_score_the_assertion_still_holds(verdict):
    at = replace(verdict, threshold=verdict.score, accepted=True)
    exec(assertion(at)["full"], {})


@given(verdicts())
def test_the_written_parts_are_the_score_and_the_word_is_the_verdict(verdict):
    view = arithmetic(verdict)
    assert view["accepted"] == verdict.accepted
    assert abs(sum(row["share"] for row in view["readings"]) - verdict.score) < 1e-3
    assert (view["word"] == "Accepted") == (verdict.score >= verdict.threshold)


def test_the_assertion_of_a_recorded_step_is_python_that_fails_for_another_score():
    verdict = coin_trace().units[2].verdict
    text = assertion(verdict)["full"]
    exec(text, {})
    assert "assert score < 0.7" in text

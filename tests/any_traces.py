"""Traces and sessions for tests: one with every field set, and a strategy that draws whole ones."""

from dataclasses import replace
from typing import Any, get_args

from hypothesis import strategies as st

from specguard_core import blocks, types
from specguard_core.config import READING_NAMES, DecodeConfig, SelectionMethod
from specguard_core.sessions import Branch, Breakpoint, Note, Session, TargetView
from specguard_core.types import (
    Alternative,
    Block,
    Bounds,
    Calibration,
    CalibrationTable,
    Candidate,
    Correction,
    Cost,
    Decision,
    Finish,
    Heatmap,
    ModelInfo,
    Outcome,
    PromptSegment,
    Reading,
    RoleCost,
    Selection,
    Step,
    TokenSignal,
    Trace,
    Verdict,
)

IDS = st.integers(0, 200)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
LOGPROBS = st.floats(-1e30, 0.0)
UNIT = st.floats(0, 1)
PIECES = {i: bytes([i]) if i % 3 else "😀".encode() for i in range(201)}
ROLES = get_args(types.Role)
METHODS = get_args(SelectionMethod)

INFO = ModelInfo(
    name="tiny",
    source="/models/tiny",
    revision="abc",
    architecture="LlamaForCausalLM",
    n_parameters=1000,
    n_layers=4,
    vocabulary_size=201,
    context_length=512,
    dtype="float32",
    device="cpu",
    grounding="captured",
    rollback="crop",
)
CALIBRATION = Calibration(
    pair="tiny + tiny",
    n_problems=3,
    n_steps=12,
    tables=(
        CalibrationTable(
            {"rollout_layers": 3, "sparsify": 0.01, "residual": True, "signal_tokens": "all"},
            {"confidence": Bounds(-4.0, -0.1), "target_grounding": Bounds(0.2, 0.9)},
        ),
    ),
)


def _candidates(n_segments: int, n_context: int) -> st.SearchStrategy[Candidate]:
    attribution = st.tuples(*[UNIT] * n_segments)
    tokens = st.builds(
        TokenSignal,
        token_id=IDS,
        logprob=st.none() | LOGPROBS,
        sampling_logprob=st.none() | LOGPROBS,
        entropy=st.none() | UNIT,
        alternatives=st.lists(st.builds(Alternative, IDS, LOGPROBS), max_size=2).map(tuple),
        attribution=st.none() | attribution,
        target_logprob=st.none() | LOGPROBS,
        target_grounding=st.none() | UNIT,
    )

    def complete(tokens: list[TokenSignal]) -> st.SearchStrategy[Candidate]:
        n_rows = len(tokens)
        heatmap = st.builds(
            Heatmap,
            st.just(n_context),
            st.tuples(*[UNIT] * n_rows),
            st.binary(min_size=n_rows * n_context, max_size=n_rows * n_context),
        )
        return st.builds(
            Candidate,
            tokens=st.just(tuple(tokens)),
            stop=st.sampled_from(get_args(types.CandidateStop)),
            origin=st.sampled_from(get_args(types.Origin)),
            draws=st.lists(st.integers(0, 15), max_size=3).map(tuple),
            heatmap=st.none() | heatmap,
        )

    return st.lists(tokens, min_size=1, max_size=3).flatmap(complete)


@st.composite
def _steps(draw: st.DrawFn, index: int, n_segments: int, n_context: int) -> Step:
    candidates = tuple(draw(st.lists(_candidates(n_segments, n_context), max_size=2)))
    n = len(candidates)
    row = st.tuples(*[UNIT] * n)
    selection = verdict = None
    if n and draw(st.booleans()):
        selection = Selection(
            similarity=draw(st.dictionaries(st.sampled_from(METHODS), st.tuples(*[row] * n))),
            clusters=draw(st.tuples(*[st.integers(0, 3)] * n)),
            consistency=draw(row),
            chosen=draw(st.integers(0, n - 1)),
            method=draw(st.sampled_from(METHODS)),
        )
    if n and draw(st.booleans()):
        readings = st.builds(
            Reading,
            raw=FINITE,
            normalised=UNIT,
            weight=UNIT,
            basis=st.sampled_from(["calibrated", "fixed", "candidates", "share"]),
            low=st.none() | FINITE,
            high=st.none() | FINITE,
            weakest_token=st.sampled_from([None, 0]),
            digits=st.none() | st.tuples(*[UNIT] * 10),
        )
        names: Any = st.sampled_from(READING_NAMES)
        verdict = Verdict(
            draw(st.dictionaries(names, readings)), draw(UNIT), draw(UNIT), draw(st.booleans())
        )
    forced = draw(st.booleans())
    if not n or (verdict is not None and not verdict.accepted and not forced):
        outcome = Outcome("target", forced)
    elif verdict is not None and not forced:
        outcome = Outcome("draft")
    else:
        source = draw(st.sampled_from(["draft", "target", "edited"]))
        outcome = Outcome(source, forced or source == "edited" or verdict is not None)
    written = None if outcome.source == "draft" else draw(_candidates(n_segments, n_context))
    role = st.builds(RoleCost, st.integers(0, 10**6), st.floats(0, 1e6))
    cost = draw(
        st.builds(
            Cost,
            st.dictionaries(st.sampled_from(ROLES), role),
            st.integers(0, 9),
            st.integers(0, 9),
        )
    )
    attempt = draw(st.integers(0, 3))
    return Step(index, candidates, selection, verdict, outcome, written, cost, attempt)


@st.composite
def _blocks(draw: st.DrawFn, index: int) -> Block:
    drafted = draw(st.lists(IDS, max_size=3).map(tuple))
    decision = st.builds(
        Decision,
        draft_prob=UNIT,
        target_prob=UNIT,
        ratio=UNIT,
        uniform=st.none() | UNIT,
        outcome=st.just("accepted"),
        draft_entropy=st.none() | UNIT,
        target_entropy=st.none() | UNIT,
        overlap=st.none() | UNIT,
    )
    decisions = [draw(decision) for _ in drafted]
    last = draw(st.sampled_from(["accepted", "rejected", "overridden"]))
    if decisions:
        decisions[-1] = replace(decisions[-1], outcome=last)
    kinds = st.sampled_from(get_args(blocks.CorrectionKind))
    correction: Correction | None = draw(st.builds(Correction, IDS, kinds, UNIT))
    if decisions and last == "accepted" and draw(st.booleans()):
        correction = None
    cost = Cost({"draft_kept": RoleCost(len(drafted), 0.5)}, 1, len(drafted) + 1)
    return Block(index, drafted, tuple(decisions), correction, draw(st.booleans()), cost)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Any trace of up to two units; its text may hold whatever a person can type."""
    kinds = st.sampled_from(get_args(types.SegmentKind))
    ids = st.lists(IDS, max_size=3).map(tuple)
    segments = tuple(draw(st.lists(st.builds(PromptSegment, kinds, ids), max_size=2)))
    n_context = sum(len(segment.token_ids) for segment in segments)
    units: list[Step | Block] = []
    by_block = draw(st.booleans())
    for index in range(draw(st.integers(0, 2))):
        steps = _steps(index, len(segments) + index, n_context)
        units.append(draw(_blocks(index) if by_block else steps))
        n_context += len(units[-1].token_ids)
    status = draw(st.sampled_from(get_args(types.Status)))
    reasons = st.sampled_from(get_args(types.FinishReason))
    finish = (
        draw(st.builds(Finish, reasons, st.none() | st.text())) if status == "finished" else None
    )
    return Trace(
        problem=draw(st.text()),
        problem_id=draw(st.text()),
        gold=draw(st.none() | st.text()),
        prompt_segments=segments,
        prompt_template="plain",
        pieces=PIECES,
        tokenizer_hash="0" * 64,
        draft=draw(st.sampled_from([None, INFO])),
        target=draw(st.sampled_from([None, INFO])),
        config=DecodeConfig(threshold=draw(st.floats(0, 1.01)), seed=draw(st.integers(0, 99))),
        calibration=draw(st.sampled_from([None, CALIBRATION])),
        units=tuple(units),
        status=status,
        failure="it broke" if status == "failed" else None,
        finish=finish,
    )


def full_trace() -> Trace:
    """A finished trace with every field of every value set."""
    token = TokenSignal(
        token_id=3,
        logprob=-0.25,
        sampling_logprob=-0.5,
        entropy=0.75,
        alternatives=(Alternative(3, -0.25), Alternative(4, -1.5)),
        attribution=(0.25, 0.5),
        target_logprob=-0.125,
        target_grounding=0.875,
    )
    candidate = Candidate(
        (token,), "delimiter", "sampled", (0, 1), Heatmap(3, (0.5,), b"\0\x01\xff")
    )
    other = Candidate((token, token), "eos", "sampled", (2,), None)
    reading = Reading(-0.25, 0.5, 0.3, "fixed", -10.0, 0.0, 0)
    step = Step(
        index=0,
        candidates=(candidate, other),
        selection=Selection(
            {"lexical": ((1.0, 0.5), (0.5, 1.0))}, (0, 1), (0.75, 0.5), 0, "lexical"
        ),
        verdict=Verdict({"confidence": reading}, 0.5, 0.7, accepted=False),
        outcome=Outcome("edited", forced=True),
        written=other,
        cost=Cost({"draft_kept": RoleCost(2, 1.5), "verification": RoleCost(0, 0.25)}, 1, 2),
        attempt=1,
    )
    return Trace(
        problem="Ann has 2 apples.",
        problem_id="p1",
        gold="2",
        prompt_segments=(PromptSegment("template", (1,)), PromptSegment("question", (2, 5))),
        prompt_template="chat template",
        pieces={i: bytes([64 + i]) for i in range(6)},
        tokenizer_hash="ab" * 32,
        draft=INFO,
        target=INFO,
        config=DecodeConfig(),
        calibration=CALIBRATION,
        units=(step,),
        status="finished",
        finish=Finish("answer", "2"),
    )


def full_session() -> Session:
    """Two branches, a breakpoint of each kind of value, a note, and a target's view."""
    trace = full_trace()
    return Session(
        branches=(Branch("main", trace), Branch("b", trace, "main", 0, "forced")),
        current="b",
        breakpoints=(Breakpoint("score_below", 0.5), Breakpoint("pattern", "3 \\+", enabled=False)),
        notes=(Note("b", 0, "why?"),),
        target_views=(TargetView("0a" * 16, (-0.5, 0.0), 12.5),),
    )

"""Small decodes for tests: scripted pairs, hand-made candidates, and whole runs. Knows no test.

Token ids are those of the scripted vocabulary: every byte is one, and so is every word of it. A
script maps the text of the kept steps so far to what a model writes next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from specguard_core.backends.scripted import (
    EOS,
    Script,
    ScriptedModel,
    ScriptedStep,
    ScriptedVocabulary,
    scripted_info,
)
from specguard_core.config import STEP_STRATEGY_NAMES, DecodeConfig, ReadingName
from specguard_core.decoder.step import Finished, State, advance, decode, start
from specguard_core.events import Event
from specguard_core.lm import Draw, DrawBatch, Models, ReadRequest, SampleRequest, StepReading
from specguard_core.readings import ROLLOUT_KNOBS, Scales
from specguard_core.strategies import STRATEGIES
from specguard_core.types import (
    Bounds,
    Calibration,
    CalibrationTable,
    Candidate,
    CandidateStop,
    Selection,
    TokenSignal,
    Trace,
    Verdict,
)
from specguard_core.verification import verify

PAIR_STRATEGIES = tuple(name for name in STEP_STRATEGY_NAMES if STRATEGIES[name].judge != "reward")
"""Step strategies that a pair runs by itself; tests/test_rsd.py has those with a reward model."""
PROBLEM = "Tom has 5 pens. He buys 4 more. How many?"
VOCABULARY = ScriptedVocabulary()
PIECES = {token_id: VOCABULARY.piece(token_id) for token_id in range(len(VOCABULARY))}
UNCALIBRATED = Scales(calibration=None, draft_layers=4, target_layers=4)


def configured(**knobs: Any) -> DecodeConfig:
    """A config with weights given as a dict; anything else as DecodeConfig takes it."""
    if isinstance(knobs.get("weights"), Mapping):
        knobs["weights"] = tuple(knobs["weights"].items())
    return DecodeConfig(**knobs)


def candidate(
    text: str,
    logprobs: float | Sequence[float | None] = -0.1,
    *,
    grounding: float | Sequence[float | None] | None = None,
    target_logprobs: float | Sequence[float | None] | None = None,
    target_grounding: float | Sequence[float | None] | None = None,
    draws: tuple[int, ...] = (0,),
    stop: CandidateStop | None = None,
) -> Candidate:
    """A candidate of these words; a value given once holds for every token.

    It stops at the delimiter where the text ends with it, else at an EOS that is added.
    """
    ids = VOCABULARY.encode(text)
    if stop is None:
        stop = "delimiter" if text.endswith("\n\n") else "eos"
    if stop == "eos":
        ids = (*ids, EOS)

    def each(values: float | Sequence[float | None] | None) -> Sequence[float | None]:
        return (values,) * len(ids) if values is None or isinstance(values, float) else values

    measured = zip(
        ids,
        each(logprobs),
        each(grounding),
        each(target_logprobs),
        each(target_grounding),
        strict=True,
    )
    tokens = tuple(
        TokenSignal(
            token_id=token_id,
            logprob=logprob,
            attribution=None if mass is None else (mass,),
            target_logprob=target_logprob,
            target_grounding=target_mass,
        )
        for token_id, logprob, mass, target_logprob, target_mass in measured
    )
    return Candidate(tokens, stop, "sampled", draws)


def chosen_among(n: int, chosen: int, clusters: Sequence[int] | None = None) -> Selection:
    """A selection of one of n candidates; alone in its cluster unless told otherwise."""
    matrix = tuple(tuple(float(i == j) for j in range(n)) for i in range(n))
    return Selection(
        {"lexical": matrix}, tuple(clusters or range(n)), (0.0,) * n, chosen, "lexical"
    )


def scripted(
    script: Script | None = None, name: str = "model", *, context_length: int = 4096, **fields: Any
) -> ScriptedModel:
    """A scripted model of that name; without a script it invents, differently for each name."""
    info = scripted_info(name, context_length=context_length)
    return ScriptedModel(script or {}, info=info, **fields)


class AttentiveModel(ScriptedModel):
    """A scripted model whose attention is random, causal and its own at each place."""

    __slots__ = ()

    def sample_steps(self, requests: Sequence[SampleRequest], **options: Any) -> list[DrawBatch]:
        batches = ScriptedModel.sample_steps(self, requests, **options)
        return [
            replace(batch, draws=tuple(_attentive(draw, request.prefix) for draw in batch.draws))
            for request, batch in zip(requests, batches, strict=True)
        ]


def _attentive(draw: Draw, prefix: tuple[int, ...]) -> Draw:
    if draw.attention is None:
        return draw
    n_layers, m, n_keys = draw.attention.shape
    generator = np.random.default_rng([*prefix, *draw.token_ids])
    rows = np.zeros(draw.attention.shape, np.float32)
    # The last layers are the same ones however many are asked for.
    for layer in reversed(range(n_layers)):
        weights = np.exp(3 * generator.normal(size=(m, n_keys)))
        weights *= np.tri(m, n_keys, n_keys - m)
        rows[layer] = weights / weights.sum(axis=1, keepdims=True)
    rows[draw.attention.sum(axis=2) == 0] = 0
    return replace(draw, attention=rows)


def pair(
    draft: ScriptedModel | Script | None = None, target: ScriptedModel | Script | None = None
) -> Models:
    """Models ready to decode, from two scripts; what a script leaves open is invented."""
    return Models(
        VOCABULARY,
        draft if isinstance(draft, ScriptedModel) else scripted(draft, "draft"),
        target if isinstance(target, ScriptedModel) else scripted(target, "target"),
    )


def recited(*texts: str, logprobs: float = -0.1, context_share: float = 0.8) -> Script:
    """A script of one step after the other, whoever wrote the one before."""
    script, said = {}, ""
    for text in texts:
        script[said] = (ScriptedStep(text, logprobs, context_share),)
        said += text
    return script


def run(
    models: Models,
    config: DecodeConfig | None = None,
    *,
    problem: str = PROBLEM,
    calibration: Calibration | None = None,
) -> Trace:
    """The trace of a whole decode."""
    return trace_from(start(problem, models, config, calibration=calibration), models)


def trace_from(state: State, models: Models) -> Trace:
    """The trace of a decode that goes on from a state."""
    while not isinstance(state, Finished):
        state, _ = advance(state, models)
    return state.trace


def states_of(state: State, models: Models) -> list[State]:
    """The state itself and every one after it, up to the finished one."""
    states = [state]
    while not isinstance(states[-1], Finished):
        states.append(advance(states[-1], models)[0])
    return states


def events_of(models: Models, config: DecodeConfig, *, problem: str = PROBLEM) -> list[Event]:
    """Every event of a whole decode."""
    return list(decode(start(problem, models, config), models))


def with_config(trace: Trace, **knobs: Any) -> DecodeConfig:
    """The trace's config with other knobs."""
    if isinstance(knobs.get("weights"), Mapping):
        knobs["weights"] = tuple(knobs["weights"].items())
    return replace(trace.config, **knobs)


@dataclass(slots=True)
class Overheard(ScriptedModel):
    """A scripted model that keeps the requests it was asked."""

    sampled: list[SampleRequest] = field(default_factory=list)
    read: list[ReadRequest] = field(default_factory=list)

    def sample_steps(self, requests: Sequence[SampleRequest], **options: Any) -> list[DrawBatch]:
        self.sampled += requests
        return ScriptedModel.sample_steps(self, requests, **options)

    def read_steps(self, requests: Sequence[ReadRequest], **options: Any) -> list[StepReading]:
        self.read += requests
        return ScriptedModel.read_steps(self, requests, **options)


def overheard(script: Script | None = None, name: str = "draft", **info: Any) -> Overheard:
    """An overheard model of that name; what is not given of its info is as of any scripted one."""
    return Overheard(script or {}, info=replace(scripted_info(name), **info))


def at(kind: type[State], models: Models, config: DecodeConfig) -> State:
    """The first state of that kind."""
    state = start(PROBLEM, models, config)
    while not isinstance(state, kind):
        state, _ = advance(state, models)
    return state


def steps_after_nothing(*texts: str, **fields: Any) -> Script:
    """A script whose first step is one of these texts, drawn in turn."""
    return {"": tuple(ScriptedStep(text, **fields) for text in texts)}


def judged(one: Candidate, config: DecodeConfig, *, scales: Scales = UNCALIBRATED) -> Verdict:
    """The verdict on a candidate that stands alone."""
    return verify([one], None, config, scales=scales, pieces=PIECES)


def confident(**knobs: Any) -> DecodeConfig:
    """A config that weighs confidence alone."""
    return configured(weights={"confidence": 1.0}, **knobs)


def calibrated(bounds: Mapping[ReadingName, Bounds], **settings: Any) -> Scales:
    """Scales with a calibration of these bounds, made under the default knobs and these."""
    names = ("signal_tokens", "include_boundary_token", *ROLLOUT_KNOBS)
    knobs = {name: getattr(DecodeConfig(), name) for name in names}
    table = CalibrationTable({**knobs, **settings}, bounds)
    return replace(UNCALIBRATED, calibration=Calibration("pair", 10, 40, (table,)))

"""What a trace's verdicts would be under other knobs: pure, and never a change of the trace.

overlay     verdicts beside the recorded ones; a Step keeps what really happened
flip        a step whose verdict, or whose draft's tokens that were kept, would have been others;
            everything after the first one is stale: it was written after a text that would not
            stand
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from specguard_core.config import KNOBS, DecodeConfig
from specguard_core.decoder.signals import attribution_of
from specguard_core.errors import ConfigError, NotMeasured
from specguard_core.evidence import Evidence, context_before
from specguard_core.readings import ROLLOUT_KNOBS, scales_of
from specguard_core.selection import reselect
from specguard_core.types import Candidate, Selection, Step, Trace, Verdict
from specguard_core.verification import grade_verdict, n_standing, reward_verdict, verify


@dataclass(frozen=True, slots=True)
class Regate:
    """One entry per step of the trace.

    verdicts     the new verdict; None where the strategy made none, or where it cannot be told
    selections   the new selection; None where nothing was selected
    n_kept       tokens of the draft's step that would stand; None as for the verdict
    unmeasured   by step index, the sentence of why a verdict cannot be told
    flips        indices of steps that would have gone another way, judged one by one
    """

    verdicts: tuple[Verdict | None, ...]
    selections: tuple[Selection | None, ...]
    n_kept: tuple[int | None, ...]
    unmeasured: Mapping[int, str]
    flips: tuple[int, ...]

    @property
    def first_flip(self) -> int | None:
        """The only certain flip: every step after it is stale. None where nothing flips."""
        return self.flips[0] if self.flips else None


def regate(trace: Trace, config: DecodeConfig, evidence: Evidence | None = None) -> Regate:
    """Judge every step of a trace again, from what was recorded.

    Args:
        config: the trace's config with other judge, select or rollout knobs.
        evidence: attention rows, needed for rollout knobs that differ from the trace's.

    Raises:
        ConfigError: a knob that only a new decode can turn differs.
        NotMeasured: no step at all can be judged under these knobs; the sentence says why.
    """
    for name, knob in KNOBS.items():
        if knob.effect == "rerun" and getattr(config, name) != getattr(trace.config, name):
            raise ConfigError(f"expected {name} as it was recorded, got another: decode again")
    verdicts: list[Verdict | None] = []
    selections: list[Selection | None] = []
    unmeasured: dict[int, str] = {}
    n_kept: list[int | None] = []
    flips: list[int] = []
    for step in trace.steps:
        verdict, selection, standing = None, step.selection, None
        if step.verdict is not None:
            try:
                selection = _selection(step, trace, config)
                verdict, kept = _judged(step, step.verdict, selection, trace, config, evidence)
                standing = len(kept)
                now = (verdict.accepted, kept)
                # A forced step's text stands whatever the rule says of it.
                if not step.outcome.forced and now != _kept_by(step):
                    flips.append(step.index)
            except NotMeasured as error:
                unmeasured[step.index] = str(error)
        verdicts.append(verdict)
        selections.append(selection)
        n_kept.append(standing)
    judged = [step.index for step in trace.steps if step.verdict is not None]
    if judged and len(unmeasured) == len(judged):
        raise NotMeasured(unmeasured[judged[0]])
    return Regate(tuple(verdicts), tuple(selections), tuple(n_kept), unmeasured, tuple(flips))


def _kept_by(step: Step) -> tuple[bool, tuple[int, ...]]:
    """Whether an unforced step was accepted, and its tokens that are the draft's."""
    accepted = step.outcome.source == "draft"
    n_kept = len(step.token_ids) if accepted else step.outcome.n_kept
    return accepted, step.token_ids[:n_kept]


def _judged(
    step: Step,
    recorded: Verdict,
    selection: Selection | None,
    trace: Trace,
    config: DecodeConfig,
    evidence: Evidence | None,
) -> tuple[Verdict, tuple[int, ...]]:
    """The verdict at these knobs, and the draft's tokens that a run would keep by it."""
    candidates, scales, pieces = step.candidates, scales_of(trace), trace.pieces
    if (grade := recorded.readings.get("grade")) is not None:
        verdict = grade_verdict(grade.raw, config, grade.digits)
    elif "reward" in recorded.readings:
        verdict = reward_verdict(recorded.readings["reward"].raw, config)
    else:
        candidates = _candidates(step, selection, trace, config, evidence)
        verdict = verify(candidates, selection, config, scales=scales, pieces=pieces)
    chosen = candidates[0 if selection is None else selection.chosen]
    n_kept = len(chosen.tokens)
    if not verdict.accepted:
        n_kept = n_standing(verdict, chosen, config, scales=scales, pieces=pieces)
    return verdict, chosen.token_ids[:n_kept]


def _selection(step: Step, trace: Trace, config: DecodeConfig) -> Selection | None:
    recorded = step.selection
    select_knobs = (config.selection_method, config.cluster_similarity)
    if recorded is None or select_knobs == (
        trace.config.selection_method,
        trace.config.cluster_similarity,
    ):
        return recorded
    return reselect(
        recorded,
        [len(candidate.draws) for candidate in step.candidates],
        [candidate.mean_logprob or 0.0 for candidate in step.candidates],
        method=config.selection_method,
        cluster_similarity=config.cluster_similarity,
    )


def _candidates(
    step: Step,
    selection: Selection | None,
    trace: Trace,
    config: DecodeConfig,
    evidence: Evidence | None,
) -> tuple[Candidate, ...]:
    """The step's candidates, attributions computed anew where rollout knobs differ."""
    if all(getattr(config, name) == getattr(trace.config, name) for name in ROLLOUT_KNOBS):
        return step.candidates
    chosen = 0 if selection is None else selection.chosen
    context_ids = context_before(trace, step.index)
    lengths = trace.context_segment_lengths(step.index)
    return tuple(
        _reattributed(candidate, context_ids, lengths, trace, config, evidence, index == chosen)
        for index, candidate in enumerate(step.candidates)
    )


def _reattributed(
    candidate: Candidate,
    context_ids: tuple[int, ...],
    lengths: tuple[int, ...],
    trace: Trace,
    config: DecodeConfig,
    evidence: Evidence | None,
    needed: bool,
) -> Candidate:
    rows = None if evidence is None else evidence.rows(context_ids, candidate.token_ids)
    depth = 1 if trace.draft is None else trace.draft.n_layers
    if rows is None or len(rows) < min(config.rollout_layers, depth):
        if needed and "grounding" in config.weight:
            raise NotMeasured(
                f"expected attention rows of {min(config.rollout_layers, depth)} layers to turn "
                f"rollout knobs, got {0 if rows is None else len(rows)}: decode again with them"
            )
        attribution: list[tuple[float, ...]] = []
    else:
        n_measured = sum(token.attribution is not None for token in candidate.tokens)
        attribution, _ = attribution_of(rows, n_measured, lengths, config)
    # The target's rows are not kept, so its grounding under other rollout knobs is not known.
    tokens = tuple(
        replace(
            token,
            attribution=attribution[index] if index < len(attribution) else None,
            target_grounding=None,
        )
        for index, token in enumerate(candidate.tokens)
    )
    return replace(candidate, tokens=tokens)

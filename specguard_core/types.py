"""What a decode leaves behind: frozen, JSON-able values. Knows no model, no tensor and no UI.

draw       one sample of a step; equal draws are one candidate
unit       a step or a block, whichever the strategy's decoder makes
context    everything before the current unit: the prompt and the units before it
segment    a stretch of context that attribution is summed over: a prompt segment or an earlier step
reading    one signal of a step as one number: raw, then normalised to [0, 1]
verdict    what the rule says of a step;  outcome  what really happened to it
None       means "not measured", never 0
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from specguard_core.blocks import Block as Block
from specguard_core.blocks import Correction as Correction
from specguard_core.blocks import Decision as Decision
from specguard_core.config import DecodeConfig, Normalisation, ReadingName, SelectionMethod
from specguard_core.costs import Cost as Cost
from specguard_core.costs import Role as Role
from specguard_core.costs import RoleCost as RoleCost
from specguard_core.pair import Bounds as Bounds
from specguard_core.pair import Calibration as Calibration
from specguard_core.pair import CalibrationTable as CalibrationTable
from specguard_core.pair import Expected as Expected
from specguard_core.pair import ModelInfo as ModelInfo
from specguard_core.text import ends_in_thoughts, join_pieces, said_aloud
from specguard_core.votes import Vote

SCHEMA_VERSION = 1

CandidateStop = Literal["delimiter", "eos", "step_limit", "context_limit"]
Origin = Literal["sampled", "retokenised"]
Source = Literal["draft", "target", "edited"]
SegmentKind = Literal["template", "system", "question"]
Status = Literal["running", "stopped", "failed", "finished"]
FinishReason = Literal[
    "eos", "answer", "context_limit", "max_steps", "max_new_tokens", "repeated_steps"
]


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the most likely tokens at a position; log-probability in nats, raw softmax."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenSignal:
    """One token and what was measured where it was drawn.

    logprob            nats, <= 0, raw softmax of the model that wrote it (temperature 1)
    sampling_logprob   nats, <= 0, of the processed distribution it was really drawn from
    entropy            nats, >= 0, of the raw softmax
    attribution        per context segment, the share of rollout mass that enters it, in [0, 1];
                       the sum is the token's grounding
    target_logprob     nats, <= 0, as the target reads it
    target_grounding   share of the target's rollout mass on the context, in [0, 1]
    """

    token_id: int
    logprob: float | None = None
    sampling_logprob: float | None = None
    entropy: float | None = None
    alternatives: tuple[Alternative, ...] = ()
    attribution: tuple[float, ...] | None = None
    target_logprob: float | None = None
    target_grounding: float | None = None

    @property
    def grounding(self) -> float | None:
        """Rollout mass that enters the context, in [0, 1]; higher is better."""
        return None if self.attribution is None else math.fsum(self.attribution)


@dataclass(frozen=True, slots=True)
class Heatmap:
    """Token x context token, uint8; row i holds `scales[i] * cell / 255` shares of rollout mass."""

    n_context: int
    scales: tuple[float, ...]
    cells: bytes

    def __post_init__(self) -> None:
        if len(self.cells) != self.n_context * len(self.scales):
            raise ValueError(
                f"expected {len(self.scales)} x {self.n_context} cells, got {len(self.cells)}"
            )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A step as tokens. `draws` are the slots (from 0) that drew it; a target's step has none."""

    tokens: tuple[TokenSignal, ...]
    stop: CandidateStop
    origin: Origin = "sampled"
    draws: tuple[int, ...] = ()
    heatmap: Heatmap | None = None

    def __post_init__(self) -> None:
        if not self.tokens:
            raise ValueError("expected a step of at least one token, got none")

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token.token_id for token in self.tokens)

    @property
    def mean_logprob(self) -> float | None:
        """Mean log-probability in nats over all tokens; None where any was not measured."""
        values = [t.logprob for t in self.tokens if t.logprob is not None]
        return math.fsum(values) / len(values) if len(values) == len(self.tokens) else None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which candidate stands for the draws. Indices are into the step's candidates.

    similarity    per recorded method, a symmetric [d, d] matrix in [0, 1], diagonal 1
    clusters      cluster index per candidate; 0 is the one with the most draws
    consistency   mean similarity to the other draws, per candidate, in [0, 1]
    """

    similarity: Mapping[SelectionMethod, tuple[tuple[float, ...], ...]]
    clusters: tuple[int, ...]
    consistency: tuple[float, ...]
    chosen: int
    method: SelectionMethod


@dataclass(frozen=True, slots=True)
class Reading:
    """One signal of a step: `normalised = clip((raw - low) / (high - low), 0, 1)`.

    raw            nats for log-probabilities, a share in [0, 1] for the others; higher is better
    expected       the share expected at the weakest token's place, where raw is what it had less
                   that, in [-1, 1]; None: not corrected
    low, high      the bounds used, equal where all candidates were; None for a share
    basis          where the bounds came from; a `share` is its own normalised value
    weakest_token  index into the candidate's tokens of the token that decided; None for a share
    digits         of a grade in words, the probability of each digit from 0 to 9; None: not told
    """

    raw: float
    normalised: float
    weight: float
    basis: Normalisation | Literal["share"]
    low: float | None = None
    high: float | None = None
    weakest_token: int | None = None
    expected: float | None = None
    digits: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.digits is None:
            return
        if len(self.digits) != 10 or not all(0 <= chance <= 1 for chance in self.digits):
            raise ValueError(f"expected ten probabilities of digits, got {self.digits}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rule says: accepted iff score >= threshold; score is the weighted mean."""

    readings: Mapping[ReadingName, Reading]
    score: float
    threshold: float
    accepted: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to a step, whatever any rule says of it.

    n_kept   tokens of the draft's step that the target's begins with: it took over after them
    """

    source: Source
    forced: bool = False
    n_kept: int = 0

    def __post_init__(self) -> None:
        if self.n_kept < 0 or (self.n_kept and self.source != "target"):
            raise ValueError(
                f"expected kept tokens of the draft's only where the target took over, got "
                f"{self.n_kept} and source {self.source}"
            )
        if self.source == "edited" and not self.forced:
            raise ValueError("an edited step is forced by definition; got forced=False")


@dataclass(frozen=True, slots=True)
class Step:
    """One reasoning step: what was proposed, what the rule said, what was kept.

    `written` is the step another hand put in place of the draft's: the target's in a fallback,
    a person's in an edit. `output` is what the run went on from.
    """

    index: int
    candidates: tuple[Candidate, ...]
    selection: Selection | None
    verdict: Verdict | None
    outcome: Outcome
    written: Candidate | None
    cost: Cost
    attempt: int = 0

    def __post_init__(self) -> None:
        if (self.written is None) != (self.outcome.source == "draft"):
            raise ValueError(
                f"expected a written step exactly where the draft's was not kept, got source "
                f"{self.outcome.source} with{'out' if self.written is None else ''} one"
            )
        if self.written is None and not self.candidates:
            raise ValueError("expected a candidate where the draft's step was kept, got none")
        if self.selection is not None and not 0 <= self.selection.chosen < len(self.candidates):
            raise ValueError(f"expected a chosen candidate, got index {self.selection.chosen}")
        kept = self.outcome.source == "draft"
        if not (self.verdict is None or self.outcome.forced or self.verdict.accepted == kept):
            raise ValueError("expected an unforced outcome to follow the verdict")
        if (n_kept := self.outcome.n_kept) and self.written is not None:
            begun = () if self.chosen is None else self.chosen.token_ids[:n_kept]
            ours = self.written.token_ids
            if ours[:n_kept] != begun or len(ours) <= n_kept or len(begun) < n_kept:
                raise ValueError("expected the target to go on from the draft's kept tokens")

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that was judged; None where nothing was proposed."""
        if not self.candidates:
            return None
        return self.candidates[0 if self.selection is None else self.selection.chosen]

    @property
    def output(self) -> Candidate:
        """The step that was kept."""
        kept = self.chosen if self.written is None else self.written
        if kept is None:
            raise ValueError("a step keeps some candidate")
        return kept

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens kept."""
        return self.output.token_ids

    @property
    def ended_by_eos(self) -> bool:
        return self.output.stop == "eos"


@dataclass(frozen=True, slots=True)
class PromptSegment:
    """A stretch of the prompt: template, system prompt, or one sentence of the question."""

    kind: SegmentKind
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """Why a run ended, and the answer found in its text (None: none was found)."""

    reason: FinishReason
    answer: str | None


@dataclass(frozen=True, slots=True)
class Chain:
    """One of several runs on one problem; finish is None where it can go on."""

    units: tuple[Step, ...] = ()
    finish: Finish | None = None


@dataclass(frozen=True)
class Trace:
    """One decode, complete: it replays with no tokenizer and no model.

    pieces          bytes of every token id in the trace, alternatives included
    template_text   the chat template itself; None: there is none, or it was not recorded
    failure         the sentence of what went wrong, where status is "failed"
    chains          where several vote: all of them; the units are then those of the chosen one,
                    none before the vote
    chain           which of several this is, while it runs; None: the trace of a whole run
    """

    problem: str
    problem_id: str
    gold: str | None
    prompt_segments: tuple[PromptSegment, ...]
    prompt_template: str
    pieces: Mapping[int, bytes]
    tokenizer_hash: str
    draft: ModelInfo | None
    target: ModelInfo | None
    config: DecodeConfig
    calibration: Calibration | None
    reward: ModelInfo | None = None
    template_text: str | None = None
    units: tuple[Step | Block, ...] = ()
    chains: tuple[Chain, ...] = ()
    vote: Vote | None = None
    chain: int | None = None
    status: Status = "running"
    failure: str | None = None
    finish: Finish | None = None
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        if (self.status == "failed") != (self.failure is not None):
            raise ValueError(f"expected a failure exactly where a run failed, got {self.status}")
        if (self.status == "finished") != (self.finish is not None):
            raise ValueError(f"expected a finish exactly where a run ended, got {self.status}")
        for position, unit in enumerate(self.units):
            if unit.index != position:
                raise ValueError(f"expected unit {position} at its place, got index {unit.index}")

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The units of a step strategy; none under a block strategy."""
        return tuple(unit for unit in self.units if isinstance(unit, Step))

    @cached_property
    def all_steps(self) -> tuple[Step, ...]:
        """The steps of every chain; without chains, the steps."""
        if not self.chains:
            return self.steps
        return tuple(step for chain in self.chains for step in chain.units)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The units of a block strategy; none under a step strategy."""
        return tuple(unit for unit in self.units if isinstance(unit, Block))

    @cached_property
    def prompt_ids(self) -> tuple[int, ...]:
        """All token ids of the prompt."""
        return tuple(t for segment in self.prompt_segments for t in segment.token_ids)

    @cached_property
    def context_ids(self) -> tuple[int, ...]:
        """Token ids of the prompt and of all that was kept."""
        return self.prompt_ids + tuple(t for unit in self.units for t in unit.token_ids)

    @cached_property
    def text(self) -> str:
        """The text that was kept, delimiters included, the end-of-sequence token left out."""
        ids = self.context_ids[len(self.prompt_ids) :]
        if self.units and self.units[-1].ended_by_eos:
            ids = ids[:-1]
        return join_pieces(ids, self.pieces)

    @cached_property
    def begins_in_thoughts(self) -> bool:
        """Whether the template's words after the question open a thinking model's thoughts."""
        last = self.prompt_segments[-1:]
        ids = last[0].token_ids if last and last[0].kind == "template" else ()
        return ends_in_thoughts(join_pieces(ids, self.pieces))

    @property
    def said(self) -> str:
        """The text after a thinking model's thoughts, in which its answer is looked for."""
        return said_aloud(self.text, in_thoughts=self.begins_in_thoughts)

    @property
    def cost(self) -> Cost:
        """Summed over the units, of every chain where there are several."""
        total = Cost()
        for unit in self.all_steps if self.chains else self.units:
            total += unit.cost
        return total

    def context_segment_lengths(self, step_index: int) -> tuple[int, ...]:
        """Tokens in each context segment of a step: the prompt's segments, then earlier steps."""
        prompt = tuple(len(segment.token_ids) for segment in self.prompt_segments)
        return prompt + tuple(len(unit.token_ids) for unit in self.units[:step_index])

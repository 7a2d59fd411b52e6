"""The seam between the decoder and any language model. Knows no torch and no transformers.

A model is asked in lists of requests so that it may batch them; it answers with numpy arrays. Its
KV caches are its own affair: a request names the whole prefix, and the model reuses what it can.

m          tokens of one step
n          tokens of its prefix (the context)
rows       head-mean attention of the step's positions in the last layers, at absolute positions
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from specguard_core.block_requests import DraftedBlock, DraftRequest, JudgedBlock, JudgeRequest
from specguard_core.errors import PairError
from specguard_core.types import ModelInfo, PromptSegment

Floats = NDArray[np.float32]
TokenIds = tuple[int, ...]
OnToken = Callable[[int], None]
ShouldStop = Callable[[], bool]
DrawStop = Literal["delimiter", "eos", "limit"]


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """Write `len(seeds)` steps after one prefix.

    seeds             one per draw: a draw depends on its own seed and the prefix, on nothing else
    temperature       0 is greedy (the seeds are then not used)
    top_p             in [0, 1]; the least set of tokens with at least this mass, never empty
    top_k             0 is all
    max_tokens        a draw that reaches it ends with stop "limit"
    n_begun           tokens at the end of the prefix that are the step's own: a draw goes on from
                      them, and they count in where the step ends
    n_capture_layers  last layers whose attention rows are wanted; 0 is none
    feed_boundary     whether the token that ends a step is fed once more for the sake of its row;
                      a token that a limit made the last, or that is the step's only one, always is
    """

    prefix: TokenIds
    seeds: tuple[int, ...]
    temperature: float
    top_p: float
    top_k: int
    delimiter: str
    max_tokens: int
    n_alternatives: int
    n_capture_layers: int
    feed_boundary: bool
    want_hidden: bool
    n_begun: int = 0

    @property
    def begun(self) -> TokenIds:
        """The tokens of the step that are there already."""
        return self.prefix[len(self.prefix) - self.n_begun :]


@dataclass(frozen=True, slots=True)
class Draw:
    """One step as the model wrote it; the delimiter's token and EOS are among its tokens.

    logprobs, sampling_logprobs, entropies   [m] nats; None where a model gives its text alone
    alternatives                             per token, (token id, raw log-prob), likeliest first
    attention   [layers, m, n + m] or None; layers <= n_capture_layers, the lowest kept one first.
                The row of a boundary token (delimiter or EOS) that was not fed is zero: that
                position was never a query (see `SampleRequest.feed_boundary`).
    hidden      [d] mean of the last hidden states over the step's queried positions, or None
    """

    token_ids: TokenIds
    logprobs: Floats | None
    sampling_logprobs: Floats | None
    entropies: Floats | None
    alternatives: tuple[tuple[tuple[int, float], ...], ...]
    attention: Floats | None
    hidden: Floats | None
    stop: DrawStop


@dataclass(frozen=True, slots=True)
class DrawBatch:
    """The answer to one SampleRequest: draws in the order of the seeds.

    passes, positions   forward passes of the model and positions processed in them, pads excluded
    milliseconds        wall time, this request's share of the batch
    """

    draws: tuple[Draw, ...]
    passes: int
    positions: int
    milliseconds: float


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Read, in one block pass, a step that stands after a prefix."""

    prefix: TokenIds
    token_ids: TokenIds
    n_capture_layers: int


@dataclass(frozen=True, slots=True)
class StepReading:
    """What a model makes of a step it did not write.

    logprobs    [m] nats, raw softmax
    attention   [layers, m, n + m] or None, as in Draw but with every row measured
    """

    logprobs: Floats
    attention: Floats | None
    passes: int
    positions: int
    milliseconds: float


@dataclass(frozen=True, slots=True)
class ChoiceRequest:
    """How likely is each of the `choices` (token ids) after a prefix and a question?"""

    prefix: TokenIds
    question: TokenIds
    choices: TokenIds


@dataclass(frozen=True, slots=True)
class ChoiceReading:
    """How likely each choice is, or which one was given.

    logprobs      [n choices] nats, raw softmax
    answer_only   the model told its answer alone: it is given 0 nats, the others far less
    """

    logprobs: Floats
    passes: int
    positions: int
    milliseconds: float
    answer_only: bool = False


class StepModel(Protocol):
    """A language model that writes and reads whole steps.

    `on_token(n)` is called with the tokens written so far in the longest draw; `should_stop()` is
    polled before each token, and a true answer raises Cancelled with the caches left whole.
    """

    @property
    def info(self) -> ModelInfo: ...

    def sample_steps(
        self,
        requests: Sequence[SampleRequest],
        *,
        on_token: OnToken | None = None,
        should_stop: ShouldStop | None = None,
    ) -> list[DrawBatch]: ...

    def read_steps(
        self, requests: Sequence[ReadRequest], *, should_stop: ShouldStop | None = None
    ) -> list[StepReading]: ...


@runtime_checkable
class ChoiceModel(StepModel, Protocol):
    """A language model that can be asked a question with few answers; nothing of it is kept."""

    def read_choices(
        self, requests: Sequence[ChoiceRequest], *, should_stop: ShouldStop | None = None
    ) -> list[ChoiceReading]: ...


@runtime_checkable
class BlockModel(StepModel, Protocol):
    """A language model that drafts blocks of tokens, and judges those of another.

    Both sides of a pair are of one kind, so that what a draft hands over its target can read.
    `on_token(n)` is called with the tokens of the longest block so far; `should_stop()` is polled
    before each forward pass, and a true answer raises Cancelled.
    """

    def draft_blocks(
        self,
        requests: Sequence[DraftRequest],
        *,
        on_token: OnToken | None = None,
        should_stop: ShouldStop | None = None,
    ) -> list[DraftedBlock]: ...

    def judge_blocks(
        self, requests: Sequence[JudgeRequest], *, should_stop: ShouldStop | None = None
    ) -> list[JudgedBlock]: ...


@runtime_checkable
class Remembering(Protocol):
    """A model that keeps what it has read, for the next request."""

    def forget(self) -> None:
        """Drop all of it: what comes next costs what it costs a model just loaded."""
        ...


@dataclass(frozen=True, slots=True)
class RewardRequest:
    """A problem and the steps so far, as text: a reward model may have another tokenizer."""

    problem: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RewardReading:
    """A reward in [0, 1] for each step; higher is better. n_tokens: what the model read."""

    rewards: tuple[float, ...]
    n_tokens: int
    milliseconds: float


class RewardModel(Protocol):
    """A model that says of each step of a solution how right it is.

    Raises ModelError where it cannot, a reward that is no number included.
    """

    @property
    def info(self) -> ModelInfo: ...

    def score_steps(self, requests: Sequence[RewardRequest]) -> list[RewardReading]: ...


class Vocabulary(Protocol):
    """What the pair's shared tokenizer knows."""

    @property
    def tokenizer_hash(self) -> str: ...

    @property
    def eos_token_ids(self) -> frozenset[int]: ...

    @property
    def prompt_template(self) -> str:
        """The name of the template prompts are made with: "chat template", "plain" or a file's."""
        ...

    @property
    def template_text(self) -> str | None:
        """The template itself; None where prompts are plain."""
        ...

    def prompt(
        self, problem: str, system_prompt: str, thinking: bool | None = None
    ) -> tuple[PromptSegment, ...]:
        """The whole prompt, one BOS where the tokenizer has one, the question by sentence.

        thinking   the template's own switch, as it is where None

        Raises:
            UsageError: a switch that the template does not have.
        """
        ...

    def piece(self, token_id: int) -> bytes:
        """The bytes a token stands for."""
        ...

    def encode(self, text: str) -> TokenIds:
        """Tokens of a text that a person or a server wrote; no special tokens are added."""
        ...


@dataclass(frozen=True, slots=True)
class Models:
    """A pair ready to decode. Either may be missing where the strategy does not call it.

    clock   seconds, for the durations in a trace's costs
    """

    vocabulary: Vocabulary
    draft: StepModel | None = None
    target: StepModel | None = None
    reward: RewardModel | None = None
    clock: Callable[[], float] = time.perf_counter

    def forget(self) -> None:
        """Have both models drop what they have read, so that a run's cost is its own."""
        pair: list[object] = [self.draft, self.target]
        for model in pair:
            if isinstance(model, Remembering):
                model.forget()

    def need_draft(self) -> StepModel:
        if self.draft is None:
            raise PairError("this strategy drafts, and no draft model is loaded: name one")
        return self.draft

    def need_target(self) -> StepModel:
        if self.target is None:
            raise PairError("this strategy falls back to a target, and none is loaded: name one")
        return self.target

    def need_reward(self) -> RewardModel:
        if self.reward is None:
            raise PairError(
                "this strategy judges steps by a reward model, and none is loaded: name one"
            )
        return self.reward

    def need_grader(self) -> ChoiceModel:
        """The target, to be asked for grades."""
        target = self.need_target()
        if not isinstance(target, ChoiceModel):
            raise PairError(
                f"expected a target that can be asked for a grade, {target.info.name} cannot: "
                "set grade_method=logprob or load another model"
            )
        return target

    def need_blocks(self) -> tuple[BlockModel, BlockModel]:
        """Draft and target of a block strategy.

        Raises:
            PairError: one is missing, or writes steps only.
        """
        draft, target = self.need_draft(), self.need_target()
        for model in (draft, target):
            if not isinstance(model, BlockModel):
                raise PairError(
                    f"expected a model that drafts and judges blocks of tokens, {model.info.name} "
                    "writes whole steps only: choose a step strategy or load another model"
                )
        assert isinstance(draft, BlockModel) and isinstance(target, BlockModel)
        return draft, target

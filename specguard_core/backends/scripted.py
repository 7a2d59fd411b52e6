"""A language model that recites a script: for testing decoders. Knows no torch.

script     what the model writes after a text: the text of the kept steps so far -> steps
invented   drawn from a hash of the prefix and the seed, where the script says nothing
share      attention a row puts on the context, spread evenly; the rest stays on its own position

A draw recites the script's steps in the order of the seeds ("order"), or picks one by its seed
("seed"), so that a redraw differs.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from specguard_core.errors import Cancelled, ModelError
from specguard_core.lm import (
    ChoiceReading,
    ChoiceRequest,
    Draw,
    DrawBatch,
    DrawStop,
    Floats,
    OnToken,
    ReadRequest,
    SampleRequest,
    ShouldStop,
    StepReading,
    TokenIds,
)
from specguard_core.text import StepWatch
from specguard_core.types import ModelInfo, PromptSegment

BOS, EOS, ASSISTANT = 256, 257, 258
_FIRST_WORD = 259
_SPECIAL = {BOS: b"<s>", EOS: b"</s>", ASSISTANT: b"<|assistant|>"}
_INVENTED_WORDS = ("so ", "then ", "1", "2", "3 ", "+ ", "= ", "apples", ".\n\n", "\n", "😀")
_HIDDEN_SIZE = 8


@dataclass(frozen=True, slots=True)
class ScriptedVocabulary:
    """Every byte is a token, and so is every word listed; longer words are matched first."""

    words: tuple[str, ...] = _INVENTED_WORDS
    eos_token_ids: frozenset[int] = frozenset({EOS})
    prompt_template: str = "plain"
    template_text: str | None = None

    @property
    def tokenizer_hash(self) -> str:
        return hashlib.sha256("\0".join(self.words).encode()).hexdigest()

    def __len__(self) -> int:
        return _FIRST_WORD + len(self.words)

    def prompt(
        self, problem: str, system_prompt: str, thinking: bool | None = None
    ) -> tuple[PromptSegment, ...]:
        """BOS, the system prompt, the question by sentence, and the assistant's mark."""
        sentences = re.findall(r"[^.?!]*[.?!]+\s*|[^.?!]+$", problem)
        segments = [PromptSegment("template", (BOS,))]
        if system_prompt:
            segments.append(PromptSegment("system", self.encode(system_prompt)))
        segments += [PromptSegment("question", self.encode(sentence)) for sentence in sentences]
        return (*segments, PromptSegment("template", (ASSISTANT,)))

    def piece(self, token_id: int) -> bytes:
        if token_id < BOS:
            return bytes([token_id])
        if token_id in _SPECIAL:
            return _SPECIAL[token_id]
        return self.words[token_id - _FIRST_WORD].encode()

    def encode(self, text: str) -> TokenIds:
        longest_first = sorted(range(len(self.words)), key=lambda i: -len(self.words[i]))
        ids: list[int] = []
        while text:
            word = next((i for i in longest_first if text.startswith(self.words[i])), None)
            if word is None:
                ids += text[0].encode()
                text = text[1:]
            else:
                ids.append(_FIRST_WORD + word)
                text = text[len(self.words[word]) :]
        return tuple(ids)


@dataclass(frozen=True, slots=True)
class ScriptedStep:
    """One step of a script. A text that does not complete the delimiter is closed by EOS.

    logprobs        nats, one for all tokens or one each
    context_share   in [0, 1], the share of every row's attention on the context
    """

    text: str
    logprobs: float | tuple[float, ...] = -0.1
    context_share: float = 0.8


Script = Mapping[str, Sequence[ScriptedStep]]


def scripted_info(name: str = "scripted", *, context_length: int = 4096) -> ModelInfo:
    """A model's description with nothing behind it."""
    return ModelInfo(
        name=name,
        source="script",
        revision=None,
        architecture="Scripted",
        n_parameters=0,
        n_layers=4,
        vocabulary_size=len(ScriptedVocabulary()),
        context_length=context_length,
        dtype="float32",
        device="cpu",
        grounding="captured",
        rollback="crop",
    )


@dataclass(slots=True)
class ScriptedModel:
    """A StepModel that recites `script` and invents where it is silent (or fails, if `strict`).

    grades   the choice it is sure of when it is asked about a text
    """

    script: Script = field(default_factory=dict)
    vocabulary: ScriptedVocabulary = field(default_factory=ScriptedVocabulary)
    info: ModelInfo = field(default_factory=scripted_info)
    choose: Literal["order", "seed"] = "order"
    strict: bool = False
    grades: Mapping[str, int] = field(default_factory=dict)
    n_calls: int = 0

    def sample_steps(
        self,
        requests: Sequence[SampleRequest],
        *,
        on_token: OnToken | None = None,
        should_stop: ShouldStop | None = None,
    ) -> list[DrawBatch]:
        self.n_calls += 1
        batches = []
        for request in requests:
            draws = tuple(self._draw(request, slot) for slot in range(len(request.seeds)))
            longest = max(len(draw.token_ids) for draw in draws)
            for n_written in range(1, longest + 1):
                if should_stop is not None and should_stop():
                    raise Cancelled
                if on_token is not None:
                    on_token(n_written)
            batches.append(DrawBatch(draws, longest, longest * len(draws), 0.0))
        return batches

    def read_steps(
        self, requests: Sequence[ReadRequest], *, should_stop: ShouldStop | None = None
    ) -> list[StepReading]:
        self.n_calls += 1
        readings = []
        for request in requests:
            if should_stop is not None and should_stop():
                raise Cancelled
            logprobs, share = self._known(request.prefix, request.token_ids)
            layers = min(request.n_capture_layers, self.info.n_layers)
            rows = _rows(layers, len(request.prefix), len(request.token_ids), share)
            readings.append(StepReading(logprobs, rows, 1, len(request.token_ids), 0.0))
        return readings

    def read_choices(
        self, requests: Sequence[ChoiceRequest], *, should_stop: ShouldStop | None = None
    ) -> list[ChoiceReading]:
        """One choice is nearly certain: the one `grades` names for the text so far, or any."""
        self.n_calls += 1
        readings = []
        for request in requests:
            if should_stop is not None and should_stop():
                raise Cancelled
            n_choices = len(request.choices)
            sure = self.grades.get(self._said(request.prefix))
            if sure is None:
                generator = _generator(self.info.name.encode(), request.prefix)
                sure = int(generator.integers(n_choices))
            logprobs = np.full(n_choices, np.log(0.01), np.float32)
            logprobs[sure] = np.log(1 - 0.01 * (n_choices - 1))
            positions = len(request.prefix) + len(request.question)
            readings.append(ChoiceReading(logprobs, 1, positions, 0.0))
        return readings

    def _draw(self, request: SampleRequest, slot: int) -> Draw:
        seed = request.seeds[slot] if request.temperature > 0 else 0
        step = self._step(request.prefix, slot, seed, greedy=request.temperature == 0)
        room = min(request.max_tokens, self.info.context_length - len(request.prefix))
        if room < 1:
            raise ModelError("expected a prefix shorter than the context, got a full one")
        ids, stop = self._until_stop(self.vocabulary.encode(step.text), request, room)
        m, n = len(ids), len(request.prefix)
        logprobs = _logprobs(step, m)
        layers = min(request.n_capture_layers, self.info.n_layers)
        attention = _rows(layers, n, m, step.context_share)
        queried = stop == "limit" or m == 1 or request.feed_boundary
        if attention is not None and not queried:
            attention[:, -1] = 0
        others = tuple(t for t in range(request.n_alternatives) if t < len(self.vocabulary))
        return Draw(
            token_ids=ids,
            logprobs=logprobs,
            sampling_logprobs=logprobs * np.float32(0.5),
            entropies=-logprobs,
            alternatives=tuple(
                tuple((t, -1.0 - rank) for rank, t in enumerate(others)) for _ in range(m)
            ),
            attention=attention,
            hidden=_generator(b"hidden", ids).random(_HIDDEN_SIZE, np.float32)
            if request.want_hidden
            else None,
            stop=stop,
        )

    def _step(self, prefix: TokenIds, slot: int, seed: int, *, greedy: bool) -> ScriptedStep:
        said = self._said(prefix)
        steps = self.script.get(said)
        if steps:
            if greedy:
                return steps[0]
            return steps[(slot if self.choose == "order" else seed) % len(steps)]
        if self.strict:
            raise ModelError(f"expected a scripted step after {said!r}, got none: add it")
        return self._invented(prefix, seed)

    def _invented(self, prefix: TokenIds, seed: int) -> ScriptedStep:
        generator = _generator(str((self.info.name, seed)).encode(), prefix)
        words = generator.choice(self.vocabulary.words, size=int(generator.integers(2, 9)))
        # One step in five ends the run, so that invented runs end.
        end = "" if generator.random() < 0.2 else ".\n\n"
        text = "x" + "".join(words).replace("\n", "") + end
        m = len(self.vocabulary.encode(text)) + 1
        logprobs = tuple(float(-value) for value in generator.random(m) * 3)
        return ScriptedStep(text, logprobs, float(generator.uniform(0.1, 1)))

    def _said(self, prefix: TokenIds) -> str:
        after = len(prefix) - prefix[::-1].index(ASSISTANT) if ASSISTANT in prefix else 0
        return b"".join(map(self.vocabulary.piece, prefix[after:])).decode("utf-8", "replace")

    def _until_stop(
        self, ids: TokenIds, request: SampleRequest, max_tokens: int
    ) -> tuple[TokenIds, DrawStop]:
        watch = StepWatch(request.delimiter.encode(), map(self.vocabulary.piece, request.begun))
        for position, token_id in enumerate((*ids, EOS)):
            kept = (*ids, EOS)[: position + 1]
            if token_id in self.vocabulary.eos_token_ids:
                return kept, "eos"
            if watch.feed(self.vocabulary.piece(token_id)):
                return kept, "delimiter"
            if len(kept) == max_tokens:
                return kept, "limit"
        raise AssertionError("EOS ends every step")

    def _known(self, prefix: TokenIds, token_ids: TokenIds) -> tuple[Floats, float]:
        for step in self.script.get(self._said(prefix), ()):
            ids = self.vocabulary.encode(step.text)
            if token_ids in (ids, (*ids, EOS)):
                return _logprobs(step, len(token_ids)), step.context_share
        generator = _generator(self.info.name.encode(), prefix + token_ids)
        logprobs = -3 * generator.random(len(token_ids), np.float32)
        return logprobs, float(generator.uniform(0.1, 1))


def _logprobs(step: ScriptedStep, m: int) -> Floats:
    values = step.logprobs if isinstance(step.logprobs, tuple) else (step.logprobs,) * m
    return np.asarray((*values, *(-0.1,) * m)[:m], np.float32)


def _rows(layers: int, n: int, m: int, share: float) -> Floats | None:
    """[layers, m, n + m]: `share` spread over the context, the rest on the row's own position."""
    if layers == 0:
        return None
    rows = np.zeros((layers, m, n + m), np.float32)
    rows[:, :, :n] = share / max(n, 1)
    rows[:, np.arange(m), n + np.arange(m)] = 1 - share if n else 1
    return rows


def _generator(salt: bytes, token_ids: TokenIds) -> np.random.Generator:
    digest = hashlib.blake2b(salt + repr(token_ids).encode(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))

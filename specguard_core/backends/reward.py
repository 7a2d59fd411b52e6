"""Reward models: how right each step of a solution is, as a number in [0, 1]. Knows no pair.

They read text, since their tokenizer may be another than the pair's. Code that came with a
checkpoint is never run: what a format's own code would do is done here.

value-head   Skywork-o1-Open-PRM: a language model's body and `v_head`, sigmoid at each step's end
two-class    Qwen2.5-Math-PRM: a two-class head, softmax of class 1 at the mark `<extra_0>`
token        any AutoModelForTokenClassification, at the last token of a step
sequence     any AutoModelForSequenceClassification, of the text up to the end of a step
border       where a step ends, in tokens: steps are tokenised one by one, so that no token lies
             across, and offsets say whether the tokenizer lost any of their text
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from specguard_core.backends import placement, sources
from specguard_core.backends.sources import Source
from specguard_core.backends.trouble import quiet, told_in_one_sentence
from specguard_core.errors import ModelError
from specguard_core.lm import RewardReading, RewardRequest
from specguard_core.types import ModelInfo

Format = Literal["value-head", "two-class", "token", "sequence"]

STEP_MARK = "<extra_0>"
_NOUN = "a reward model"
SYSTEM_PROMPT = "Please reason step by step, and put your final answer within \\boxed{}."


class _Body(PreTrainedModel):
    """A language model's body under the name `model`, as its checkpoints call it."""

    base_model_prefix = "model"
    _supports_sdpa = True
    _keys_to_ignore_on_load_unexpected = [r"lm_head\."]  # noqa: RUF012  # transformers' own name

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.model = AutoModel.from_config(config)

    def hidden(self, ids: Tensor) -> Tensor:
        """[1, n, width] last hidden states."""
        states: Tensor = self.model(input_ids=ids, use_cache=False).last_hidden_state
        return states


def _finish(model: Any) -> None:
    model.post_init()  # transformers ships no types for it


class ValueHeadModel(_Body):
    """Skywork-o1-Open-PRM, whose head is trl's."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.v_head = nn.ModuleDict({"summary": nn.Linear(config.hidden_size, 1)})
        _finish(self)

    def forward(self, ids: Tensor) -> Tensor:
        """[1, n, 1] logits."""
        logits: Tensor = self.v_head["summary"](self.hidden(ids))
        return logits


class TwoClassModel(_Body):
    """Qwen2.5-Math-PRM."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        width = config.hidden_size
        self.score = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))
        _finish(self)

    def forward(self, ids: Tensor) -> Tensor:
        """[1, n, 2] logits."""
        logits: Tensor = self.score(self.hidden(ids))
        return logits


_CLASSES: dict[Format, Any] = {
    "value-head": ValueHeadModel,
    "two-class": TwoClassModel,
    "token": AutoModelForTokenClassification,
    "sequence": AutoModelForSequenceClassification,
}


@dataclass(frozen=True, slots=True)
class Layout:
    """What a model reads: token ids, and for each step the index of its last token."""

    ids: tuple[int, ...]
    ends: tuple[int, ...]


class HfRewardModel:
    """A RewardModel over a loaded transformers model."""

    def __init__(self, model: Any, info: ModelInfo, tokenizer: Any, kind: Format) -> None:
        self.info = info
        self.format = kind
        self._model = model
        self._tokenizer = tokenizer
        self._lock = threading.Lock()

    def score_steps(self, requests: Sequence[RewardRequest]) -> list[RewardReading]:
        with self._lock, torch.inference_mode():
            return [self._score(request) for request in requests]

    def _score(self, request: RewardRequest) -> RewardReading:
        start = time.perf_counter()
        layout = laid_out(self._tokenizer, self.format, request.problem, request.steps)
        if len(layout.ids) > self.info.context_length:
            raise ModelError(
                f"expected a solution of at most {self.info.context_length} tokens for "
                f"{self.info.name}, got {len(layout.ids)}: name a reward model with a longer "
                "context, or lower max_new_tokens"
            )
        n_read = len(layout.ids)
        if self.format == "sequence":
            # A pooled head speaks of a whole text: each step is the end of a text of its own.
            rows = [self._logits(layout.ids[: end + 1])[0] for end in layout.ends]
            logits = torch.stack(rows)
            n_read = sum(end + 1 for end in layout.ends)
        else:
            logits = self._logits(layout.ids)[0][list(layout.ends)]
        rewards = _rewards(logits.float(), self.info.name)
        return RewardReading(rewards, n_read, (time.perf_counter() - start) * 1000)

    def _logits(self, ids: tuple[int, ...]) -> Tensor:
        tensor = torch.tensor([ids], device=self.info.device)
        if self.format in ("value-head", "two-class"):
            logits: Tensor = self._model(tensor)
        else:
            logits = self._model(input_ids=tensor).logits
        return logits


def laid_out(tokenizer: Any, kind: Format, problem: str, steps: Sequence[str]) -> Layout:
    """Token ids of a problem and its steps, in the words of the format."""
    if kind == "two-class":
        return _marked(tokenizer, problem, steps)
    if kind == "value-head":
        ids = list(tokenizer.encode(f"{tokenizer.bos_token or ''}{problem}\n"))
        step_end = [tokenizer.encode("\n", add_special_tokens=False)[-1]]
        steps = [step.strip() for step in steps]
    else:
        ids = _prompt(tokenizer, problem)
        step_end = []
    ends = []
    for step in steps:
        ids += [*_step_ids(tokenizer, step), *step_end]
        ends.append(len(ids) - 1)
    return Layout(tuple(ids), tuple(ends))


def _marked(tokenizer: Any, problem: str, steps: Sequence[str]) -> Layout:
    mark = tokenizer.convert_tokens_to_ids(STEP_MARK)
    said = [step.strip().replace(STEP_MARK, "") for step in steps]
    messages = [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": problem.replace(STEP_MARK, "")},
        {"role": "assistant", "content": STEP_MARK.join(said) + STEP_MARK},
    ]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=False)
    ids = tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
    ends = tuple(index for index, token_id in enumerate(ids) if token_id == mark)
    if len(ends) != len(steps):
        raise ModelError(
            f"expected the mark {STEP_MARK} after each of {len(steps)} steps, the tokenizer and "
            f"its chat template give {len(ends)}: name the reward model's own tokenizer"
        )
    return Layout(ids, ends)


def _prompt(tokenizer: Any, problem: str) -> list[int]:
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": problem}], tokenize=False, add_generation_prompt=True
        )
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])
    ids: list[int] = list(tokenizer(f"{problem}\n\n")["input_ids"])
    closing = {tokenizer.eos_token_id, tokenizer.sep_token_id}
    while ids and ids[-1] in closing:
        ids.pop()
    return ids


def _step_ids(tokenizer: Any, step: str) -> list[int]:
    encoded = tokenizer(step, add_special_tokens=False, return_offsets_mapping=True)
    stop = max((stop for _, stop in encoded["offset_mapping"]), default=0)
    if not encoded["input_ids"] or step[stop:].strip():
        raise ModelError(
            f"expected the reward model's tokenizer to hold the whole step {step[:40]!r}, it "
            f"leaves {step[stop:][:40]!r} out: name another reward model"
        )
    return list(encoded["input_ids"])


def _rewards(logits: Tensor, name: str) -> tuple[float, ...]:
    """[steps, 1 or 2] logits -> rewards in [0, 1]."""
    values = logits.sigmoid()[:, 0] if logits.shape[1] == 1 else logits.softmax(dim=1)[:, 1]
    if not bool(torch.isfinite(values).all()):
        raise ModelError(
            f"expected rewards in [0, 1] from {name}, got one that is no number: load it with "
            "--dtype float32, or name another reward model"
        )
    return tuple(values.tolist())


def load_reward(source: str | Path, *, dtype: str = "auto", device: str = "auto") -> HfRewardModel:
    """A reward model from a folder or the hub.

    Raises:
        ModelError: no model there, or one that is no reward model; the sentence says what lacks.
    """
    found = sources.pinned(sources.find(source))
    with told_in_one_sentence(found.location, "configuration", _NOUN):
        config = AutoConfig.from_pretrained(
            found.location, trust_remote_code=False, **found.options
        )
    kind = recognised(config)
    if kind in ("token", "sequence") and config.num_labels not in (1, 2):
        raise ModelError(
            f"expected a reward model with one label or two, {found.name} has {config.num_labels}: "
            "name another"
        )
    tokenizer = sources.read_tokenizer(found)
    place = placement.choose_device(device)
    reading = told_in_one_sentence(found.location, "configuration", _NOUN)
    with reading, torch.device("meta"), quiet():
        n_parameters = sum(p.numel() for p in AutoModel.from_config(config).parameters())
    precision = placement.choose_dtype(dtype, place, config, n_parameters)
    model = _load(found, config, kind, precision).to(place)
    info = ModelInfo(
        name=found.name,
        source=found.named,
        revision=found.revision,
        architecture=(config.architectures or [type(model).__name__])[0],
        n_parameters=sum(p.numel() for p in model.parameters()),
        n_layers=int(config.get_text_config().num_hidden_layers),
        vocabulary_size=int(config.get_text_config().vocab_size),
        context_length=sources.context_length(config),
        dtype=str(precision).removeprefix("torch."),
        device=place,
        grounding="a reward model: its attention is not read",
        rollback="re-prefill",
    )
    return HfRewardModel(model, info, tokenizer, kind)


def recognised(config: Any) -> Format:
    """The format, by what the configuration calls its class; a head must then be there."""
    names = config.architectures or []
    if any(name.endswith("ForProcessRewardModel") for name in names):
        return "two-class"
    if any(name.endswith("ForTokenClassification") for name in names):
        return "token"
    if any(name.endswith("ForSequenceClassification") for name in names):
        return "sequence"
    return "value-head"


def _load(source: Source, config: Any, kind: Format, dtype: torch.dtype) -> Any:
    options: dict[str, Any] = dict(source.options, config=config, dtype=dtype)
    if kind in ("token", "sequence"):
        options["trust_remote_code"] = False
    if kind == "value-head":
        options["key_mapping"] = {r"^pretrained_model\.": ""}
    with told_in_one_sentence(source.location, "weights", _NOUN), quiet():
        model, loading = _CLASSES[kind].from_pretrained(
            source.location, output_loading_info=True, **options
        )
    missing = sorted(loading["missing_keys"])
    heads = [name for name in missing if not name.startswith(f"{model.base_model_prefix}.")]
    if heads:
        noun = "value head" if kind == "value-head" else "reward head"
        raise ModelError(
            f"expected a reward model at {source.location}, it has no {noun} ({heads[0]} is "
            "missing): name a model that was trained to give rewards"
        )
    if missing:
        raise ModelError(
            f"expected all weights of a reward model at {source.location}, {len(missing)} are "
            f"missing, {missing[0]} first: fetch the folder again"
        )
    model.eval()
    model.requires_grad_(False)
    return model

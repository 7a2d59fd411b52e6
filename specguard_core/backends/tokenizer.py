"""A transformers tokenizer as the decoder needs it: prompts in segments, and tokens as bytes.
Knows no weights.

piece      the bytes a token stands for; the pieces of a text, joined, are the text
byte-level every character of a token's name stands for one byte (GPT-2, Llama 3, Qwen)
metaspace  "▁" is a space and "<0xE2>" a byte (SentencePiece: Llama 2, Mistral, Gemma)
segment    a stretch of the prompt; cut on the borders of tokens of the whole prompt, which is
           tokenised once
plain      the prompt of a model without a chat template: PLAIN_PROMPT
switch     `enable_thinking`, which templates of thinking models read
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment
from jinja2.exceptions import TemplateError, TemplateSyntaxError

from specguard_core.errors import ModelError, ProblemError, UsageError
from specguard_core.lm import TokenIds
from specguard_core.types import PromptSegment, SegmentKind

PLAIN_PROMPT = "{system}Problem:\n{problem}\n\nSolution:\n"
_SWITCH = "enable_thinking"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_SENTENCE = re.compile(r"\S(?:.*?[.?!](?=\s|$)|.*$)", re.DOTALL)


class HfVocabulary:
    """The Vocabulary of a pair, from the tokenizer both share."""

    def __init__(
        self,
        tokenizer: Any,
        eos_token_ids: Iterable[int],
        *,
        template_name: str | None = None,
        n_ids: int | None = None,
    ) -> None:
        """
        template_name   of the file that the tokenizer's template came from, if it did
        n_ids           ids that every model of the pair has; tokens beyond are not used (the mark
                        of a picture, which only the larger Gemma 3 have)
        """
        self.tokenizer = tokenizer
        self._template_name = template_name
        self._n_ids = n_ids
        self.eos_token_ids = frozenset(eos_token_ids)
        self._pieces: dict[int, bytes] = {}

    @cached_property
    def tokens(self) -> dict[int, str]:
        """The name of every token id that can be used, added tokens included."""
        names = token_names(self.tokenizer)
        return {i: name for i, name in names.items() if self._n_ids is None or i < self._n_ids}

    @cached_property
    def tokenizer_hash(self) -> str:
        """SHA-256 of everything that decides what tokens mean and how prompts are made."""
        content = {
            "tokens": sorted(token_names(self.tokenizer).items()),
            "added": sorted(self._added.items()),
            "template": self.tokenizer.chat_template,
        }
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @property
    def prompt_template(self) -> str:
        if self._template_name is not None:
            return self._template_name
        return "chat template" if self.tokenizer.chat_template else "plain"

    @property
    def template_text(self) -> str | None:
        return str(self.tokenizer.get_chat_template()) if self.tokenizer.chat_template else None

    def piece(self, token_id: int) -> bytes:
        known = self._pieces.get(token_id)
        if known is None:
            known = self._pieces[token_id] = self._read_piece(token_id)
        return known

    def encode(self, text: str) -> TokenIds:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def prompt(
        self, problem: str, system_prompt: str, thinking: bool | None = None
    ) -> tuple[PromptSegment, ...]:
        """The prompt of one problem, in segments whose tokens together are the whole prompt."""
        if thinking is not None and _SWITCH not in (self.template_text or ""):
            raise UsageError(
                f"expected a chat template with the switch {_SWITCH}, this one has none: set "
                f"{_SWITCH}=template, or load a thinking model"
            )
        text = self._prompt_text(problem, system_prompt, thinking)
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids: list[int] = list(encoded["input_ids"])
        if self._n_ids is not None and max(ids) >= self._n_ids:
            name = self.tokenizer.convert_ids_to_tokens(max(ids))
            raise ProblemError(
                f"expected a problem without the token {name!r}, which one of the models does not "
                "have: leave it out"
            )
        starts = [start for start, _ in encoded["offset_mapping"]]
        stretches = _stretches(text, problem, system_prompt)
        kinds = [_stretch_of(start, stretches) for start in starts]
        self._give_one_bos(ids, kinds)
        segments: list[PromptSegment] = []
        first = 0
        for position in range(1, len(ids) + 1):
            if position == len(ids) or kinds[position] != kinds[first]:
                segments.append(PromptSegment(kinds[first][1], tuple(ids[first:position])))
                first = position
        return tuple(segments)

    def _prompt_text(self, problem: str, system_prompt: str, thinking: bool | None) -> str:
        if not self.tokenizer.chat_template:
            system = f"{system_prompt}\n\n" if system_prompt else ""
            return PLAIN_PROMPT.format(system=system, problem=problem)
        question = problem
        if system_prompt:
            talk = [("system", system_prompt), ("user", problem)]
            # Where the template refuses a system role the instruction stands before the question.
            with suppress(TemplateError):
                return self._templated(talk, thinking)
            question = f"{system_prompt}\n\n{problem}"
        try:
            return self._templated([("user", question)], thinking)
        except TemplateError as error:
            raise ModelError(
                f"expected a chat template that takes one question, it fails ({error}): give "
                "another with --chat-template"
            ) from error

    def _templated(self, talk: Sequence[tuple[str, str]], thinking: bool | None) -> str:
        messages = [{"role": role, "content": content} for role, content in talk]
        switch = {} if thinking is None else {_SWITCH: thinking}
        text = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **switch
        )
        if not isinstance(text, str):
            raise ModelError(f"expected the chat template to give text, got {type(text).__name__}")
        return text

    def _give_one_bos(self, ids: list[int], kinds: "list[tuple[int, SegmentKind]]") -> None:
        """One BOS at the front where the template wrote one or the tokenizer adds one."""
        bos = self.tokenizer.bos_token_id
        if bos is None:
            return
        while ids[:2] == [bos, bos]:
            del ids[0], kinds[0]
        plain = not self.tokenizer.chat_template
        if ids[:1] != [bos] and (plain or self.added_bos == bos):
            ids.insert(0, bos)
            kinds.insert(0, (-1, "template"))

    @cached_property
    def added_bos(self) -> int | None:
        """The BOS id where the tokenizer puts one before any text by itself."""
        bos = self.tokenizer.bos_token_id
        adds = bos is not None and self.tokenizer("a")["input_ids"][:1] == [bos]
        return int(bos) if adds else None

    @cached_property
    def _added(self) -> dict[int, str]:
        return {i: token.content for i, token in self.tokenizer.added_tokens_decoder.items()}

    @cached_property
    def _style(self) -> str:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        decoder = json.dumps(json.loads(backend.to_str())["decoder"]) if backend else ""
        if '"ByteLevel"' in decoder:
            return "byte-level"
        if "▁" in decoder or '"ByteFallback"' in decoder or '"Metaspace"' in decoder:
            return "metaspace"
        return "decoded"

    def _read_piece(self, token_id: int) -> bytes:
        if token_id in self._added:
            return self._added[token_id].encode()
        name = self.tokens.get(token_id)
        if name is None:
            return b""
        if self._style == "byte-level" and all(c in _BYTE_OF for c in name):
            return bytes(_BYTE_OF[c] for c in name)
        if self._style == "metaspace":
            byte = _BYTE_TOKEN.fullmatch(name)
            if byte:
                return bytes([int(byte[1], 16)])
            return name.replace("▁", " ").encode()
        return str(self.tokenizer.decode([token_id])).encode()


def read_template(path: str | Path) -> str:
    """The chat template in a file.

    Raises:
        UsageError: no such file, or one that is no Jinja template.
    """
    try:
        text = Path(path).read_text("utf-8")
        Environment().parse(text)  # noqa: S701  # only looked at; transformers renders it, sandboxed
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"expected a file with a chat template, {path} cannot be read ({error}): name another"
        ) from None
    except TemplateSyntaxError as error:
        raise UsageError(
            f"expected a Jinja chat template in {path}, line {error.lineno} is none "
            f"({error.message}): correct it"
        ) from None
    return text


def token_names(tokenizer: Any) -> dict[int, str]:
    """Token id to name, for every id the tokenizer knows."""
    return {token_id: name for name, token_id in tokenizer.get_vocab().items()}


def first_difference(draft: Any, target: Any) -> str | None:
    """What first tells two tokenizers apart, in words, or None: ids mean the same to both."""
    drafts, targets = token_names(draft), token_names(target)
    for token_id in sorted(drafts.keys() | targets.keys()):
        ours, theirs = drafts.get(token_id), targets.get(token_id)
        if ours != theirs:
            return (
                f"token {token_id} is {_named(ours)} in the draft, {_named(theirs)} in the target"
            )
    special, others = _special(draft), _special(target)
    for token_id in sorted(special | others):
        if (token_id in special) != (token_id in others):
            owner = "draft" if token_id in special else "target"
            return f"token {token_id} ({_named(drafts[token_id])}) is special in the {owner} only"
    sample = "Tom's 3 cats ate 12.5% of  it.\n\nSo 😀 \\boxed{7}."
    ours, theirs = draft.tokenize(sample), target.tokenize(sample)
    if ours != theirs:
        at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), 0)
        return f"the same text is split otherwise, first at {_named(ours[at])}"
    return None


def _named(token: str | None) -> str:
    return "absent" if token is None else repr(token)


def _special(tokenizer: Any) -> set[int]:
    return {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}


def _stretches(text: str, problem: str, system_prompt: str) -> list[tuple[int, int, SegmentKind]]:
    """(start, stop, kind) of what the person wrote, in characters of the prompt's text; the
    question by sentence, the space between two sentences with the second."""
    problem = problem.strip()
    at = text.rfind(problem)
    if not problem or at < 0:
        raise ProblemError(
            "expected the prompt template to hold the problem, it does not: "
            "write the problem without the template's own marks"
        )
    stretches: list[tuple[int, int, SegmentKind]] = []
    system_prompt = system_prompt.strip()
    system_at = text.find(system_prompt, 0, at) if system_prompt else -1
    if system_at >= 0:
        stretches.append((system_at, system_at + len(system_prompt), "system"))
    start = at
    for sentence in _SENTENCE.finditer(problem):
        stretches.append((start, at + sentence.end(), "question"))
        start = at + sentence.end()
    return stretches


def _stretch_of(
    start: int, stretches: Sequence[tuple[int, int, SegmentKind]]
) -> tuple[int, SegmentKind]:
    """Number and kind of the stretch a token begins in; tokens outside all are the template's."""
    passed = 0
    for number, (first, stop, kind) in enumerate(stretches):
        if first <= start < stop:
            return number, kind
        passed = number if start >= stop else passed
    return -1 - passed, "template"


def _bytes_by_character() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the others follow from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    return table | {chr(0x100 + rank): byte for rank, byte in enumerate(others)}


_BYTE_OF = _bytes_by_character()

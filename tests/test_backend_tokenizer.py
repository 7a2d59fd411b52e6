"""Prompts in segments, and tokens as bytes: joined pieces are the text, whatever the tokenizer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from specguard_core.backends.tokenizer import HfVocabulary
from specguard_core.errors import ProblemError
from tests.tiny_models import tiny_tokenizer

QUESTION = "Tom has 3 cats.  He buys 12.5 kg!\nHow much 😀 is left?"


@pytest.fixture(scope="module")
def vocabulary() -> HfVocabulary:
    return HfVocabulary(tiny_tokenizer(), {1})


def metaspace_tokenizer() -> PreTrainedTokenizerFast:
    """As SentencePiece models come: "▁" for a space, bytes for what has no token."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += ["▁", *"abcdefghijklmnopqrstuvwxyz.", "▁the", "th", "the"]
    merges = [("t", "h"), ("th", "e"), ("▁", "the")]
    tokenizer = Tokenizer(
        models.BPE(
            {token: i for i, token in enumerate(tokens)},
            merges,
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


METASPACE = HfVocabulary(metaspace_tokenizer(), {2})
BYTE_LEVEL = HfVocabulary(tiny_tokenizer(), {1})


def joined(vocabulary: HfVocabulary, token_ids: tuple[int, ...]) -> str:
    return b"".join(map(vocabulary.piece, token_ids)).decode()


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_pieces_of_a_byte_level_text_join_to_the_text(text):
    assert joined(BYTE_LEVEL, BYTE_LEVEL.encode(text)) == text


@pytest.mark.parametrize("text", ["the cat.", "a  b", "€ 5 😀", "naïve the", "مرحبا", "e\u0301"])
def test_pieces_of_a_sentencepiece_text_join_to_the_text(text):
    assert joined(METASPACE, METASPACE.encode(text)) == text


def test_special_tokens_stand_for_their_own_text(vocabulary):
    assert vocabulary.piece(3) == b"<|user|>"
    assert vocabulary.piece(10**6) == b""


def test_a_prompt_has_the_templates_parts_and_one_segment_for_each_sentence(vocabulary):
    segments = vocabulary.prompt(QUESTION, "Think first.")
    texts = [(s.kind, joined(vocabulary, s.token_ids)) for s in segments]
    assert texts == [
        ("template", "<s><|user|>"),
        ("system", "Think first."),
        ("template", "<|user|>"),
        ("question", "Tom has 3 cats."),
        ("question", "  He buys 12.5 kg!"),
        ("question", "\nHow much 😀 is left?"),
        ("template", "<|assistant|>"),
    ]


@pytest.mark.case(10)
@pytest.mark.parametrize("adds_bos", [False, True])
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("system", ["", "Be brief."])
def test_segments_together_are_the_prompt_with_exactly_one_bos(chat, adds_bos, system):
    vocabulary = HfVocabulary(tiny_tokenizer(chat=chat, adds_bos=adds_bos), {1})
    ids = tuple(t for s in vocabulary.prompt(QUESTION, system) for t in s.token_ids)
    assert ids.count(0) == 1
    assert ids[0] == 0
    text = joined(vocabulary, ids)
    assert QUESTION in text
    assert vocabulary.encode(text) == ids


@pytest.mark.case(11)
def test_a_model_without_a_chat_template_gets_the_plain_prompt():
    vocabulary = HfVocabulary(tiny_tokenizer(chat=False), {1})
    segments = vocabulary.prompt("How many?", "Be brief.")
    text = "".join(joined(vocabulary, s.token_ids) for s in segments)
    assert text == "<s>Be brief.\n\nProblem:\nHow many?\n\nSolution:\n"
    assert vocabulary.prompt_template == "plain"
    assert HfVocabulary(tiny_tokenizer(), {1}).prompt_template == "chat template"


def test_a_template_that_refuses_a_system_role_gets_the_instruction_before_the_question():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'system' %}"
        "{{ raise_exception('no system') }}{% endif %}{{ '<|user|>' + m['content'] }}{% endfor %}"
    )
    vocabulary = HfVocabulary(tokenizer, {1})
    segments = vocabulary.prompt("How many?", "Be brief.")
    kinds = [(s.kind, joined(vocabulary, s.token_ids)) for s in segments]
    assert ("system", "Be brief.\n\n") in kinds
    assert ("question", "How many?") in kinds


def test_a_template_that_drops_the_problem_is_an_error():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{{ bos_token }}nothing"
    with pytest.raises(ProblemError, match="template to hold the problem"):
        HfVocabulary(tokenizer, {1}).prompt("How many?", "")


def test_the_hash_knows_tokens_and_template_and_nothing_else():
    same = HfVocabulary(tiny_tokenizer(), {1, 2}).tokenizer_hash
    assert HfVocabulary(tiny_tokenizer(), {1}).tokenizer_hash == same
    assert HfVocabulary(tiny_tokenizer(extra=("zz",)), {1}).tokenizer_hash != same
    assert HfVocabulary(tiny_tokenizer(chat=False), {1}).tokenizer_hash != same

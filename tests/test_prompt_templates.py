"""Prompts by template: a file's, a thinking model's switch, and thoughts that are no answer."""

from dataclasses import replace
from pathlib import Path

import pytest

from specguard_core import DecodeConfig, start
from specguard_core.backends.hf import load_models
from specguard_core.backends.scripted import ASSISTANT, ScriptedVocabulary
from specguard_core.backends.tokenizer import HfVocabulary, read_template
from specguard_core.errors import ModelError, UsageError
from specguard_core.lm import Models
from specguard_core.text import ends_in_thoughts, said_aloud
from specguard_core.trace_io import load_trace, save_trace
from specguard_core.types import PromptSegment
from tests.builders import configured, pair, recited, run, scripted
from tests.tiny_models import tiny_folder, tiny_tokenizer

THINKING = (
    "{% for m in messages %}{{ '<|user|>' + m['content'] }}{% endfor %}{{ '<|assistant|>' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}"
    "{{ '<think>\n\n</think>\n\n' }}{% endif %}"
)
"""As Qwen3's: without the switch the model decides for itself, with it off thoughts are empty."""


def thinking_vocabulary() -> HfVocabulary:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = THINKING
    return HfVocabulary(tokenizer, {1})


def prompt_text(vocabulary: HfVocabulary, thinking: bool | None) -> str:
    segments = vocabulary.prompt("How many?", "Be brief.", thinking)
    return b"".join(vocabulary.piece(t) for s in segments for t in s.token_ids).decode()


def test_the_switch_of_a_thinking_model_reaches_its_template():
    vocabulary = thinking_vocabulary()
    assert prompt_text(vocabulary, None).endswith("How many?<|assistant|>")
    assert prompt_text(vocabulary, True) == prompt_text(vocabulary, None)
    assert prompt_text(vocabulary, False).endswith("<|assistant|><think>\n\n</think>\n\n")


@pytest.mark.parametrize("chat", [True, False])
def test_a_switch_that_a_template_does_not_have_is_refused(chat):
    with pytest.raises(UsageError, match="a chat template with the switch enable_thinking"):
        HfVocabulary(tiny_tokenizer(chat=chat), {1}).prompt("How many?", "", False)


def test_the_knob_is_the_switch_and_prompt_and_template_are_in_the_trace(tmp_path):
    models = load_models(tiny_folder(tmp_path / "m"), None, chat_template=written(tmp_path))
    texts = {}
    for name in ("template", "on", "off"):
        config = DecodeConfig(strategy="draft_only", enable_thinking=name)
        trace = start("How many?", models, config).trace
        texts[name] = b"".join(trace.pieces[t] for t in trace.prompt_ids).decode()
        assert (trace.prompt_template, trace.template_text) == ("think.jinja", THINKING)
        save_trace(trace, tmp_path / "t.json")
        assert load_trace(tmp_path / "t.json") == trace
    assert texts["template"] == texts["on"] != texts["off"]


def written(folder: Path, text: str = THINKING) -> Path:
    path = folder / "think.jinja"
    path.write_text(text, "utf-8")
    return path


def test_a_template_of_a_file_stands_in_for_the_tokenizers_own(tmp_path):
    folder = tiny_folder(tmp_path / "m", chat=False)
    plain = load_models(folder, None).vocabulary
    assert (plain.prompt_template, plain.template_text) == ("plain", None)
    own = load_models(folder, None, chat_template=written(tmp_path)).vocabulary
    assert own.tokenizer_hash != plain.tokenizer_hash
    assert own.prompt("How many?", "")[-1].kind == "template"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"{% if %}", "line 1 is none"),
    ],
)
def test_a_file_that_is_no_template_is_told_in_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "bad.jinja"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=sentence) as caught:
        read_template(path)
    assert "\n" not in str(caught.value)


def test_a_template_that_fails_whatever_it_is_given_is_told_in_one_sentence():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{{ raise_exception('never') }}"
    with pytest.raises(ModelError, match=r"takes one question, it fails \(never\)"):
        HfVocabulary(tokenizer, {1}).prompt("How many?", "Be brief.")


@pytest.mark.parametrize(
    ("text", "in_thoughts", "said"),
    [
        ("so it is 5", False, "so it is 5"),
        ("<think>\nis it 5?", False, ""),
        ("\n<think>5?</think>\n\n7", False, "\n\n7"),
        ("is it 5?", True, ""),
        ("5?</think>7", True, "7"),
        ("a tag like <think> in the middle", False, "a tag like <think> in the middle"),
    ],
)
def test_what_is_said_aloud_comes_after_the_thoughts(text, in_thoughts, said):
    assert said_aloud(text, in_thoughts=in_thoughts) == said


def test_a_prompt_may_open_the_thoughts_or_close_them():
    assert ends_in_thoughts("<|assistant|><think>\n")
    assert not ends_in_thoughts("<|assistant|><think>\n\n</think>\n\n")
    assert not ends_in_thoughts("<|assistant|>")


class OpenedVocabulary(ScriptedVocabulary):
    """A template that opens the thoughts itself."""

    __slots__ = ()

    def prompt(self, problem, system_prompt, thinking=None) -> tuple[PromptSegment, ...]:
        before = ScriptedVocabulary.prompt(self, problem, system_prompt)[:-1]
        # The script begins after the assistant's mark.
        return (*before, PromptSegment("template", (*self.encode("<think>\n"), ASSISTANT)))


@pytest.mark.parametrize("opened", [False, True], ids=["by the model", "by the prompt"])
@pytest.mark.parametrize("strategy", ["draft_only", "target_only"])
def test_thoughts_are_steps_and_a_box_in_them_ends_nothing(strategy, opened):
    first = ("" if opened else "<think>\n") + "is it \\boxed{5}?\n\n"
    script = recited(first, "no, 7 it is.\n\n", "</think>\n\n", "So \\boxed{7}.\n\n", "more.\n\n")
    models = pair(scripted(script, "draft"), scripted(script, "target"))
    if opened:
        models = Models(OpenedVocabulary(), models.draft, models.target)
    trace = run(models, configured(strategy=strategy))
    assert len(trace.steps) == 4
    assert trace.finish is not None
    assert (trace.finish.reason, trace.finish.answer) == ("answer", "7")


def test_a_run_cut_in_its_thoughts_has_no_answer():
    script = recited("<think>\nis it \\boxed{5}?\n\n", "or 6?\n\n")
    trace = run(pair(scripted(script)), configured(strategy="draft_only", max_steps=2))
    assert trace.finish is not None
    assert (trace.finish.reason, trace.finish.answer) == ("max_steps", None)
    aloud = replace(trace, finish=None, status="running")
    assert aloud.said == ""

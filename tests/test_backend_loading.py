"""Loading: folders that are models, folders that are not, and pairs that fit or do not."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AddedToken

from specguard_core import DecodeConfig, start
from specguard_core.backends import hf, placement
from specguard_core.backends.parts import Asked, Description, describe, prepared
from specguard_core.backends.tokenizer import first_difference
from specguard_core.errors import CacheError, ModelError, PairError, ProblemError, UsageError
from specguard_core.lm import Models
from tests.builders import trace_from
from tests.tiny_models import (
    N_IDS,
    sample_request,
    some_ids,
    tiny_config,
    tiny_folder,
    tiny_gguf,
    tiny_tokenizer,
    tiny_transformer,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "llama")


def described(source: Path) -> Description:
    return describe(prepared(Asked("draft", source, "auto"), "auto"))


def test_a_pair_loads_from_folders_and_writes(folder):
    stages: list[str] = []
    models = hf.load_models(folder, folder, on_stage=stages.append)
    assert stages == ["loading draft llama", "loading target llama"]
    info = models.need_draft().info
    assert (info.name, info.architecture) == ("llama", "LlamaForCausalLM")
    assert (info.dtype, info.grounding, info.rollback) == ("float32", "captured", "crop")
    assert (info.n_layers, info.context_length, info.vocabulary_size) == (3, 256, N_IDS)
    prompt = models.vocabulary.prompt("How many?", "")
    prefix = tuple(t for segment in prompt for t in segment.token_ids)
    drawn = models.need_target().sample_steps([sample_request(prefix)])[0].draws[0]
    assert drawn.attention is not None


def test_either_model_may_be_left_out_but_not_both(folder):
    models = hf.load_models(None, folder)
    assert models.draft is None
    with pytest.raises(PairError, match="no draft model is loaded"):
        models.need_draft()
    with pytest.raises(UsageError, match="a draft or a target"):
        hf.load_models(None, None)


def test_a_description_needs_no_weights_and_agrees_with_a_load(folder, tmp_path):
    bare = tmp_path / "llama"
    shutil.copytree(folder, bare)
    (bare / "model.safetensors").unlink()
    found = described(bare)
    loaded = hf.load_models(folder, None).need_draft().info
    assert found.info.n_parameters == loaded.n_parameters
    assert found.info.context_length == loaded.context_length
    assert found.weight_bytes == 4 * loaded.n_parameters
    assert found.cache_bytes == 2 * 3 * 2 * 8 * 4
    assert found.prompt_template == "chat template"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda p: p / "nowhere" / "at" / "all", "does not exist"),
        (lambda p: _written(p / "notes.txt", "hello"), r"a model folder or a \.gguf file"),
        (lambda p: _folder(p / "empty"), "has neither"),
        (lambda p: _written(_folder(p / "m") / "config.json", "{").parent, "cannot be read"),
        (lambda p: _saved("T5Config", p / "t5"), "decoder-only"),
        (lambda p: _written(p / "bad.gguf", "GGUF?"), "cannot be read"),
    ],
)
def test_what_is_no_model_gets_one_sentence(tmp_path, make, sentence):
    with pytest.raises(ModelError, match=sentence) as caught:
        hf.load_models(make(tmp_path), None)
    assert "\n" not in str(caught.value)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _saved(kind: str, path: Path) -> Path:
    import transformers

    getattr(transformers, kind)().save_pretrained(path)
    return path


def test_a_folder_without_weights_or_tokenizer_gets_one_sentence(folder, tmp_path):
    bare = tmp_path / "llama"
    shutil.copytree(folder, bare)
    (bare / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="weights cannot be read"):
        hf.load_models(bare, None)
    (bare / "tokenizer.json").unlink()
    (bare / "tokenizer_config.json").unlink()
    with pytest.raises(ModelError, match="tokenizer"):
        hf.load_models(bare, None)


def test_code_that_comes_with_a_checkpoint_is_never_run(folder, tmp_path):
    strange = tmp_path / "strange"
    shutil.copytree(folder, strange)
    (strange / "evil.py").write_text("raise SystemExit('ran')")
    config = json.loads((strange / "config.json").read_text())
    config["model_type"] = "strange"
    config["auto_map"] = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    (strange / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError):
        hf.load_models(strange, None)


@pytest.mark.case(16)
def test_tokenizers_are_compared_before_weights_are_read(folder, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    (other / "model.safetensors").unlink()
    tiny_tokenizer(extra=("zz",)).save_pretrained(other)
    with pytest.raises(PairError, match="token 269 is 'unused0' in the draft, 'zz' in the target"):
        hf.load_models(folder, other)


def test_a_token_special_to_one_model_only_is_a_difference():
    one, other = tiny_tokenizer(), tiny_tokenizer()
    other.add_special_tokens({"additional_special_tokens": ["an"]})
    difference = first_difference(one, other)
    assert difference == "token 268 ('an') is special in the target only"


@pytest.mark.case(9)
def test_a_vocabulary_padded_in_one_model_is_no_difference(folder, tmp_path):
    padded = tmp_path / "padded"
    model = tiny_transformer("llama")
    model.resize_token_embeddings(N_IDS + 20)
    model.save_pretrained(padded)
    tiny_tokenizer().save_pretrained(padded)
    models = hf.load_models(folder, padded)
    target = models.need_target()
    assert target.info.vocabulary_size == N_IDS + 20
    request = sample_request(some_ids(5), temperature=5.0, seeds=tuple(range(8)), max_tokens=20)
    for draw in target.sample_steps([request])[0].draws:
        assert max(draw.token_ids) < N_IDS


@pytest.mark.case(9)
@pytest.mark.parametrize("strategy", ["target_only", "speculative"])
def test_tokens_that_one_model_does_not_have_are_never_written(tmp_path, strategy):
    """As the mark of a picture, which Gemma 3 4B has and 1B has not."""
    for name, n_ids in (("draft", N_IDS - 20), ("target", N_IDS)):
        model = tiny_transformer("llama")
        model.resize_token_embeddings(n_ids)
        model.save_pretrained(tmp_path / name)
        tiny_tokenizer().save_pretrained(tmp_path / name)
    models = hf.load_models(tmp_path / "draft", tmp_path / "target")
    config = DecodeConfig(
        strategy=strategy, target_temperature=5.0, max_new_tokens=60, delimiter="~~~"
    )
    trace = trace_from(start("How many?", models, config), models)
    assert max(trace.context_ids) < N_IDS - 20
    with pytest.raises(ProblemError, match="without the token 'unused30'"):
        start("How many unused30?", models_with_a_word(models, "unused30"), config)


def models_with_a_word(models: Models, word: str) -> Models:
    """The same models, whose tokenizer takes the word for a token of its own."""
    models.vocabulary.tokenizer.add_tokens([AddedToken(word)])  # type: ignore[attr-defined]
    return models


@pytest.mark.case(12)
def test_end_of_sequence_ids_come_from_every_place_that_names_them(tmp_path):
    path = tiny_folder(tmp_path / "llama")
    for name, value in (("config.json", 7), ("generation_config.json", [8, 9])):
        content = json.loads((path / name).read_text())
        content["eos_token_id"] = value
        (path / name).write_text(json.dumps(content))
    assert hf.load_models(path, None).vocabulary.eos_token_ids == {1, 7, 8, 9}


@pytest.mark.case(8)
def test_a_recurrent_model_is_refused_by_its_description_too(tmp_path):
    tiny_config("mamba").save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(CacheError, match="could not be taken back"):
        described(tmp_path)


def test_a_model_outside_the_attention_interface_says_so_in_its_description(tmp_path):
    path = tiny_folder(tmp_path / "falcon", "falcon")
    assert described(path).info.grounding.endswith("confidence only")


def test_a_gguf_file_is_the_model_it_was_made_from(folder, tmp_path):
    path = tiny_gguf(tmp_path / "tiny.gguf")
    for named in (path, tmp_path):
        loaded = hf.load_models(named, None)
        request = sample_request(some_ids(12))
        drawn = loaded.need_draft().sample_steps([request])[0].draws[0]
        original = hf.load_models(folder, None).need_draft().sample_steps([request])[0].draws[0]
        assert drawn.token_ids == original.token_ids
        assert loaded.need_draft().info.source == str(path)
        assert [loaded.vocabulary.piece(t) for t in loaded.vocabulary.encode("the.\n\n")] == [
            b"t",
            b"he",
            b".\n\n",
        ]


def test_a_hub_id_that_cannot_be_reached_gets_one_sentence():
    with pytest.raises(ModelError, match="hub") as caught:
        hf.load_models("no-such-owner/no-such-model", None)
    assert "\n" not in str(caught.value)


def test_a_model_may_be_spread_by_a_device_map(folder):
    model = hf.load_models(folder, None, device_map={"": "cpu"}).need_draft()
    assert model.info.device == "cpu"
    assert model.sample_steps([sample_request(some_ids(5))])[0].draws[0].attention is not None


def test_precision_is_chosen_or_asked_for_by_name(folder):
    info = hf.load_models(folder, None, dtype="bfloat16").need_draft().info
    assert info.dtype == "bfloat16"
    with pytest.raises(UsageError, match="a dtype out of auto, float32"):
        hf.load_models(folder, None, dtype="int3")


def test_on_a_processor_that_computes_in_bf16_only_larger_models_use_it(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    config = tiny_config("llama")
    assert placement.choose_dtype("auto", "cpu", config, 10**6) == torch.float32
    assert placement.choose_dtype("auto", "cpu", config, 10**9) == torch.bfloat16
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert placement.choose_dtype("auto", "cpu", config, 10**9) == torch.float32

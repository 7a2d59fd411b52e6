"""Models that are not there, not whole, or write what no one can use: one sentence each."""

import errno
import json
from pathlib import Path

import gguf
import httpx
import pytest
import torch
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors.torch import load_file, save_file
from transformers.utils import hub

from specguard_core import DecodeConfig, start
from specguard_core.backends.hf import load_models
from specguard_core.backends.scripted import ScriptedStep
from specguard_core.errors import ModelError, ProblemError
from specguard_core.lm import Models
from specguard_core.remarks import remark_on
from specguard_core.trace_io import load_trace, save_trace
from specguard_core.types import Trace
from tests.builders import pair, run, scripted, trace_from
from tests.tiny_models import tiny_config, tiny_folder, tiny_tokenizer, tiny_transformer

ANSWER = httpx.Response(403, request=httpx.Request("GET", "https://huggingface.co/owner/name"))


def sentence_of_loading(source: str | Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_models(source, None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (GatedRepoError("Access is restricted", response=ANSWER), "it is gated: accept its terms"),
        (RevisionNotFoundError("404", response=ANSWER), "a branch, tag or commit of owner/name"),
        (RepositoryNotFoundError("401", response=ANSWER), "not there or is private"),
        (LocalEntryNotFoundError("not in the cache"), "a hub that answers, got neither"),
        (OfflineModeIsEnabled("offline"), "a hub that answers, got neither"),
        (httpx.ConnectTimeout("timed out"), "a hub that answers, got neither"),
        (OSError(errno.ENOSPC, "No space left on device"), "room on the disk for owner/name"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_hub_or_the_disk_refuses_is_told_with_its_remedy(monkeypatch, error, words):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(hub, "hf_hub_download", refuse)
    assert words in sentence_of_loading("owner/name@v2")


def test_the_revision_after_the_at_sign_is_the_one_asked_for(monkeypatch):
    asked = []

    def refuse(*_, revision, **__):
        asked.append(revision)
        raise RevisionNotFoundError("404", response=ANSWER)

    monkeypatch.setattr(hub, "hf_hub_download", refuse)
    sentence_of_loading("owner/name@v2")
    sentence_of_loading("owner/name")
    assert (asked[0], asked[-1]) == ("v2", None)


def sharded(folder: Path) -> list[Path]:
    """The tiny model in several files, and these."""
    tiny_transformer("llama").save_pretrained(folder, max_shard_size="60KB")
    tiny_tokenizer().save_pretrained(folder)
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    return shards


def test_a_shard_that_is_half_there_is_named(tmp_path):
    shard = sharded(tmp_path)[-1]
    shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
    assert f"{shard.name} is damaged or only half there" in sentence_of_loading(tmp_path)


def test_a_shard_that_is_missing_is_named(tmp_path):
    shard = sharded(tmp_path)[-1]
    shard.unlink()
    assert shard.name in sentence_of_loading(tmp_path)


@pytest.mark.parametrize("harm", ["missing", "shape"])
def test_weights_that_the_library_would_fill_with_random_numbers_are_refused(tmp_path, harm):
    file = tiny_folder(tmp_path) / "model.safetensors"
    tensors = load_file(file)
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name] = tensors[name][:5].contiguous()
    if harm == "missing":
        del tensors[name]
    save_file(tensors, file, {"format": "pt"})
    assert f"1 are missing or of another shape, {name} first" in sentence_of_loading(tmp_path)


def test_a_gguf_file_of_a_kind_nobody_reads_is_told_by_its_kind(tmp_path):
    writer = gguf.GGUFWriter(str(tmp_path / "new.gguf"), "brandnew")
    writer.add_block_count(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert "is of kind brandnew" in sentence_of_loading(tmp_path / "new.gguf")


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_are_refused_at_load(tmp_path, value):
    model = tiny_transformer("llama")
    model.model.layers[1].mlp.up_proj.weight[0, 0] = value
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert "finite numbers, it gives NaN or infinity" in sentence_of_loading(tmp_path)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """A pair with a context of 32 tokens."""
    folder = tiny_folder(tmp_path_factory.mktemp("models") / "narrow")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 32}))
    return load_models(folder, folder)


@pytest.mark.parametrize("strategy", ["specguard", "target_only", "speculative"])
def test_a_context_of_32_tokens_is_filled_and_never_passed(narrow, tmp_path, strategy):
    config = DecodeConfig(strategy=strategy, system_prompt="", delimiter="~~~", n_candidates=2)
    trace = trace_from(start("How many?", narrow, config), narrow)
    assert trace.finish is not None
    assert trace.finish.reason in ("context_limit", "eos", "repeated_steps")
    assert len(trace.context_ids) <= 32
    assert saved_and_read(trace, tmp_path) == trace


@pytest.mark.case(19)
def test_a_prompt_that_fills_a_context_of_32_tokens_is_told_before_anything_is_written(narrow):
    with pytest.raises(ProblemError, match=r"room in a context of 32 tokens, got one of \d+"):
        start("How many apples has Tom got in his four large baskets?", narrow, DecodeConfig())


def saved_and_read(trace: Trace, folder: Path) -> Trace:
    save_trace(trace, folder / "t.json")
    return load_trace(folder / "t.json")


def test_a_model_that_never_writes_the_delimiter_ends_by_its_limits_and_the_run_says_so(tmp_path):
    tiny_folder(tmp_path / "m")
    models = load_models(tmp_path / "m", tmp_path / "m")
    config = DecodeConfig(
        strategy="target_only", delimiter="~~~~", max_step_tokens=8, max_new_tokens=24
    )
    models = endless(models)
    trace = trace_from(start("How many?", models, config), models)
    assert [len(step.token_ids) for step in trace.steps] == [8, 8, 8]
    assert "no step ended with the delimiter '~~~~'" in str(remark_on(trace))
    assert saved_and_read(trace, tmp_path) == trace


def endless(models: Models) -> Models:
    """The same models, for whom no token ends a text."""
    models.vocabulary.eos_token_ids = frozenset()  # type: ignore[misc]  # HfVocabulary's own
    return models


def test_a_model_that_writes_only_line_ends_is_stopped_and_the_run_says_so(tmp_path):
    endless_lines = {"\n" * (4 * n): [ScriptedStep("\n" * 50)] for n in range(10)}
    models = pair(scripted(endless_lines, "draft"), scripted(endless_lines, "target"))
    trace = run(models, DecodeConfig(max_step_tokens=4, max_new_tokens=400, normalisation="fixed"))
    assert trace.finish is not None
    assert (trace.finish.reason, trace.finish.answer) == ("repeated_steps", None)
    assert "nothing but empty lines was written" in str(remark_on(trace))
    assert saved_and_read(trace, tmp_path) == trace


def test_an_ordinary_run_is_not_remarked_on():
    trace = run(pair(), DecodeConfig(max_steps=2, normalisation="fixed"))
    assert remark_on(trace) is None


def test_a_config_alone_is_no_model(tmp_path):
    tiny_config("llama").save_pretrained(tmp_path)
    assert "tokenizer cannot be read" in sentence_of_loading(tmp_path)

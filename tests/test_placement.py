"""Devices, precisions and memory: had as asked, or refused before any weights are read."""

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from huggingface_hub import constants
from transformers import AutoModelForCausalLM, Lfm2Config, Qwen3_5MoeTextConfig, Qwen3_5TextConfig
from transformers.integrations.gguf.gguf_conversion_mapping import GGUF_ARCHS

from specguard_core import DecodeConfig, start
from specguard_core.backends import parts, placement
from specguard_core.backends.hf import load_models
from specguard_core.backends.parts import Asked, describe, memory_needed, prepared
from specguard_core.backends.placement import Counts, Place, choose_place
from specguard_core.backends.sources import no_rollback
from specguard_core.errors import ModelError, UsageError
from tests.builders import trace_from
from tests.tiny_models import (
    read_request,
    sample_request,
    some_ids,
    tiny_config,
    tiny_folder,
    tiny_gguf,
    tiny_tokenizer,
)

CONFIG = tiny_config("llama")
REQUEST = sample_request(some_ids(12), seeds=(1, 2, 3), temperature=1.0)


PACKS_HERE = pytest.mark.skipif(
    find_spec("bitsandbytes") is None or not placement.computes_in_bf16(),
    reason="needs the bitsandbytes package and a processor with bf16 arithmetic",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "llama")


def choose(device: str, bits: int | None = None) -> Place:
    return choose_place(device, "auto", bits, CONFIG, 1000)


def test_a_device_that_is_unknown_or_not_there_is_told_with_what_there_is(monkeypatch):
    with pytest.raises(UsageError, match="a device out of auto, cpu, cuda, cuda:1, mps, spread"):
        choose("gpu")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(UsageError, match="has none that this torch can use"):
        choose("cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UsageError, match="cuda:2, this machine has 2, counted from 0"):
        choose("cuda:2")
    assert choose("cuda:1").device == "cuda:1"
    assert choose("cuda:0") == choose("cuda")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UsageError, match="mps, this machine has none"):
        choose("mps")


def test_packed_weights_need_a_device_that_takes_them_and_their_library(monkeypatch, folder):
    with pytest.raises(UsageError, match="a CUDA GPU for 8-bit weights, or 4 bits on a CPU"):
        load_models(folder, None, device="cpu", draft_bits=8)
    with monkeypatch.context() as without:
        without.setattr(placement, "computes_in_bf16", lambda: False)
        with pytest.raises(UsageError, match="4 bits on a CPU with bf16 arithmetic, got cpu"):
            choose("cpu", 4)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(placement, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="the bitsandbytes package for 8-bit weights, got none"):
        choose("cuda", 8)
    monkeypatch.setattr(placement, "find_spec", lambda name: object())
    with pytest.raises(UsageError, match="8 or 4 bits, got 3"):
        choose("cuda", 3)
    asked = choose("cuda", 4).load_options()
    assert asked["quantization_config"].load_in_4bit
    assert asked["device_map"] == {"": "cuda"}


@PACKS_HERE
def test_weights_of_4_bits_write_and_read_on_a_cpu(tmp_path):
    wide = tiny_config("llama", hidden_size=128, intermediate_size=192, head_dim=32)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(wide).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    models = load_models(tmp_path, None, device="cpu", dtype="float32", draft_bits=4)
    model, whole = models.need_draft(), load_models(tmp_path, None, device="cpu").need_draft()
    assert (model.info.dtype, model.info.grounding) == ("4-bit, float32", "captured")
    draw = model.sample_steps([REQUEST])[0].draws[0]
    assert model.sample_steps([REQUEST])[0].draws[0].token_ids == draw.token_ids
    again, other = (
        one.read_steps([read_request(REQUEST.prefix, draw.token_ids)])[0].logprobs
        for one in (model, whole)
    )
    assert again == pytest.approx(draw.logprobs, abs=0.02)
    # Four bits are fewer: close, and not the same.
    assert 0.01 < abs(again - other).max() < 1


@PACKS_HERE
def test_weights_that_do_not_fill_blocks_are_refused_on_a_cpu(folder):
    with pytest.raises(ModelError, match=r"of 32 x 64 weights in llama for 4 bits .* got \d+ x 32"):
        load_models(folder, None, device="cpu", draft_bits=4)


def test_packing_leaves_what_is_not_linear_as_it_is():
    counts = Counts(total=1000, linear=800)
    assert Place("cpu", torch.float32).weight_bytes(counts) == 4000
    assert Place("cuda", torch.bfloat16, 8).weight_bytes(counts) == 2 * 200 + 800
    assert Place("cuda", torch.bfloat16, 4).weight_bytes(counts) == 2 * 200 + 400
    assert placement.dtype_name(torch.bfloat16, 4) == "4-bit, bfloat16"


def test_the_head_is_not_among_the_layers_that_can_be_packed():
    counts = placement.count_parameters(CONFIG)
    assert counts.linear == 3 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48)
    assert counts.total == counts.linear + 2 * 300 * 32 + 7 * 32


def test_what_was_read_is_kept_for_a_few_contexts_and_no_more(monkeypatch, folder):
    part = prepared(Asked("draft", folder, "cpu"), "auto")
    assert part.max_cache_bytes == 8 * 256 * describe(part).cache_bytes
    model = load_models(folder, None, device="cpu").need_draft()
    for seed in range(40):
        model.read_steps([read_request(some_ids(120, seed), some_ids(9, seed))])
    assert 0 < model._engine.store.n_bytes <= part.max_cache_bytes
    monkeypatch.setattr(parts, "MAX_CACHE_BYTES", 1000)
    assert part.max_cache_bytes == 1000


def test_what_does_not_fit_is_refused_before_weights_are_read(monkeypatch, folder, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for file in folder.iterdir():
        if file.suffix != ".safetensors":
            (bare / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(placement, "free_bytes", lambda device: 200_000)
    with pytest.raises(ModelError, match=r"331\.8 KiB of memory on cpu .*, 195\.3 KiB is free"):
        load_models(bare, bare)
    with pytest.raises(ModelError, match="weights cannot be read"):
        load_models(bare, None)


def test_free_memory_is_what_the_system_and_the_container_both_have(monkeypatch, tmp_path):
    monkeypatch.setattr(placement, "_CONTAINER", tmp_path)
    machine = SimpleNamespace(
        virtual_memory=lambda: SimpleNamespace(available=5000),
        swap_memory=lambda: SimpleNamespace(free=1000),
    )
    monkeypatch.setattr(placement, "psutil", machine)
    assert placement.free_bytes("cpu") == 6000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 700\ninactive_file 150\n")
    assert placement.free_bytes("cpu") == 6000
    (tmp_path / "memory.max").write_text("4000\n")
    assert placement.free_bytes("cpu") == 4000 - 900 + 150
    assert placement.free_bytes("spread") is None


def test_a_model_spread_over_memory_and_disk_gives_the_draws_of_a_whole_one(folder):
    places = {"model.layers.1": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu"}
    for name in ("model.embed_tokens", "model.layers.0", "model.layers.2", "lm_head"):
        places[name] = "disk"
    whole = load_models(folder, None).need_draft()
    spread = load_models(folder, None, device_map=places).need_draft()
    assert (spread.info.device, spread.info.grounding) == ("cpu+disk", "captured")
    assert spread.info.n_parameters == whole.info.n_parameters
    draws = [model.sample_steps([REQUEST])[0].draws for model in (whole, spread)]
    assert [d.token_ids for d in draws[0]] == [d.token_ids for d in draws[1]]
    read = spread.read_steps([read_request(some_ids(12), some_ids(5))])[0]
    assert read.attention is not None


def test_a_target_larger_than_memory_is_spread_to_the_disk_beside_a_draft_on_the_cpu(
    folder, monkeypatch
):
    little = SimpleNamespace(available=120_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: little)
    monkeypatch.setattr(placement, "free_bytes", lambda device: None)
    models = load_models(folder, folder, draft_device="cpu", target_device="spread")
    assert models.need_draft().info.device == "cpu"
    assert "disk" in models.need_target().info.device
    config = DecodeConfig(max_steps=1, max_step_tokens=6, n_candidates=2, threshold=1.01)
    trace = trace_from(start("How many?", models, config), models)
    assert trace.units[0].outcome.source == "target"


def test_unpacking_a_gguf_file_is_told_before_it_is_done(tmp_path):
    path = tiny_gguf(tmp_path / "tiny.gguf")
    told: list[str] = []
    load_models(path, None, on_stage=told.append, on_note=told.append)
    assert told[0].startswith("draft tiny.gguf: ")
    assert "KiB unpacked to 165.9 KiB of weights, which takes about 331.8 KiB" in told[0]
    assert told[1] == "loading draft tiny.gguf"
    with pytest.raises(UsageError, match="whole weights to pack to 4 bits, got the GGUF file"):
        load_models(path, None, draft_bits=4)
    part = prepared(Asked("draft", path, "cpu"), "float32")
    assert memory_needed([part]) == {"cpu": 2 * part.weight_bytes}
    assert describe(part).unpacking in told[0]


def test_models_whose_gguf_blocks_could_stay_packed_are_none_that_are_loaded_here():
    """Should transformers keep those of others, too, load_weights has something to gain."""
    assert set(GGUF_ARCHS) == {"lfm2", "qwen35", "qwen35moe"}
    mixed = Lfm2Config(layer_types=["conv", "full_attention"], num_hidden_layers=2)
    for config in (mixed, Qwen3_5TextConfig(), Qwen3_5MoeTextConfig()):
        assert no_rollback(config) is not None


def test_the_revision_that_was_really_loaded_is_in_the_trace(folder, tmp_path, monkeypatch):
    """A hub's cache as it lies on a disk after a download."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    cached = tmp_path / "models--owner--name"
    (cached / "snapshots").mkdir(parents=True)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    (cached / "snapshots" / commit).symlink_to(folder)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for named in ("owner/name", f"owner/name@{commit}"):
        models = load_models(named, None)
        trace = start("How many?", models, DecodeConfig(strategy="draft_only")).trace
        assert trace.draft is not None
        assert (trace.draft.source, trace.draft.revision) == ("owner/name", commit)

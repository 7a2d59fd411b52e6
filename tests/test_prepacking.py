"""Prepacked linear layers: the same bits, by another layout of the weights."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from specguard_core.backends import placement, prepacking
from specguard_core.backends.hf import load_models
from specguard_core.backends.placement import Counts, Place
from specguard_core.backends.prepacking import PrepackedLinear, prepack
from tests.tiny_models import read_request, sample_request, some_ids, tiny_folder, tiny_transformer

needs_bf16 = pytest.mark.skipif(
    not placement.computes_in_bf16(), reason="this processor does not compute in bf16"
)


def linear(n: int, d: int, *, bias: bool) -> nn.Linear:
    torch.manual_seed(n + d)
    return nn.Linear(d, n, bias=bias).to(torch.bfloat16).requires_grad_(False)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("n", "d"), [(48, 32), (301, 96), (7, 5), (1, 128)])
@needs_bf16
def test_a_product_has_the_same_bits_whatever_the_rows(n, d, bias):
    layer = linear(n, d, bias=bias)
    packed = PrepackedLinear(layer)
    for shape in ((d,), (1, d), (3, d), (2, 1, d), (1, 70, d), (4, 9, d)):
        rows = torch.randn(shape).to(torch.bfloat16)
        assert torch.equal(packed(rows), F.linear(rows, layer.weight, layer.bias))
    last = torch.randn(2, 6, d).to(torch.bfloat16)[:, -1:]
    assert torch.equal(packed(last), F.linear(last.contiguous(), layer.weight, layer.bias))


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "gemma3", "phi3", "falcon"])
@needs_bf16
def test_a_prepacked_model_writes_and_reads_the_same(tmp_path, monkeypatch, name):
    folder = tiny_folder(tmp_path / name, name)
    found = []
    for prepacks in (True, False):
        with monkeypatch.context() as patch:
            patch.setattr(Place, "prepacks", prepacks)
            model = load_models(folder, None, device="cpu", dtype="bfloat16").need_draft()
        kinds = {type(module) for module in model._engine.model.modules()}
        assert (PrepackedLinear in kinds) == prepacks
        assert (nn.Linear in kinds) != prepacks
        draws = model.sample_steps([sample_request(some_ids(12), seeds=(1, 2, 3))])[0].draws
        reading = model.read_steps([read_request(some_ids(12), some_ids(9))])[0]
        found.append((model.info, draws, reading))
    (info, draws, reading), (other_info, other_draws, other_reading) = found
    assert info == other_info
    assert [draw.token_ids for draw in draws] == [draw.token_ids for draw in other_draws]
    assert all((a.logprobs == b.logprobs).all() for a, b in zip(draws, other_draws, strict=True))
    assert (reading.logprobs == other_reading.logprobs).all()


def test_a_model_in_full_precision_is_left_as_it_is():
    model = tiny_transformer("llama")
    assert not prepack(model)
    assert not any(isinstance(module, PrepackedLinear) for module in model.modules())


@needs_bf16
def test_a_layout_that_gives_other_bits_is_not_used(monkeypatch):
    model = tiny_transformer("llama").to(torch.bfloat16)
    exact = prepacking.multiply
    monkeypatch.setattr(prepacking, "multiply", lambda *given: exact(*given) * 1.01)
    assert not prepack(model)
    assert not any(isinstance(module, PrepackedLinear) for module in model.modules())


def test_a_torch_without_the_layout_keeps_its_own(monkeypatch):
    model = tiny_transformer("llama").to(torch.bfloat16)

    def unknown(linear: nn.Linear) -> PrepackedLinear:
        raise AttributeError("no such operator")

    monkeypatch.setattr(prepacking, "PrepackedLinear", unknown)
    assert not prepack(model)


def test_weights_that_two_layers_share_count_twice_where_they_are_laid_out_anew(monkeypatch):
    counts = Counts(total=1000, linear=800, tied=150)
    monkeypatch.setattr(placement, "computes_in_bf16", lambda: True)
    assert Place("cpu", torch.bfloat16).weight_bytes(counts) == 2 * 1150
    assert Place("cpu", torch.float32).weight_bytes(counts) == 4 * 1000
    assert Place("cuda", torch.bfloat16).weight_bytes(counts) == 2 * 1000
    monkeypatch.setattr(placement, "computes_in_bf16", lambda: False)
    assert Place("cpu", torch.bfloat16).weight_bytes(counts) == 2 * 1000


def test_an_embedding_that_is_the_output_layer_too_is_found(tmp_path: Path):
    config = tiny_transformer("llama").config
    assert placement.count_parameters(config).tied == 0
    config.tie_word_embeddings = True
    assert placement.count_parameters(config).tied == 300 * 32

"""A pass that is played gives the bits of the model's own; what cannot be recorded is not."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from specguard_core.backends.hf import HfModel
from specguard_core.backends.loading import prepare
from specguard_core.backends.sources import Source
from specguard_core.backends.tape import UnfitError, record, same_operations
from specguard_core.lm import DrawBatch
from tests.tiny_models import sample_request, some_ids, tiny_model, tiny_transformer

RECORDED = ("llama", "qwen2", "qwen3", "gpt2", "gpt_neox", "phi3")
WINDOWED = ("mistral", "gemma3")
WEIGHT = torch.linspace(0, 1, 12).view(3, 4)
PREFIXES = (some_ids(5, seed=1), some_ids(23, seed=2))


def written(model: HfModel, **changes: object) -> list[DrawBatch]:
    options = {"temperature": 1.0, "seeds": (1, 2, 3), "max_tokens": 7} | changes
    return model.sample_steps([sample_request(prefix, **options) for prefix in PREFIXES])


def unrecorded(name: str) -> HfModel:
    model = tiny_model(name, eos=())
    model._engine._can_be_recorded = False
    return model


def number_of_tapes(model: HfModel) -> int:
    return len(model._engine._tapes)


@pytest.mark.parametrize("name", RECORDED)
def test_played_passes_give_the_bits_of_the_models_own(name: str) -> None:
    played = tiny_model(name, eos=())
    with_tape, without = written(played), written(unrecorded(name))
    assert number_of_tapes(played) == 1
    for mine, theirs in zip(with_tape, without, strict=True):
        for one, other in zip(mine.draws, theirs.draws, strict=True):
            assert one.token_ids == other.token_ids
            assert one.alternatives == other.alternatives
            for part in ("logprobs", "entropies", "attention", "hidden"):
                np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


@pytest.mark.parametrize("name", WINDOWED)
def test_a_model_whose_mask_depends_on_the_position_is_not_recorded(name: str) -> None:
    model = tiny_model(name, eos=())
    written(model)
    assert number_of_tapes(model) == 0


def test_a_window_longer_than_the_context_is_no_reason_against_it() -> None:
    transformer = tiny_transformer("mistral")
    transformer.config.sliding_window = 2 * transformer.config.max_position_embeddings
    info = prepare(transformer, Source("mistral", "mistral", {}))
    model = HfModel(transformer, info, tiny_model("mistral", eos=()).vocabulary)
    written(model)
    assert number_of_tapes(model) == 1


def test_a_model_whose_modules_a_library_moves_about_is_not_recorded() -> None:
    transformer = tiny_transformer("llama")
    transformer.model.layers[1]._hf_hook = object()
    info = prepare(transformer, Source("llama", "llama", {}))
    model = HfModel(transformer, info, tiny_model("llama", eos=()).vocabulary)
    written(model)
    assert number_of_tapes(model) == 0


def test_a_tape_is_a_function_of_its_inputs() -> None:
    def run(states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        halves = (states @ WEIGHT).chunk(2, dim=-1)
        halves[0][:, 0] = 7
        return torch.cat((halves[1], halves[0].to(torch.float32)), dim=-1), halves[1].sum()

    tape, _ = record(run, [torch.ones(2, 3)], [WEIGHT])
    states = torch.arange(6.0).view(2, 3)
    for played, given in zip(tape.play(states), run(states), strict=True):
        assert torch.equal(played, given)


@pytest.mark.parametrize(
    ("reason", "run"),
    [
        ("depends on what a tensor holds", lambda x: (x * x.max().item(),)),
        ("value out of a tensor", lambda x: (x if x.sum() > 0 else -x,)),
        ("value out of a tensor", lambda x: (x * max(x.flatten().tolist()),)),
        ("depends on what a tensor holds", lambda x: (x[x > 0],)),
        ("depends on what a tensor holds", lambda x: (x.nonzero(),)),
    ],
)
def test_a_pass_that_its_data_decide_is_unfit(
    reason: str, run: Callable[..., tuple[torch.Tensor, ...]]
) -> None:
    with torch.inference_mode(), pytest.raises(UnfitError, match=reason):
        record(run, [torch.ones(2, 3)], [WEIGHT])


def test_a_tensor_from_outside_makes_a_pass_unfit() -> None:
    stranger = torch.ones(3, 4)
    with pytest.raises(UnfitError, match="no weight"):
        record(lambda x: (x @ stranger,), [torch.ones(2, 3)], [WEIGHT])


def test_passes_that_differ_in_one_number_are_told_apart() -> None:
    def scaled(by: float) -> object:
        return record(lambda x: (x * by,), [torch.ones(2)], [])[0]

    assert same_operations(scaled(2.0), scaled(2.0))
    assert not same_operations(scaled(2.0), scaled(2.5))
    assert not same_operations(scaled(2.0), record(lambda x: (x + 2.0,), [torch.ones(2)], [])[0])


def test_draws_that_are_the_same_so_far_are_computed_once() -> None:
    model = tiny_model(eos=())
    model._engine.row_multiple = 1
    (alone, *_), (shared, *_) = (
        written(model, temperature=1e-4, top_p=1.0, seeds=seeds) for seeds in ((1,), (1, 2, 3, 4))
    )
    assert (shared.passes, shared.positions) == (
        alone.passes - 1,
        alone.positions - len(PREFIXES[0]),
    )
    for draw in shared.draws:
        assert draw.token_ids == alone.draws[0].token_ids
        np.testing.assert_array_equal(draw.attention, alone.draws[0].attention)
        np.testing.assert_array_equal(draw.hidden, alone.draws[0].hidden)


def test_draws_that_go_apart_keep_what_they_shared() -> None:
    model = tiny_model(eos=())
    model._engine.row_multiple = 1
    seeds = tuple(range(8))
    options = {"temperature": 0.6, "top_p": 0.9, "max_tokens": 9}
    for batch, prefix in zip(written(model, seeds=seeds, **options), PREFIXES, strict=True):
        assert len({draw.token_ids for draw in batch.draws}) > 1
        assert batch.positions < len(prefix) + sum(len(draw.token_ids) for draw in batch.draws)
        for seed, draw in zip(seeds, batch.draws, strict=True):
            request = sample_request(prefix, **options | {"seeds": (seed,)})
            alone = model.sample_steps([request])[0].draws[0]
            assert draw.token_ids == alone.token_ids
            np.testing.assert_allclose(draw.attention, alone.attention, atol=1e-5)
            np.testing.assert_allclose(draw.hidden, alone.hidden, atol=1e-4)

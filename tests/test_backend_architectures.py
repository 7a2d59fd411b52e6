"""What holds for every architecture: batches, blocks, roll-back, recorded attention are exact."""

import numpy as np
import pytest
import torch

from specguard_core.backends.hf import HfModel
from specguard_core.backends.loading import prepare
from specguard_core.backends.sources import Source, find, read_config
from specguard_core.backends.tokenizer import HfVocabulary
from specguard_core.errors import CacheError
from specguard_core.lm import Draw, TokenIds
from tests.tiny_models import (
    CAPTURED,
    EAGER_ONLY,
    OWN_ATTENTION,
    read_request,
    sample_request,
    some_ids,
    tiny_config,
    tiny_model,
    tiny_tokenizer,
    tiny_transformer,
    whole_pass,
)

EXACT = CAPTURED + EAGER_ONLY
ALL = EXACT + OWN_ATTENTION


@pytest.fixture(scope="module")
def models() -> dict[str, HfModel]:
    return {name: tiny_model(name, eos=()) for name in ALL}


def drawn(model: HfModel, prefix: TokenIds, **changes: object) -> Draw:
    return model.sample_steps([sample_request(prefix, **changes)])[0].draws[0]


@pytest.mark.parametrize("name", ALL)
def test_a_greedy_step_takes_the_likeliest_token_of_a_whole_pass_each_time(models, name):
    prefix = some_ids(21, seed=1)
    draw = drawn(models[name], prefix)
    logprobs, _, _ = whole_pass(name, prefix + draw.token_ids)
    assert draw.token_ids == tuple(logprobs[len(prefix) - 1 : -1].argmax(-1).tolist())


@pytest.mark.parametrize("name", ALL)
def test_recorded_numbers_are_those_of_a_whole_pass(models, name):
    prefix = some_ids(21, seed=2)
    draw = drawn(models[name], prefix, temperature=1.0, seeds=(5,))
    logprobs, _, hidden = whole_pass(name, prefix + draw.token_ids)
    spoken = logprobs[len(prefix) - 1 : -1]
    m = len(draw.token_ids)
    assert draw.stop == "limit"
    np.testing.assert_allclose(draw.logprobs, spoken[range(m), draw.token_ids], atol=2e-5)
    np.testing.assert_allclose(draw.entropies, -(spoken.exp() * spoken).sum(-1), atol=2e-5)
    np.testing.assert_allclose(draw.hidden, hidden[len(prefix) :].mean(0), atol=2e-5)
    best = spoken.topk(3)
    assert [[t for t, _ in row] for row in draw.alternatives] == best.indices.tolist()


@pytest.mark.case(1)
@pytest.mark.parametrize("name", EXACT)
def test_attention_recorded_while_sampling_is_eager_attention(models, name):
    prefix = some_ids(21, seed=3)
    draw = drawn(models[name], prefix, temperature=1.0, seeds=(7,), n_capture_layers=2)
    _, rows, _ = whole_pass(name, prefix + draw.token_ids)
    np.testing.assert_allclose(draw.attention, rows[-2:, len(prefix) :], atol=1e-5)


@pytest.mark.case(2)
@pytest.mark.parametrize("name", EXACT)
def test_a_block_read_on_a_cache_is_a_whole_pass(models, name):
    prefix, step = some_ids(21, seed=4), some_ids(11, seed=5)
    drawn(models[name], prefix)
    reading = models[name].read_steps([read_request(prefix, step)])[0]
    logprobs, rows, _ = whole_pass(name, prefix + step)
    spoken = logprobs[len(prefix) - 1 : -1]
    np.testing.assert_allclose(reading.logprobs, spoken[range(len(step)), step], atol=2e-5)
    np.testing.assert_allclose(reading.attention, rows[:, len(prefix) :], atol=1e-5)


@pytest.mark.case(1)
@pytest.mark.parametrize("name", OWN_ATTENTION)
def test_a_model_outside_the_attention_interface_gives_confidence_only(models, name):
    prefix, step = some_ids(21, seed=4), some_ids(11, seed=5)
    reading = models[name].read_steps([read_request(prefix, step)])[0]
    logprobs, _, _ = whole_pass(name, prefix + step)
    spoken = logprobs[len(prefix) - 1 : -1]
    np.testing.assert_allclose(reading.logprobs, spoken[range(len(step)), step], atol=2e-5)
    assert reading.attention is None
    assert drawn(models[name], prefix).attention is None
    assert models[name].info.grounding.endswith("confidence only")


@pytest.mark.parametrize("name", ALL)
def test_a_batch_from_a_shared_prefix_is_its_draws_one_by_one(models, name):
    prefix, seeds = some_ids(19, seed=6), (11, 12, 13, 14, 15)
    options = {"temperature": 1.0, "top_p": 0.9, "delimiter": "a", "max_tokens": 9}
    together = models[name].sample_steps([sample_request(prefix, seeds=seeds, **options)])[0]
    alone = [drawn(models[name], prefix, seeds=(seed,), **options) for seed in seeds]
    assert [draw.token_ids for draw in together.draws] == [draw.token_ids for draw in alone]
    for one, other in zip(together.draws, alone, strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5)


@pytest.mark.case(2, 3)
@pytest.mark.parametrize("name", ALL)
def test_four_problems_of_unequal_length_together_give_what_they_give_alone(models, name):
    prefixes = [some_ids(count, seed=count) for count in (3, 30, 12, 21)]
    requests = [sample_request(prefix) for prefix in prefixes]
    together = models[name].sample_steps(requests)
    for prefix, batch in zip(prefixes, together, strict=True):
        alone = drawn(models[name], prefix)
        assert batch.draws[0].token_ids == alone.token_ids
        np.testing.assert_allclose(batch.draws[0].logprobs, alone.logprobs, atol=1e-5)
        if alone.attention is not None:
            np.testing.assert_allclose(batch.draws[0].attention, alone.attention, atol=1e-6)


@pytest.mark.case(7)
@pytest.mark.parametrize("name", ALL)
def test_after_refusals_the_model_goes_on_as_if_they_had_never_been(models, name):
    prefix = some_ids(17, seed=8)
    used = tiny_model(name, eos=())
    for seed in (20, 21):
        refused = some_ids(13, seed=seed)
        used.read_steps([read_request(prefix, refused)])
        drawn(used, prefix + refused)
    kept = some_ids(9, seed=22)
    after, fresh = drawn(used, prefix + kept), drawn(tiny_model(name, eos=()), prefix + kept)
    assert after.token_ids == fresh.token_ids
    np.testing.assert_array_equal(after.logprobs, fresh.logprobs)


@pytest.mark.case(2)
@pytest.mark.parametrize("name", EXACT)
def test_recording_attention_changes_no_logit(models, name):
    prefix = some_ids(19, seed=9)
    options = {"temperature": 1.0, "seeds": (3, 4)}
    with_record = drawn(models[name], prefix, **options)
    without = drawn(models[name], prefix, n_capture_layers=0, **options)
    assert without.attention is None
    assert with_record.token_ids == without.token_ids
    np.testing.assert_array_equal(with_record.logprobs, without.logprobs)


@pytest.mark.parametrize("name", ["mistral", "gemma3"])
def test_keys_outside_a_sliding_window_get_no_attention(models, name):
    prefix = some_ids(21, seed=10)
    draw = drawn(models[name], prefix)
    assert draw.attention is not None
    lowest_but_full = draw.attention[0]
    for row in range(len(draw.token_ids)):
        position = len(prefix) + row
        assert not lowest_but_full[row, : position - 7].any()
        assert lowest_but_full[row, position - 7 : position + 1].all()


@pytest.mark.case(8)
def test_a_recurrent_model_is_refused_before_its_weights_are_read(tmp_path):
    tiny_config("mamba").save_pretrained(tmp_path)
    with pytest.raises(CacheError, match="running state in all its layers"):
        read_config(find(tmp_path))


@pytest.mark.case(4)
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_half_precision_gives_finite_numbers(name):
    for dtype in (torch.bfloat16, torch.float16):
        transformer = tiny_transformer(name).to(dtype)
        info = prepare(transformer, Source(name, name, {}))
        model = HfModel(transformer, info, HfVocabulary(tiny_tokenizer(), ()))
        assert info.grounding == "captured"
        requests = [
            sample_request(some_ids(count), temperature=1e-4, top_p=1e-4, seeds=(1, 2))
            for count in (2, 9)
        ]
        for batch in model.sample_steps(requests):
            for draw in batch.draws:
                assert np.isfinite(draw.logprobs).all()
                assert np.isfinite(draw.attention).all()

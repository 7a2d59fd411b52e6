"""Draws of a loaded model: where they stop, what they never hold; the past leaves no trace."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from specguard_core.backends.cache import PrefixStore, split_chunks
from specguard_core.backends.hf import HfModel
from specguard_core.backends.loading import prepare
from specguard_core.backends.prefixes import read_prefix
from specguard_core.backends.sources import Source
from specguard_core.errors import Cancelled, ModelError
from specguard_core.lm import Draw, DrawBatch, TokenIds
from tests.tiny_models import (
    N_IDS,
    read_request,
    sample_request,
    some_ids,
    tiny_model,
    tiny_transformer,
)

PREFIX = some_ids(20, seed=1)
STEP = {"delimiter": "\n\n"}
DRAWN = {"temperature": 1.0, "seeds": (1, 2, 3, 4), "max_tokens": 20}


@pytest.fixture(scope="module")
def model() -> HfModel:
    return tiny_model(eos=())


def batch(model: HfModel, prefix: TokenIds = PREFIX, **changes: object) -> DrawBatch:
    return model.sample_steps([sample_request(prefix, **changes)])[0]


def scripted(model: HfModel, *tokens: int) -> HfModel:
    """The same model, made to write these tokens whatever it reads."""
    written = {"count": 0}
    forward = model._engine.forward

    def forced(token_ids, members, **options):
        logits = forward(token_ids, members, **options)
        if token_ids.shape[1] == 1:
            written["count"] += 1
            logits = torch.full_like(logits, -1e4)
            logits[..., tokens[min(written["count"], len(tokens) - 1)]] = 0
        return logits

    model._engine.forward = forced
    path = read_prefix(model._engine, model._engine.chunks(PREFIX), None).path
    path[-1].last_logits = torch.full((model._engine.n_ids,), -1e4)
    path[-1].last_logits[tokens[0]] = 0
    return model


def token(model: HfModel, text: str) -> int:
    (token_id,) = model.vocabulary.encode(text)
    return token_id


def assert_same(one: Draw, other: Draw) -> None:
    assert (one.token_ids, one.stop) == (other.token_ids, other.stop)
    assert one.alternatives == other.alternatives
    for name in ("logprobs", "sampling_logprobs", "entropies", "attention", "hidden"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def assert_alike(one: Draw, other: Draw) -> None:
    """Equal tokens, and numbers equal but for rounding, which may depend on the processor."""
    assert (one.token_ids, one.stop) == (other.token_ids, other.stop)
    for name in ("logprobs", "sampling_logprobs", "entropies", "attention", "hidden"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-4)


def test_a_draw_depends_on_its_own_seed_and_on_nothing_beside_it(model):
    together = batch(model, **DRAWN)
    for seed, draw in zip((1, 2, 3, 4), together.draws, strict=True):
        assert_alike(batch(model, **(DRAWN | {"seeds": (seed,)})).draws[0], draw)
    turned = batch(model, **(DRAWN | {"seeds": (4, 9, 1, 7, 3)}))
    assert_alike(turned.draws[0], together.draws[3])
    assert_alike(turned.draws[2], together.draws[0])


def test_requests_together_are_requests_one_by_one(model):
    prefixes = [some_ids(count, seed=count) for count in (5, 40, 17)]
    requests = [sample_request(p, **(DRAWN | {"delimiter": "a"})) for p in prefixes]
    together = model.sample_steps(requests)
    for prefix, many in zip(prefixes, together, strict=True):
        alone = batch(model, prefix, **(DRAWN | {"delimiter": "a"}))
        for one, other in zip(many.draws, alone.draws, strict=True):
            assert_alike(one, other)


def test_a_batch_of_whole_row_multiples_gives_each_draw_its_own_bits(model):
    """Where the processor allows it, as the one that wrote this did."""
    weight = model._engine.model.get_input_embeddings().weight
    rows = torch.arange(64 * weight.shape[1], dtype=torch.float32).sin().view(64, -1)
    few, many = (
        torch.nn.functional.linear(rows[:4], weight),
        torch.nn.functional.linear(rows, weight),
    )
    if not torch.equal(few, many[:4]):
        pytest.skip("this processor rounds a product of 4 rows otherwise than one of 64")
    together = batch(model, **(DRAWN | {"seeds": tuple(range(8))}))
    for seed, draw in enumerate(together.draws):
        assert_same(batch(model, **(DRAWN | {"seeds": (seed,)})).draws[0], draw)


@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma2", "gpt2"])
def test_steps_read_together_have_the_bits_of_each_read_alone(name):
    model = tiny_model(name, eos=())
    shared = some_ids(70, seed=1) + model.vocabulary.encode("\n\n")
    prefixes = [shared, shared[:33], shared, shared + some_ids(5), shared[:12]]
    requests = [
        read_request(prefix, some_ids(m, seed=place), 2)
        for place, (prefix, m) in enumerate(zip(prefixes, (9, 1, 17, 30, 4), strict=True))
    ]
    together = model.read_steps(requests)
    model.forget()
    passes = sum(reading.passes for reading in together)
    for request, reading in zip(requests, together, strict=True):
        model.forget()
        (alone,) = model.read_steps([request])
        assert np.array_equal(alone.logprobs, reading.logprobs)
        assert np.array_equal(alone.attention, reading.attention)
        passes -= alone.passes
    # What two lack is read once.
    assert passes < 0


def test_what_was_asked_before_leaves_no_trace():
    used, fresh = tiny_model(eos=()), tiny_model(eos=())
    step = some_ids(9, seed=2)
    batch(used, PREFIX + step, **DRAWN)
    used.read_steps([read_request(PREFIX, some_ids(12, seed=3))])
    batch(used, some_ids(30, seed=4), **DRAWN)
    for one, other in zip(batch(used, **DRAWN).draws, batch(fresh, **DRAWN).draws, strict=True):
        assert_same(one, other)


def test_a_store_too_small_for_anything_changes_no_draw(model):
    forgetful = tiny_model(eos=(), max_cache_bytes=1)
    for prefix in (PREFIX, some_ids(30, seed=5), PREFIX):
        for one, other in zip(
            batch(forgetful, prefix, **DRAWN).draws,
            batch(model, prefix, **DRAWN).draws,
            strict=True,
        ):
            assert_same(one, other)
    assert len(forgetful._engine.store) == 1


def test_greedy_ignores_the_seeds(model):
    draws = batch(model, seeds=(1, 2, 3)).draws
    assert len(draws) == 3
    assert_same(draws[0], draws[2])
    np.testing.assert_array_equal(draws[0].sampling_logprobs, 0)


@pytest.mark.case(18)
def test_a_delimiter_inside_one_token_ends_the_step():
    model = tiny_model(eos=())
    a, end = token(model, "a"), token(model, ".\n\n")
    draw = batch(scripted(model, a, a, end, a), **STEP).draws[0]
    assert (draw.token_ids, draw.stop) == ((a, a, end), "delimiter")


@pytest.mark.case(18)
def test_a_delimiter_split_over_two_tokens_ends_the_step():
    model = tiny_model(eos=())
    a, newline = token(model, "a"), token(model, "\n")
    draw = batch(scripted(model, a, newline, newline, a), **STEP).draws[0]
    assert (draw.token_ids, draw.stop) == ((a, newline, newline), "delimiter")


def test_a_delimiter_before_any_text_does_not_end_the_step():
    model = tiny_model(eos=())
    a, blank = token(model, "a"), token(model, "\n\n")
    draw = batch(scripted(model, blank, a, blank), **STEP).draws[0]
    assert (draw.token_ids, draw.stop) == ((blank, a, blank), "delimiter")


@pytest.mark.case(12)
@pytest.mark.parametrize("end", [1, 2, 70])
def test_every_end_of_sequence_id_ends_the_step(end):
    model = tiny_model(eos=(1, 2, 70))
    a = token(model, "a")
    draw = batch(scripted(model, a, end)).draws[0]
    assert (draw.token_ids, draw.stop) == ((a, end), "eos")


def test_a_boundary_that_was_not_fed_has_no_row_and_a_limit_has_one():
    model = tiny_model(eos=())
    a, end = token(model, "a"), token(model, ".\n\n")
    scripted(model, a, a, end)
    n = len(PREFIX)
    draw = batch(model, **STEP).draws[0]
    sums = draw.attention.sum(-1)
    np.testing.assert_allclose(sums[:, :2], 1, atol=1e-5)
    np.testing.assert_array_equal(sums[:, 2], 0)
    assert draw.attention.shape == (3, 3, n + 3)
    cut = batch(scripted(tiny_model(eos=()), a, a, a), max_tokens=2).draws[0]
    assert cut.stop == "limit"
    np.testing.assert_allclose(cut.attention.sum(-1), 1, atol=1e-5)
    fed = batch(scripted(tiny_model(eos=()), a, a, end), feed_boundary=True, **STEP).draws[0]
    np.testing.assert_allclose(fed.attention.sum(-1), 1, atol=1e-5)
    alone = batch(scripted(tiny_model(eos=(1,)), 1)).draws[0]
    assert alone.token_ids == (1,)
    np.testing.assert_allclose(alone.attention.sum(-1), 1, atol=1e-5)


@pytest.mark.case(18)
def test_finished_draws_leave_and_change_nothing_for_the_others():
    model = tiny_model(eos=tuple(range(5, 50)))
    model._engine.row_multiple = 1
    options = DRAWN | {"seeds": tuple(range(9))}
    shrinking = batch(model, **options)
    lengths = {len(draw.token_ids) for draw in shrinking.draws}
    assert len(lengths) > 2
    for seed, draw in enumerate(shrinking.draws):
        alone = batch(model, **(options | {"seeds": (seed,)})).draws[0]
        assert alone.token_ids == draw.token_ids
        np.testing.assert_allclose(alone.attention, draw.attention, atol=1e-5)
        np.testing.assert_allclose(alone.hidden, draw.hidden, atol=1e-4)


@pytest.mark.case(9)
def test_a_padded_id_is_never_emitted():
    model = tiny_model(eos=())
    known = {token_id: name for token_id, name in model.vocabulary.tokens.items() if token_id < 280}
    small = tiny_model(eos=())
    small.vocabulary.__dict__["tokens"] = known
    padded = HfModel(small._engine.model, small.info, small.vocabulary)
    head = padded._engine.model.get_output_embeddings()
    assert head.weight.shape[0] == N_IDS
    draws = batch(padded, **(DRAWN | {"temperature": 5.0, "n_alternatives": 50})).draws
    for draw in draws:
        assert max(draw.token_ids) < 280
        assert max(token_id for row in draw.alternatives for token_id, _ in row) < 280


@pytest.mark.case(19)
def test_nothing_is_written_past_the_context(model):
    length = model.info.context_length
    draw = batch(model, some_ids(length - 3), max_tokens=50).draws[0]
    assert (len(draw.token_ids), draw.stop) == (3, "limit")
    with pytest.raises(ModelError, match="a prefix of 1 to"):
        batch(model, some_ids(length))
    with pytest.raises(ModelError, match="a prefix of 1 to"):
        batch(model, ())


@pytest.mark.case(22)
def test_a_stop_ends_the_call_within_one_token_and_the_next_call_is_whole():
    model, fresh = tiny_model(eos=()), tiny_model(eos=())
    written: list[int] = []
    with pytest.raises(Cancelled):
        model.sample_steps(
            [sample_request(PREFIX, **DRAWN)],
            on_token=written.append,
            should_stop=lambda: len(written) == 5,
        )
    assert written == [1, 2, 3, 4, 5]
    with pytest.raises(Cancelled):
        model.read_steps([read_request(PREFIX, some_ids(4))], should_stop=lambda: True)
    for one, other in zip(batch(model, **DRAWN).draws, batch(fresh, **DRAWN).draws, strict=True):
        assert_same(one, other)


def test_calls_from_two_threads_take_turns(model):
    wanted = [batch(model, some_ids(8, seed=s), **DRAWN) for s in (1, 2)]
    found: dict[int, DrawBatch] = {}
    threads = [
        threading.Thread(
            target=lambda s=s: found.update({s: batch(model, some_ids(8, seed=s), **DRAWN)})
        )
        for s in (1, 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for position, s in enumerate((1, 2)):
        for one, other in zip(found[s].draws, wanted[position].draws, strict=True):
            assert_same(one, other)


def test_a_prefix_is_read_once(model):
    fresh = tiny_model(eos=())
    first, second = batch(fresh), batch(fresh)
    assert first.positions == second.positions + len(PREFIX)
    step = some_ids(6, seed=9)
    assert fresh.read_steps([read_request(PREFIX, step)])[0].positions >= len(step)


def test_reading_a_step_serves_the_next_one():
    model = tiny_model(eos=())
    end = model.vocabulary.encode(".\n\n")
    prefix = PREFIX + end
    step = some_ids(6, seed=9, low=20) + end
    model.read_steps([read_request(prefix, step)])
    assert batch(model, prefix + step, max_tokens=1).positions == 1


@pytest.mark.case(20)
def test_a_long_prompt_costs_memory_of_step_times_context_only(monkeypatch):
    transformer = tiny_transformer("llama")
    info = replace(prepare(transformer, Source("llama", "llama", {})), context_length=5000)
    model = HfModel(transformer, info, tiny_model(eos=()).vocabulary)
    prefix = some_ids(4000)
    largest = 0
    stock = torch.Tensor.softmax

    def watched(tensor: torch.Tensor, *arguments: object, **options: object) -> torch.Tensor:
        nonlocal largest
        largest = max(largest, tensor.numel())
        return stock(tensor, *arguments, **options)

    monkeypatch.setattr(torch.Tensor, "softmax", watched)
    draw = batch(model, prefix, max_tokens=4).draws[0]
    assert draw.attention.shape == (3, 4, 4004)
    # Heads times rows of the batch times step times context; a whole pass would hold 64 million.
    assert 0 < largest <= 4 * 4 * 4 * 4004


def test_a_chunk_ends_after_a_blank_line_or_at_the_limit():
    pieces = {0: b"a", 1: b".\n\n", 2: b"\n"}.__getitem__
    assert split_chunks((0, 0, 1, 0), pieces) == [(0, 0, 1), (0,)]
    assert split_chunks((0, 2, 2, 0), pieces) == [(0, 2, 2), (0,)]
    assert split_chunks((0,) * 5, pieces, limit=2) == [(0, 0), (0, 0), (0,)]
    assert split_chunks((), pieces) == []
    ended = split_chunks((0, 2, 0, 0, 1, 0), pieces, turn_ends={2})
    assert ended == [(0, 2), (0, 0, 1), (0,)]


def test_problems_under_one_system_prompt_share_what_was_read_of_it():
    model = tiny_model(eos=(1,))
    system = (0, *some_ids(30, seed=2), 1)
    questions = [(*system, *some_ids(9, seed=seed)) for seed in (3, 4)]
    first, second = (batch(model, question, max_tokens=1) for question in questions)
    assert (first.positions - second.positions, first.passes - second.passes) == (len(system), 1)
    alone = batch(tiny_model(eos=(1,)), questions[1], max_tokens=1)
    assert_same(second.draws[0], alone.draws[0])


def test_chunks_of_a_longer_text_begin_with_the_whole_chunks_of_a_shorter_one():
    pieces = {0: b"a", 1: b".\n\n", 2: b"\n"}.__getitem__
    generator = np.random.default_rng(0)
    ids = tuple(generator.choice(3, size=60, p=[0.7, 0.1, 0.2]).tolist())
    whole = split_chunks(ids, pieces, limit=9)
    for count in range(len(ids)):
        part = split_chunks(ids[:count], pieces, limit=9)
        assert part[:-1] == whole[: max(0, len(part) - 1)]


def test_the_store_forgets_the_least_recently_used_leaf_first():
    logits = torch.zeros(4)
    states = [(torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 2))]
    store = PrefixStore(max_bytes=10**9)
    store.find([(1,)])
    root = store.add(None, (1,), states, logits)
    for name in ((2,), (3,), (4,)):
        store.find([(1,), name])
        store.add(root, name, states, logits)
    store.find([(1,), (2,)])
    store.max_bytes = 3 * root.n_bytes
    store.trim()
    assert [len(store.find([(1,), name])) for name in ((2,), (3,), (4,))] == [2, 1, 2]
    assert store.n_bytes == 3 * root.n_bytes

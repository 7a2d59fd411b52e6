"""The command `models`: the verdict on a pair, before memory is spent and with a probe."""

import json
from pathlib import Path

import pytest

from specguard_core.backends import parts, placement
from specguard_core.backends.hf import load_models
from specguard_core.probe import tokens_per_second
from tests.bench import Bench, one_sentence
from tests.builders import VOCABULARY, overheard
from tests.tiny_models import N_IDS, tiny_folder, tiny_gguf, tiny_tokenizer, tiny_transformer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same tokenizer with another template, and a vocabulary padded by 20."""
    folder = tmp_path_factory.mktemp("models") / "padded"
    model = tiny_transformer("llama")
    model.resize_token_embeddings(N_IDS + 20)
    model.save_pretrained(folder)
    tiny_tokenizer(chat=False).save_pretrained(folder)
    return folder


def test_a_pairs_verdict_names_all_that_decides_whether_it_fits(folder, padded):
    run = Bench()("models", folder, padded)
    assert run.code == 0
    told = dict(line.strip().split(maxsplit=1) for line in run.out.splitlines()[-8:-1])
    assert told["tokenizers"] == "the same: ids, special tokens, splitting"
    assert told["templates"] == "not the same; the target's makes prompts"
    assert told["ids"] == "padded by 20 in the target; those are never written"
    assert told["context"].startswith("256 tokens")
    assert "on cpu while loading, " in told["memory"]
    assert told["memory"].endswith("free now")
    assert told["speed"].startswith("not measured: --probe")
    assert "a refused step is taken back by crop" in run.out
    assert run.out.endswith("the pair fits\n")


def test_for_machines_the_verdict_is_json(folder, padded):
    told = json.loads(Bench()("models", folder, padded, "--json").out)
    assert (told["fits"], told["reason"], told["tokens_per_second"]) == (True, None, None)
    assert told["pair"]["padded_ids"] == {"target": 20}
    assert told["pair"]["needed"]["cpu"] == sum(m["weight_bytes"] for m in told["models"])


def test_a_probe_loads_the_pair_and_times_it(folder):
    bench = Bench()
    bench.load = load_models  # type: ignore[method-assign]  # the true loader, in this process
    told = json.loads(bench("models", folder, folder, "--probe", "--json").out)
    assert set(told["tokens_per_second"]) == {"draft", "target"}
    assert min(told["tokens_per_second"].values()) > 0


def test_a_probe_writes_one_draw_of_twenty_tokens_and_leaves_the_prompt_out_of_the_time():
    model = overheard()
    speed = tokens_per_second(model, VOCABULARY, "Think.")
    assert [request.max_tokens for request in model.sampled] == [1, 20]
    assert len({request.prefix for request in model.sampled}) == 1
    assert speed > 0


def test_different_tokenizers_are_refused_with_the_first_token_and_nothing_is_loaded(
    folder, tmp_path
):
    other = tmp_path / "other"
    tiny_folder(other, extra=("zz",))
    bench = Bench()
    run = bench("models", folder, other, "--probe")
    assert (run.code, bench.loaded) == (1, [])
    assert "does not fit: token 269 is 'unused0' in the draft, 'zz' in the target" in run.err
    assert one_sentence(run)


def test_a_pair_larger_than_what_is_free_is_told_by_how_much_and_not_loaded(folder, monkeypatch):
    monkeypatch.setattr(parts, "free_bytes", lambda device: 300_000)
    bench = Bench()
    run = bench("models", folder, folder, "--probe")
    assert (run.code, bench.loaded) == (1, [])
    assert "not into what is free: 38.8 KiB more would have to be free on cpu" in run.err
    assert one_sentence(run)


def test_a_gguf_file_is_told_with_what_unpacking_it_takes(tmp_path):
    run = Bench()("models", tiny_gguf(tmp_path / "tiny.gguf"))
    assert "GGUF       " in run.out
    assert "unpacked to 165.9 KiB of weights" in run.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--probe"], "a target beside the draft for --probe"),
        (["http://127.0.0.1:9/v1"], "a target with files to look at"),
        (["--device", "gpu"], "a device out of auto"),
        (["--draft-bits", "3"], "invalid choice"),
        (["--device", "cpu", "--draft-bits", "8"], "a CUDA GPU for 8-bit weights"),
    ],
)
def test_what_cannot_be_asked_is_a_sentence_and_exit_code_2(folder, arguments, sentence):
    run = Bench()("models", folder, *arguments)
    assert run.code == 2
    assert sentence in run.err
    assert one_sentence(run)


def test_the_flags_of_place_reach_the_loader(folder, tmp_path):
    asked: dict[str, object] = {}

    def load(*_: object, **options: object) -> object:
        asked.update(options)
        raise placement.UsageError("far enough")

    bench = Bench()
    bench.load = load  # type: ignore[method-assign,assignment]
    flags = ["--device", "cuda", "--draft-device", "cpu", "--target-bits", "4"]
    run = bench("decode", "--problem", "x", *flags, "--chat-template", "t.jinja")
    assert run.code == 2
    assert (asked["device"], asked["draft_device"], asked["target_device"]) == ("cuda", "cpu", None)
    assert (asked["draft_bits"], asked["target_bits"]) == (None, 4)
    assert asked["chat_template"] == "t.jinja"

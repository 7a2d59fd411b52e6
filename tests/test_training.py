"""Laws of the tokenizer and the trainer, on a model too small to learn; a few iterations each."""

from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.training.__main__ import main
from specguard_core.training.batches import BATCHES_PER_BLOCK, IGNORED, training_batches
from specguard_core.training.evaluate import score
from specguard_core.training.generator import problems
from specguard_core.training.loop import train
from specguard_core.training.models import SHAPES, build_model, export
from specguard_core.training.optimizers import orthogonalised
from specguard_core.training.tokenizer import EOS, prompt_text, train_tokenizer
from specguard_core.training.train import LanguageRun, Recipe
from specguard_core.training.writing import Sampling, written


@pytest.fixture(scope="module")
def tokenizer():
    stream = islice(problems("tokenizer", "train"), 300)
    return train_tokenizer(text for p in stream for text in (p.question, p.solution))


@pytest.mark.parametrize(
    "text",
    [
        "plain. text",
        "\U0001f600 \U0001f469\u200d\U0001f680",
        "漢字かな 한국어",
        "שלום \u202eabc",
        "\x00\x07\r\n\t\x1b",
        " . ,\n\n\n  ",
        "é\u0301",
        "",
    ],
)
def test_any_text_survives_the_tokenizer(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


@given(st.text())
def test_all_unicode_survives(tokenizer, text):
    text = text.encode("utf-8", "ignore").decode()
    assert tokenizer.decode(tokenizer(text, split_special_tokens=True)["input_ids"]) == text


def test_no_token_holds_two_digits(tokenizer):
    assert all(sum(c.isdigit() for c in token) <= 1 for token in tokenizer.get_vocab())
    assert len(tokenizer(" 4821")["input_ids"]) == 4


def test_the_chat_template_gives_one_start_and_what_training_saw(tokenizer):
    chat = [{"role": "user", "content": "How many?"}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
    assert ids.count(tokenizer.bos_token_id) == 1
    assert ids == tokenizer(prompt_text("How many?"))["input_ids"]
    whole = [
        {"role": "system", "content": "Be brief."},
        *chat,
        {"role": "assistant", "content": "3"},
    ]
    text = tokenizer.apply_chat_template(whole, tokenize=False)
    assert text == "<|begin|><|user|>How many?<|assistant|>3<|end|>"
    with pytest.raises(Exception, match="roles are system, user and assistant, got tool"):
        tokenizer.apply_chat_template([{"role": "tool", "content": "x"}], tokenize=False)


def test_labels_cover_the_solution_and_nothing_else(tokenizer):
    ids, labels = next(training_batches(tokenizer, 4, seed=3))
    for row in range(4):
        counted = labels[row] != IGNORED
        text = tokenizer.decode(labels[row][counted])
        assert text.endswith(EOS)
        assert "<|assistant|>" not in text
        start = int(counted.nonzero()[0])
        assert tokenizer.decode(ids[row][start]) == "<|assistant|>"
        assert torch.equal(
            labels[row][counted][:-1], ids[row][start + 1 : start + int(counted.sum())]
        )


def test_the_stream_of_batches_can_be_entered_anywhere(tokenizer):
    first = BATCHES_PER_BLOCK - 1
    straight = list(islice(training_batches(tokenizer, 2, seed=0), first + 3))[first:]
    entered = list(islice(training_batches(tokenizer, 2, seed=0, first=first), 3))
    for (a, b), (c, d) in zip(straight, entered, strict=True):
        assert torch.equal(a, c)
        assert torch.equal(b, d)


def test_practice_counts_the_results_of_equations_only(tokenizer):
    ids, labels = next(training_batches(tokenizer, 2, seed=0, practice=1.0))
    for row, counted in zip(ids, labels != IGNORED, strict=True):
        text = tokenizer.decode(row)
        counts = tokenizer.decode(labels[0][labels[0] != IGNORED])
        assert text.count("=") == 10
        assert "=" not in counts
        assert counts.count(".") == 10
        assert int(counted.sum()) < len(row) / 2


def test_a_resumed_run_ends_like_an_uninterrupted_one(tokenizer, tmp_path):
    recipe = Recipe("tiny", iterations=4, batch_size=4, warmup=2)
    whole = LanguageRun(recipe, tokenizer)
    train(whole, log=lambda _: None)

    begun = LanguageRun(recipe, tokenizer)
    for batch in islice(training_batches(tokenizer, 4, seed=0), 2):
        begun.step(batch)
    begun.save(tmp_path / "checkpoint.pt")
    resumed = LanguageRun(recipe, tokenizer)
    resumed.resume(tmp_path / "checkpoint.pt")
    train(resumed, log=lambda _: None)

    assert whole.iteration == resumed.iteration == 4
    for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(whole.average, resumed.average, strict=True):
        assert torch.equal(a, b)


def test_training_lowers_the_loss(tokenizer):
    run = LanguageRun(Recipe("tiny", iterations=30, batch_size=8, warmup=2), tokenizer)
    batch = next(training_batches(tokenizer, 8, seed=0))
    losses = [run.step(batch) for _ in range(20)]
    assert losses[-1] < losses[0] - 0.5


def test_a_checkpoint_of_another_model_is_refused(tokenizer, tmp_path):
    LanguageRun(Recipe("tiny", iterations=1), tokenizer).save(tmp_path / "c.pt")
    with pytest.raises(ValueError, match="holds a tiny, not a draft"):
        LanguageRun(Recipe("draft", iterations=1), tokenizer).resume(tmp_path / "c.pt")


@given(st.integers(1, 400), st.integers(0, 399))
def test_the_rate_rises_stays_and_falls_to_nothing(iterations, at):
    recipe = Recipe("tiny", iterations=iterations, warmup=10)
    at = min(at, iterations - 1)
    assert 0 < recipe.rate_at(at) <= recipe.learning_rate
    assert recipe.rate_at(iterations) == 0


def test_muon_pushes_singular_values_towards_one():
    values = torch.linalg.svdvals(
        orthogonalised(torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(0)))
    )
    assert values.min() > 0.5
    assert values.max() < 1.5


def test_sizes_are_as_promised(tokenizer):
    for role, low, high in (("draft", 0.1e6, 0.4e6), ("target", 1e6, 4e6)):
        size = sum(p.numel() for p in build_model(role, tokenizer).parameters())
        assert low <= size <= high
    assert SHAPES["draft"].layers >= 3


def test_the_command_line_trains_exports_and_evaluates(tmp_path, capsys):
    words, out, model = tmp_path / "words", tmp_path / "run", tmp_path / "model"
    main(["tokenizer", "--count", "50", "--out", str(words)])
    common = ["--model", "tiny", "--tokenizer", str(words)]
    for iterations in ("1", "2"):
        main(["train", *common, "--out", str(out), "--iterations", iterations, "--batch", "2"])
    for _ in range(2):  # the second time replaces a folder that exists
        main(["export", *common, "--checkpoint", str(out / "checkpoint.pt"), "--out", str(model)])
    main(["problems", "--count", "3", "--out", str(tmp_path / "p.jsonl")])
    main(
        ["evaluate", "--model", str(model), "--problems", str(tmp_path / "p.jsonl"), "--limit", "2"]
    )
    assert "/2 = 0." in capsys.readouterr().out
    assert {f.name for f in model.iterdir()} >= {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert not list(tmp_path.glob("model.*"))


def test_an_exported_folder_holds_the_same_model_in_half_precision(tokenizer, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = build_model("tiny", tokenizer, seed=5)
    export(model, tokenizer, tmp_path / "m")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "m")
    assert loaded.dtype == torch.float16
    assert loaded.generation_config.eos_token_id == tokenizer.eos_token_id
    for a, b in zip(model.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(a.half(), b)
    again = AutoTokenizer.from_pretrained(tmp_path / "m")
    assert again.get_vocab() == tokenizer.get_vocab()
    assert again.chat_template == tokenizer.chat_template


def test_batched_greedy_decoding_equals_one_by_one(tokenizer):
    model = build_model("tiny", tokenizer, seed=1)
    texts = [prompt_text(p.question) for p in islice(problems(0, "test"), 3)]
    together = written(model, tokenizer, texts, max_new_tokens=8)
    alone = [written(model, tokenizer, [text], max_new_tokens=8)[0] for text in texts]
    assert together == alone


def test_sampled_texts_hang_on_their_seed_alone(tokenizer):
    model = build_model("tiny", tokenizer, seed=1)
    texts = [prompt_text(p.question) for p in islice(problems(0, "test"), 3)]
    one, again, other = (
        written(model, tokenizer, texts, max_new_tokens=8, sampling=Sampling(1.0, seed=seed))
        for seed in (0, 0, 1)
    )
    assert one == again != other


def test_a_score_says_where_solutions_first_go_wrong():
    gold = [("That is 2 * 3 = 6.", "The answer is \\boxed{6}.")] * 4
    given = [
        "2 * 3 = 6\n\n\\boxed{6}",
        "2 * 3 = 7\n\n\\boxed{7}",
        "2 + 3 = 5\n\n\\boxed{5}",
        "2 * 3 = 6",
    ]
    result = score(gold, given)
    assert (result.right, result.total, result.accuracy) == (1, 4, 0.25)
    assert result.first_errors == {"arithmetic": 1, "set-up": 1, "length": 1}

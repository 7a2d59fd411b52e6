"""Reward models in the formats people use, as tiny random folders of exactly those formats."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaForTokenClassification,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2ForSequenceClassification,
)

from specguard_core.backends.reward import (
    STEP_MARK,
    SYSTEM_PROMPT,
    laid_out,
    load_reward,
)
from specguard_core.bundled import DRAFT, PROBLEMS, REWARD, TARGET
from specguard_core.cli import main
from specguard_core.errors import ModelError
from specguard_core.lm import RewardRequest
from specguard_core.trace_io import load_trace
from tests.tiny_models import N_IDS, tiny_config, tiny_tokenizer

PROBLEM = "Ann has 2 pens and buys 3. How many?"
STEPS = ("Ann has 2 + 3 = 5 pens.\n\n", "The answer is \\boxed{5}.")
REQUEST = RewardRequest(PROBLEM, STEPS)
# As the tokenizers of Qwen2.5 write it: the assistant's message is in the template, too.
CHAT = (
    "{% for m in messages %}<|user|>{{ m['role'] }}\n{{ m['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def seeded(make: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make()
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.data.normal_(std=1.5 / parameter.shape[-1] ** 0.5)
    return model.eval()


def changed_config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def skywork(folder: Path, *, head: bool = True, fill: float | None = None) -> Any:
    """A causal language model's weights and `v_head.summary`, as trl saves them."""
    model = seeded(lambda: Qwen2ForCausalLM(tiny_config("qwen2")))
    model.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    if head:
        weights["v_head.summary.weight"] = torch.linspace(-1, 1, 32)[None]
        weights["v_head.summary.bias"] = torch.tensor([0.25 if fill is None else fill])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    changed_config(folder, architectures=["Qwen2ForPrmModel"])
    tiny_tokenizer(chat=False).save_pretrained(folder)
    return model, weights


def math_prm(folder: Path) -> Any:
    """A body, and `score` as two layers; the configuration names code that must not be run."""
    config = tiny_config("qwen2", vocab_size=N_IDS + 1)
    model = seeded(lambda: Qwen2ForCausalLM(config))
    model.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    weights.pop("lm_head.weight", None)
    generator = torch.Generator().manual_seed(1)
    for name, shape in (("0.weight", (32, 32)), ("0.bias", (32,)), ("2.weight", (2, 32))):
        weights[f"score.{name}"] = torch.randn(shape, generator=generator) / 4
    weights["score.2.bias"] = torch.tensor([0.1, -0.1])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    changed_config(
        folder,
        architectures=["Qwen2ForProcessRewardModel"],
        auto_map={
            "AutoConfig": "configuration_qwen2_rm.Qwen2RMConfig",
            "AutoModel": "modeling_qwen2_rm.Qwen2ForProcessRewardModel",
        },
    )
    (folder / "modeling_qwen2_rm.py").write_text("raise SystemExit('remote code was run')\n")
    (folder / "configuration_qwen2_rm.py").write_text("raise SystemExit('remote code was run')\n")
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [STEP_MARK]})
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    return model, weights


def hidden_of(model: Any, ids: tuple[int, ...]) -> torch.Tensor:
    with torch.no_grad():
        return model.model(input_ids=torch.tensor([ids])).last_hidden_state[0]


def test_a_value_head_is_read_at_the_end_of_each_step_through_a_sigmoid(tmp_path):
    model, weights = skywork(tmp_path)
    reward = load_reward(tmp_path)
    layout = laid_out(tiny_tokenizer(chat=False), "value-head", PROBLEM, STEPS)
    states = hidden_of(model, layout.ids)[list(layout.ends)]
    logits = states @ weights["v_head.summary.weight"][0] + 0.25
    (reading,) = reward.score_steps([REQUEST])
    assert reading.rewards == pytest.approx(logits.sigmoid().tolist(), abs=1e-5)
    assert reading.n_tokens == len(layout.ids)
    assert (reward.info.architecture, reward.format) == ("Qwen2ForPrmModel", "value-head")


def test_the_text_of_a_value_head_is_what_its_own_code_makes(tmp_path):
    tokenizer = tiny_tokenizer(chat=False)
    layout = laid_out(tokenizer, "value-head", PROBLEM, STEPS)
    text = "<s>" + PROBLEM + "\n" + STEPS[0].strip() + "\n" + STEPS[1] + "\n"
    assert tokenizer.decode(layout.ids) == text
    assert [tokenizer.decode(layout.ids[end]) for end in layout.ends] == ["\n", "\n"]


def test_two_classes_are_read_at_the_marks_and_no_remote_code_is_run(tmp_path):
    model, weights = math_prm(tmp_path)
    reward = load_reward(tmp_path)
    layout = laid_out(reward._tokenizer, "two-class", PROBLEM, STEPS)
    text = reward._tokenizer.decode(layout.ids)
    assert SYSTEM_PROMPT in text
    assert f"{STEPS[0].strip()}{STEP_MARK}{STEPS[1]}{STEP_MARK}" in text
    states = hidden_of(model, layout.ids)[list(layout.ends)]
    inner = (states @ weights["score.0.weight"].T + weights["score.0.bias"]).relu()
    logits = inner @ weights["score.2.weight"].T + weights["score.2.bias"]
    (reading,) = reward.score_steps([REQUEST])
    assert reading.rewards == pytest.approx(logits.softmax(dim=1)[:, 1].tolist(), abs=1e-5)
    assert reward.format == "two-class"


@pytest.mark.parametrize("n_labels", [1, 2])
def test_a_token_classifier_is_read_at_the_last_token_of_a_step(tmp_path, n_labels):
    config = tiny_config("llama", num_labels=n_labels)
    model = seeded(lambda: LlamaForTokenClassification(config))
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    reward = load_reward(tmp_path)
    tokenizer = tiny_tokenizer()
    layout = laid_out(tokenizer, "token", PROBLEM, STEPS)
    assert tokenizer.decode(layout.ids) == f"<s><|user|>{PROBLEM}<|assistant|>{''.join(STEPS)}"
    assert tokenizer.decode(layout.ids[layout.ends[0]]) == ".\n\n"
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([layout.ids])).logits[0, list(layout.ends)]
    expected = logits.sigmoid()[:, 0] if n_labels == 1 else logits.softmax(dim=1)[:, 1]
    (reading,) = reward.score_steps([REQUEST])
    assert reading.rewards == pytest.approx(expected.tolist(), abs=1e-5)


def test_a_sequence_classifier_reads_the_text_up_to_each_step(tmp_path):
    config = tiny_config("qwen2", num_labels=1, pad_token_id=2)
    model = seeded(lambda: Qwen2ForSequenceClassification(config))
    model.save_pretrained(tmp_path)
    tiny_tokenizer(chat=False, adds_bos=True).save_pretrained(tmp_path)
    reward = load_reward(tmp_path)
    layout = laid_out(reward._tokenizer, "sequence", PROBLEM, STEPS)
    assert layout.ids[0] == 0
    expected = []
    for end in layout.ends:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([layout.ids[: end + 1]])).logits
        expected.append(float(logits.sigmoid()))
    (reading,) = reward.score_steps([REQUEST])
    assert reading.rewards == pytest.approx(expected, abs=1e-5)
    (first,) = reward.score_steps([RewardRequest(PROBLEM, STEPS[:1])])
    assert first.rewards[0] == pytest.approx(expected[0], abs=1e-6)


def test_later_steps_change_no_earlier_reward(tmp_path):
    skywork(tmp_path)
    reward = load_reward(tmp_path)
    both, first = reward.score_steps([REQUEST, RewardRequest(PROBLEM, STEPS[:1])])
    assert both.rewards[0] == pytest.approx(first.rewards[0], abs=1e-6)


def test_an_encoder_with_its_own_tokenizer_is_a_reward_model_too(tmp_path):
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    config = BertConfig(vocab_size=N_IDS, num_hidden_layers=1, num_labels=2, **shape)
    seeded(lambda: BertForSequenceClassification(config)).save_pretrained(tmp_path)
    tiny_tokenizer(chat=False).save_pretrained(tmp_path)
    (reading,) = load_reward(tmp_path).score_steps([REQUEST])
    assert len(reading.rewards) == 2
    assert all(0 <= reward <= 1 for reward in reading.rewards)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: skywork(folder, head=False), "has no value head (v_head.summary.bias"),
        (lambda folder: None, "has neither"),
        (
            lambda folder: (math_prm(folder), (folder / "model.safetensors").unlink()),
            "its weights cannot be read",
        ),
    ],
    ids=["no head", "no model", "no weights"],
)
def test_a_folder_that_is_no_reward_model_is_one_sentence(tmp_path, make, says):
    make(tmp_path)
    with pytest.raises(ModelError, match="expected a") as caught:
        load_reward(tmp_path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_body_with_weights_missing_is_refused(tmp_path):
    _, weights = skywork(tmp_path)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"1 are missing, model\.layers\.1\.mlp\.up_proj"):
        load_reward(tmp_path)


def test_three_labels_are_no_reward(tmp_path):
    config = Qwen2Config(**{**tiny_config("qwen2").to_dict(), "num_labels": 3})
    Qwen2ForSequenceClassification(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="has 3"):
        load_reward(tmp_path)


def test_a_reward_that_is_no_number_is_an_error(tmp_path):
    skywork(tmp_path, fill=float("nan"))
    with pytest.raises(ModelError, match="got one that is no number: load it with --dtype float32"):
        load_reward(tmp_path).score_steps([REQUEST])


def test_a_solution_longer_than_the_context_is_an_error(tmp_path):
    skywork(tmp_path)
    with pytest.raises(ModelError, match=r"at most 256 tokens for .*, got \d+"):
        load_reward(tmp_path).score_steps([RewardRequest(PROBLEM, ("1 + 1 = 2. " * 60,))])


def test_marks_written_by_a_person_or_a_model_are_no_marks(tmp_path):
    math_prm(tmp_path)
    reward = load_reward(tmp_path)
    sly = RewardRequest(PROBLEM + STEP_MARK, (STEP_MARK + STEPS[0].strip(), STEPS[1]))
    assert reward.score_steps([sly])[0].rewards == reward.score_steps([REQUEST])[0].rewards


def test_a_tokenizer_without_the_mark_is_an_error(tmp_path):
    math_prm(tmp_path)
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=f"the mark {STEP_MARK} after each of 2 steps"):
        load_reward(tmp_path).score_steps([REQUEST])


@pytest.mark.bundled(DRAFT, TARGET, REWARD)
@pytest.mark.parametrize("strategy", ["rsd", "rsd_majority"])
def test_the_bundled_reward_model_is_found_without_a_flag(tmp_path, strategy):
    row = json.loads(PROBLEMS.read_text("utf-8").splitlines()[0])
    out = tmp_path / "t.json"
    asked = ["--problem", row["question"], "--out", str(out)]
    assert main(["decode", "--strategy", strategy, "--set", "n_chains=2", *asked]) == 0
    trace = load_trace(out)
    assert trace.reward is not None
    assert trace.reward.name == REWARD.name
    assert trace.finish is not None
    assert trace.finish.answer == row["answer"]

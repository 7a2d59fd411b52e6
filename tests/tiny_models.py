"""Tiny random models of many architectures, built in the test, and a tokenizer for them. Knows no
test.

Weights are drawn wide, so that attention is far from even and logits far from flat: a wrong mask or
position shows.
"""

import copy
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from specguard_core.backends.hf import HfModel
from specguard_core.backends.loading import prepare
from specguard_core.backends.sources import Source
from specguard_core.backends.tokenizer import HfVocabulary
from specguard_core.lm import ReadRequest, SampleRequest, TokenIds

N_IDS = 300
"""Ids of the tiny tokenizer: 5 special ones, 256 bytes, and merges."""

_SHAPE: dict[str, Any] = {
    "vocab_size": N_IDS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
}
_GROUPED = _SHAPE | {"num_key_value_heads": 2}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", _GROUPED),
    "qwen2": ("Qwen2Config", _GROUPED),
    "qwen3": ("Qwen3Config", _GROUPED | {"head_dim": 8}),
    "mistral": ("MistralConfig", _GROUPED | {"sliding_window": 8}),
    "gemma3": (
        "Gemma3TextConfig",
        _GROUPED
        | {
            "head_dim": 8,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    "gemma3_vision": (
        "Gemma3Config",
        {
            "text_config": _GROUPED | {"head_dim": 8, "sliding_window": 8},
            "vision_config": {
                "hidden_size": 16,
                "intermediate_size": 16,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "image_size": 28,
                "patch_size": 14,
            },
            "mm_tokens_per_image": 4,
        },
    ),
    "gemma2": ("Gemma2Config", _GROUPED | {"head_dim": 8, "sliding_window": 8}),
    "gpt2": ("GPT2Config", {"vocab_size": N_IDS, "n_embd": 32, "n_layer": 3, "n_head": 4}),
    "gpt_neox": ("GPTNeoXConfig", _SHAPE),
    "phi3": ("Phi3Config", _GROUPED | {"pad_token_id": 2}),
    "gpt_oss": (
        "GptOssConfig",
        _GROUPED
        | {"head_dim": 8, "sliding_window": 8, "num_local_experts": 2, "num_experts_per_tok": 1},
    ),
    "falcon": ("FalconConfig", _SHAPE | {"num_kv_heads": 2, "new_decoder_architecture": True}),
    "bloom": ("BloomConfig", {"vocab_size": N_IDS, "hidden_size": 32, "n_layer": 3, "n_head": 4}),
    "mamba": (
        "MambaConfig",
        {"vocab_size": N_IDS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    ),
}
MERGES = [
    ("Ċ", "Ċ"),
    (".", "ĊĊ"),
    ("Ġ", "t"),
    ("h", "e"),
    ("Ġt", "he"),
    ("Ġ", "1"),
    ("Ġ", "="),
    ("a", "n"),
]
GGUF_NAMES = {
    "model.layers": "blk",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
CAPTURED = (
    "llama",
    "qwen2",
    "qwen3",
    "mistral",
    "gemma3",
    "gemma3_vision",
    "gpt2",
    "gpt_neox",
    "phi3",
)
"""Architectures the project promises grounding for."""
EAGER_ONLY = ("gemma2", "gpt_oss")
"""Architectures whose attention has softcaps or sinks, read from their own eager code."""
OWN_ATTENTION = ("falcon", "bloom")
"""Architectures outside transformers' attention interface: confidence only."""


def tiny_config(name: str, **changes: Any) -> Any:
    kind, values = CONFIGS[name]
    special = {"bos_token_id": 0, "eos_token_id": 1}
    return getattr(transformers, kind)(**(special | values | changes))


@cache
def _tiny_weights(name: str) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(len(name))
        model = transformers.AutoModelForCausalLM.from_config(tiny_config(name))
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.data.normal_(std=1.5 / parameter.shape[-1] ** 0.5)
    return model.eval().requires_grad_(False)


def tiny_transformer(name: str, attention: str | None = None) -> Any:
    """A fresh copy of the tiny model of that architecture, alike each time."""
    model = copy.deepcopy(_tiny_weights(name))
    if attention is not None:
        model.set_attn_implementation(attention)
    return model


def tiny_tokenizer(
    *, chat: bool = True, adds_bos: bool = False, extra: tuple[str, ...] = ()
) -> PreTrainedTokenizerFast:
    """Byte-level BPE with merged and single line ends; the template writes the BOS itself."""
    specials = ["<s>", "</s>", "<pad>", "<|user|>", "<|assistant|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*("".join(pair) for pair in MERGES), *extra]
    merges = [*MERGES, *((word[0], word[1:]) for word in extra)]
    names = [*specials, *alphabet, *words]
    names += [f"unused{number}" for number in range(N_IDS - len(names))]
    tokenizer = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(
                Regex(r" ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+\n*|\n+|\s"), "isolated"
            ),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    tokenizer.add_special_tokens(specials)
    template = (
        "{{ bos_token }}{% for m in messages %}{{ '<|user|>' + m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=["<|user|>", "<|assistant|>"],
        chat_template=template if chat else None,
        clean_up_tokenization_spaces=False,
    )


def tiny_folder(folder: Path, name: str = "llama", **tokenizer: Any) -> Path:
    """The tiny model in the ordinary folder format."""
    tiny_transformer(name).save_pretrained(folder)
    tiny_tokenizer(**tokenizer).save_pretrained(folder)
    return folder


def tiny_gguf(path: Path) -> Path:
    """The tiny Llama and its tokenizer as one GGUF file in fp32."""
    model, tokenizer = tiny_transformer("llama"), tiny_tokenizer()
    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    names = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(names)
    writer.add_token_types([3] * 5 + [1] * (len(names) - 5))
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for own_name, tensor in model.state_dict().items():
        weight = tensor.numpy().astype(np.float32)
        name = own_name
        for ours, theirs in GGUF_NAMES.items():
            name = name.replace(ours, theirs)
        kind = name.split(".")[-2]
        if kind in heads:  # GGUF interleaves the two halves of each head for its rotation
            halves = weight.reshape(heads[kind], 2, -1, weight.shape[1])
            weight = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))
        writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tiny_model(name: str = "llama", *, eos: tuple[int, ...] = (1,), **options: Any) -> HfModel:
    """The tiny model behind the seam; what is not in `eos` is an ordinary token."""
    model = tiny_transformer(name)
    info = prepare(model, Source(name, name, {}))
    return HfModel(model, info, HfVocabulary(tiny_tokenizer(), eos), **options)


def some_ids(count: int, seed: int = 0, low: int = 5) -> TokenIds:
    """Ids without special tokens and merges."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(low, 261, (count,), generator=generator).tolist())


def sample_request(prefix: TokenIds, **changes: Any) -> SampleRequest:
    """A greedy draw of twelve tokens, everything recorded."""
    values: dict[str, Any] = {
        "prefix": prefix,
        "seeds": (0,),
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": 0,
        "delimiter": "never written",
        "max_tokens": 12,
        "n_alternatives": 3,
        "n_capture_layers": 3,
        "feed_boundary": False,
        "want_hidden": True,
    }
    return SampleRequest(**(values | changes))


def read_request(prefix: TokenIds, token_ids: TokenIds, n_capture_layers: int = 3) -> ReadRequest:
    return ReadRequest(prefix, token_ids, n_capture_layers)


@cache
def _reference(name: str) -> Any:
    return tiny_transformer(name, None if name in OWN_ATTENTION else "eager")


@torch.inference_mode()
def whole_pass(
    name: str, token_ids: TokenIds
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """(log-probs [n, vocabulary], head-mean attention [layers, n, n] or None, last hidden [n, d])
    of one pass without cache, by transformers' own eager attention where there is one."""
    eager = name not in OWN_ATTENTION  # falcon asked for its attention looks into the future
    output = _reference(name)(
        torch.tensor([token_ids]),
        output_attentions=eager,
        output_hidden_states=True,
        use_cache=False,
    )
    rows = torch.stack([layer[0].mean(0) for layer in output.attentions]) if eager else None
    return output.logits[0].log_softmax(-1), rows, output.hidden_states[-1][0]

"""What the reward model begins as: the target, and two layers that compare what it expects.

body        the target's own layers, computing what they compute in the target
flags       channels beside the body's, written by the embedding alone: one for each digit and
            operator, and one that is always on
comparator  the first added layer: a head looks one token back, to where the body expected this
            token; a unit for each digit and operator fires when it was expected and did not come
look back   the second: a head gathers what fired in the last tokens, so a step's end knows it

The two are built by hand because their parts are worth nothing one by one: from a random start, a
trainer must find all of them before the first helps. Built, they are a start and not yet a judge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForTokenClassification,
    PreTrainedTokenizerFast,
)

from specguard_core.training.generator import problems
from specguard_core.training.tokenizer import prompt_text

FLAGGED = "0123456789+-*/"
N_FLAGS = len(FLAGGED) + 1
N_ADDED = 2
N_STATE_PROBLEMS = 100

FLAG_SIZE = 0.1
"""Of a token's embedding: too little to disturb the body's norms, which divide by both."""
CERTAIN_LOGIT = 15.0
"""What a token must have to count as expected: the target is sure at about 22, else below 15."""
_BACK_ONE = (0.5, 0.25, 0.125, 0.125)
"""Weights of the four fastest rotations: their cosines add up to 1 one token back, only there."""
_BACK_ONE_SHARPNESS = 300.0
_RECENT = (4, 5)
"""Rotations of about 0.1 and 0.06 radians a token: near 1 for the last ten or so."""


@dataclass(frozen=True, slots=True)
class _States:
    """The body's last states at solution tokens, before its final norm.

    size         root of their mean square, the median over tokens
    quiet        [width, width] orthogonal directions in columns, those of least variance first
    """

    size: float
    quiet: Tensor


def begun(
    body: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, seed: int = 0
) -> LlamaForTokenClassification:
    """A classifier of two labels, wrong and right; the same body gives the same classifier."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForTokenClassification(_config(body))
    with torch.no_grad():
        states = _states(body, tokenizer)
        flag = FLAG_SIZE * float(body.model.embed_tokens.weight.norm(dim=1).median())
        _copy_body(model, body)
        _write_flags(model, body, flagged_tokens(tokenizer), flag)
        _level_norms(model, body, loudness=states.size / flag)
        _build_comparator(model, body, flagged_tokens(tokenizer), states)
        _build_look_back(model, body, states)
    model.eval()
    return model


def flagged_tokens(tokenizer: PreTrainedTokenizerFast) -> dict[int, int]:
    """Token id -> its flag, for each token that is one digit or operator, a space before or not."""
    said = [str(tokenizer.decode([token_id])).strip() for token_id in range(len(tokenizer))]
    flags = {i: FLAGGED.find(text) for i, text in enumerate(said) if len(text) == 1}
    return {token_id: flag for token_id, flag in flags.items() if flag >= 0}


def hold_still(model: LlamaForTokenClassification, body_width: int) -> None:
    """Keeps what must stay as built from being trained: the flags, and the look one token back."""

    def only_the_body(grad: Tensor) -> Tensor:
        kept = grad.clone()
        kept[body_width:] = 0
        return kept

    model.model.embed_tokens.weight.register_hook(lambda grad: only_the_body(grad.mT).mT)
    layers: Any = model.model.layers
    for layer in layers:
        layer.self_attn.o_proj.weight.register_hook(only_the_body)
        layer.mlp.down_proj.weight.register_hook(only_the_body)
    comparator = layers[-N_ADDED].self_attn
    comparator.q_proj.weight.requires_grad_(False)
    comparator.k_proj.weight.requires_grad_(False)


def _config(body: LlamaForCausalLM) -> LlamaConfig:
    own = body.config
    heads = int(own.num_attention_heads)
    unused = -(own.hidden_size + N_FLAGS) % heads  # the configuration wants a multiple of heads
    shape: dict[str, Any] = {
        "vocab_size": own.vocab_size,
        "hidden_size": own.hidden_size + N_FLAGS + unused,
        "intermediate_size": own.intermediate_size,
        "num_hidden_layers": own.num_hidden_layers + N_ADDED,
        "num_attention_heads": heads,
        "num_key_value_heads": own.num_key_value_heads,
        "head_dim": own.hidden_size // heads,
        "max_position_embeddings": own.max_position_embeddings,
        "rope_parameters": own.rope_parameters,
        "rms_norm_eps": own.rms_norm_eps,
    }
    labels: dict[str, Any] = {
        "id2label": {0: "wrong", 1: "right"},
        "label2id": {"wrong": 0, "right": 1},
        "classifier_dropout": 0.0,
    }
    tokens = {name: getattr(own, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    return LlamaConfig(**shape, **labels, **tokens)


def _states(body: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> _States:
    found: list[Tensor] = []
    layers: Any = body.model.layers
    handle = layers[-1].register_forward_hook(lambda module, given, out: found.append(out))
    starts: list[int] = []
    for problem in islice(problems("states", "train"), N_STATE_PROBLEMS):
        prompt = tokenizer(prompt_text(problem.question))["input_ids"]
        ids = [*prompt, *tokenizer(problem.solution)["input_ids"]]
        starts.append(len(prompt))
        body.model(input_ids=torch.tensor([ids]), use_cache=False)
    handle.remove()
    states = torch.cat([state[0, start:] for state, start in zip(found, starts, strict=True)])
    directions = torch.linalg.eigh(states.T @ states / len(states)).eigenvectors
    return _States(float(states.pow(2).mean(dim=1).sqrt().median()), directions)


def _put(target: nn.Parameter, source: Tensor) -> None:
    """Copies a weight into the corner of a larger one, the rest of which becomes zero."""
    target.zero_()
    target[tuple(slice(size) for size in source.shape)] = source


def _copy_body(model: LlamaForTokenClassification, body: LlamaForCausalLM) -> None:
    _put(model.model.embed_tokens.weight, body.model.embed_tokens.weight)
    layers: Any = model.model.layers
    given: Any = body.model.layers
    for layer, own in zip(layers, given, strict=False):
        for (_, parameter), (_, source) in zip(
            layer.named_parameters(), own.named_parameters(), strict=True
        ):
            _put(parameter, source)


def _write_flags(
    model: LlamaForTokenClassification, body: LlamaForCausalLM, flags: dict[int, int], size: float
) -> None:
    weight = model.model.embed_tokens.weight
    for token_id, flag in flags.items():
        weight[token_id, body.config.hidden_size + flag] = size
    weight[:, -1] = size


def _level_norms(
    model: LlamaForTokenClassification, body: LlamaForCausalLM, loudness: float
) -> None:
    """Norms divide by the root of the mean over more channels now; the body's weights make up.

    The body does not see the flags; the added layers hear them `loudness` times, as loud as the
    body's channels.
    """
    width, body_width = int(model.config.hidden_size), int(body.config.hidden_size)
    less = math.sqrt(body_width / width)
    layers: Any = model.model.layers
    for index, layer in enumerate(layers):
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            if index < len(layers) - N_ADDED:
                norm.weight.mul_(less)
            else:
                norm.weight[:body_width] = less
                norm.weight[body_width:] = less * loudness
    model.model.norm.weight[:body_width] = less
    model.model.norm.weight[body_width:] = 0


def _head_size(model: LlamaForTokenClassification) -> int:
    config: Any = model.config
    return int(config.head_dim)


def _rotations(config: LlamaConfig) -> Tensor:
    """[head_dim / 2] radians a token, fastest first."""
    own: Any = config
    head, theta = int(own.head_dim), float(own.rope_parameters["rope_theta"])
    return theta ** (-torch.arange(0, head, 2) / head)


def _build_comparator(
    model: LlamaForTokenClassification,
    body: LlamaForCausalLM,
    flags: dict[int, int],
    states: _States,
) -> None:
    layers: Any = model.model.layers
    layer = layers[-N_ADDED]
    width, body_width = int(model.config.hidden_size), int(body.config.hidden_size)
    head = _head_size(model)
    always = width - 1
    ids = list(flags)
    n = len(ids)
    attention, mlp = layer.self_attn, layer.mlp
    # The head's score is 0 one token back and far below 0 elsewhere, whatever the states' sizes:
    # the cosines of `_BACK_ONE`, less 1 by the slowest rotation, times the two tokens' "always on".
    scale = math.sqrt(_BACK_ONE_SHARPNESS * math.sqrt(head))
    fast = len(_BACK_ONE)
    turned = _rotations(model.config)[:fast]
    weights = torch.tensor(_BACK_ONE).sqrt() * scale
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        projection.weight[:head] = 0
    attention.k_proj.weight[:fast, always] = weights
    attention.q_proj.weight[:fast, always] = weights * turned.cos()
    attention.q_proj.weight[head // 2 : head // 2 + fast, always] = -weights * turned.sin()
    attention.k_proj.weight[head - 1, always] = scale
    attention.q_proj.weight[head - 1, always] = -scale
    # It brings the body's logits of the flagged tokens into channels that say little else.
    norm: Any = body.model.norm
    attention.v_proj.weight[:n, :body_width] = body.model.embed_tokens.weight[ids] * norm.weight
    attention.o_proj.weight.zero_()
    loud = 8.0
    attention.o_proj.weight[:body_width, :n] = loud * states.quiet[:, :n]
    # Unit k: swish(steepness * (logit of k - CERTAIN_LOGIT)) * (1 - flag of k).
    steepness = 2.0
    mlp.gate_proj.weight[:n] = 0
    mlp.up_proj.weight[:n] = 0
    mlp.down_proj.weight.zero_()
    mlp.gate_proj.weight[:n, :body_width] = states.quiet[:, :n].T * (steepness * states.size / loud)
    mlp.gate_proj.weight[:n, always] = -steepness * CERTAIN_LOGIT
    mlp.up_proj.weight[:n, always] = 1.0
    for unit, token_id in enumerate(ids):
        mlp.up_proj.weight[unit, body_width + flags[token_id]] = -1.0
    mlp.down_proj.weight[:body_width, :n] = states.size * states.quiet[:, n : n + 1]


def _build_look_back(
    model: LlamaForTokenClassification, body: LlamaForCausalLM, states: _States
) -> None:
    layers: Any = model.model.layers
    layer = layers[-1]
    body_width = int(body.config.hidden_size)
    head = _head_size(model)
    always = int(model.config.hidden_size) - 1
    n = int((layers[-N_ADDED].mlp.down_proj.weight.abs().sum(dim=0) > 0).sum())
    fired, gathered = states.quiet[:, n], states.quiet[:, n + 1]
    attention = layer.self_attn
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        projection.weight[:head] = 0
    # Score: 5.5 ** 2 / sqrt(head) for what fired, and up to 24 for being near.
    near = math.sqrt(12 * math.sqrt(head))
    for rotation in _RECENT:
        attention.q_proj.weight[rotation, always] = near
        attention.k_proj.weight[rotation, always] = near
    attention.q_proj.weight[head - 1, always] = 5.5
    attention.k_proj.weight[head - 1, :body_width] = 5.5 * fired
    attention.v_proj.weight[0, :body_width] = fired
    attention.o_proj.weight.zero_()
    attention.o_proj.weight[:body_width, 0] = states.size * gathered
    layer.mlp.down_proj.weight.zero_()
    model.score.weight.zero_()
    model.score.weight[0, :body_width] = 0.5 * gathered
    model.score.weight[1, :body_width] = -0.5 * gathered
    model.score.bias.copy_(torch.tensor([-1.0, 1.0]))

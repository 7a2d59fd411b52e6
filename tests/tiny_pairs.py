"""Pairs of tiny random models of any architectures, with all that a strategy may ask for. Knows no
test.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from specguard_core.backends.hf import HfModel
from specguard_core.backends.loading import prepare
from specguard_core.backends.scripted import scripted_info
from specguard_core.backends.sources import Source
from specguard_core.backends.tokenizer import HfVocabulary
from specguard_core.lm import ChoiceReading, ChoiceRequest, Models, RewardReading, RewardRequest
from tests.tiny_models import tiny_tokenizer, tiny_transformer

EOS = (1, 60)
"""The end of text, and a letter that a random model is likelier to write."""


class Lenient:
    """A reward model that gives a step the share of its odd bytes."""

    info = scripted_info("judge")

    def score_steps(self, requests: Sequence[RewardRequest]) -> list[RewardReading]:
        steps = [[step.encode() or b"x" for step in request.steps] for request in requests]
        shares = [tuple(sum(b % 2 for b in one) / len(one) for one in each) for each in steps]
        return [RewardReading(rewards, len(rewards), 0.0) for rewards in shares]


class Grader(HfModel):
    """A model that is sure to answer a question with one of its choices."""

    def read_choices(
        self, requests: Sequence[ChoiceRequest], **options: Any
    ) -> list[ChoiceReading]:
        readings = HfModel.read_choices(self, requests, **options)
        return [
            replace(one, logprobs=one.logprobs - np.logaddexp.reduce(one.logprobs))
            for one in readings
        ]


@cache
def _model(name: str) -> Grader:
    """The tiny model of that name, shared by all examples: what it has read is theirs, too."""
    loaded = tiny_transformer(name)
    info = prepare(loaded, Source(name, name, {}))
    return Grader(loaded, info, HfVocabulary(tiny_tokenizer(), EOS))


def tiny_pair(draft: str, target: str, context_length: int = 256) -> Models:
    """A pair of these architectures in a context of so many tokens."""
    pair = []
    for name in (draft, target):
        one = copy.copy(_model(name))
        one.info = replace(one.info, context_length=context_length)
        pair.append(one)
    return Models(pair[0].vocabulary, *pair, reward=Lenient())

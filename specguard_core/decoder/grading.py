"""Grades of `specreason`: the target reads a step and says how good it is, from 0 to 9.

digit      the likeliest of the ten digits after the question in `grade_prompt` (SpecReason, Pan et
           al. 2025, arXiv:2504.07891)
expected   the digits' mean, weighted by their probabilities
logprob    ours, for a target that takes no questions: 9 times the geometric mean of the
           probabilities it gives to the step's tokens
"""

import math
from collections.abc import Sequence

import numpy as np

from specguard_core.config import DecodeConfig
from specguard_core.errors import NotMeasured
from specguard_core.lm import ChoiceReading, ChoiceRequest, Models, TokenIds, Vocabulary
from specguard_core.readings import HIGHEST_GRADE
from specguard_core.types import Candidate

DIGITS = "0123456789"
# Less than this on the ten digits together is not an answer to the question.
_LEAST_MASS = 0.5
_ADVICE = "set grade_method=logprob to grade by log-probability (ours), or load another target"


def check_grading(models: Models, config: DecodeConfig) -> None:
    """
    Raises:
        NotMeasured: the target cannot grade in words; the sentence says why.
    """
    if config.grade_method == "logprob":
        return
    name = models.need_target().info.name
    kinds = {segment.kind for segment in models.vocabulary.prompt("1 + 1?", "Say one digit.")}
    if "system" not in kinds:
        raise NotMeasured(
            f"expected a target that takes instructions to grade in words, {name} takes none (its "
            f"chat template leaves them out): {_ADVICE}"
        )
    models.need_grader()
    digit_ids(models.vocabulary)


def choice_request(prefix: TokenIds, config: DecodeConfig, vocabulary: Vocabulary) -> ChoiceRequest:
    """The question after a prefix that ends with the step."""
    return ChoiceRequest(prefix, vocabulary.encode(config.grade_prompt), digit_ids(vocabulary))


def digit_ids(vocabulary: Vocabulary) -> TokenIds:
    """The ten tokens that are a digit.

    Raises:
        NotMeasured: a tokenizer without such tokens.
    """
    ids = tuple(vocabulary.encode(digit)[-1] for digit in DIGITS)
    for digit, token_id in zip(DIGITS, ids, strict=True):
        if vocabulary.piece(token_id).strip() != digit.encode():
            raise NotMeasured(f"expected a token for the digit {digit}, got none: {_ADVICE}")
    return ids


def grade_in_words(reading: ChoiceReading, config: DecodeConfig) -> float:
    """A grade in [0, 9] from the digits' log-probabilities.

    Raises:
        NotMeasured: the target did not answer with a digit.
    """
    chances = np.exp(np.asarray(reading.logprobs, np.float64))
    mass = float(chances.sum())
    if not mass >= _LEAST_MASS:
        raise NotMeasured(
            f"expected a digit as the target's grade, got one with probability {mass:.2f} only: "
            f"{_ADVICE}, or change grade_prompt"
        )
    if config.grade_method == "digit":
        return float(chances.argmax())
    return float((np.arange(len(chances)) * chances).sum() / mass)


def digit_chances(reading: ChoiceReading) -> tuple[float, ...] | None:
    """The digits' probabilities, to be recorded; None where the target told its answer alone."""
    if reading.answer_only:
        return None
    chances = np.exp(np.asarray(reading.logprobs, np.float64))
    # A log-probability may lie above 0 by a rounding.
    return tuple(min(1.0, round(float(chance), 6)) for chance in chances)


def grade_by_logprob(candidate: Candidate) -> float:
    """9 times the geometric mean of the target's probabilities of a step's tokens.

    Raises:
        NotMeasured: the target has not read the step.
    """
    values: Sequence[float | None] = [token.target_logprob for token in candidate.tokens]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        raise NotMeasured("expected the target's log-probabilities of the step, got none")
    return HIGHEST_GRADE * math.exp(math.fsum(known) / len(known))

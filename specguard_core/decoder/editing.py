"""A person's text as a step of a run. Calls no model.

edit          the text of one step; its delimiter may be missing and is then added
re-tokenised  a person's text has no tokens of its own: the draft's tokenizer encodes it once
"""

from specguard_core.errors import UsageError
from specguard_core.lm import Vocabulary
from specguard_core.types import Candidate, TokenSignal

MAX_STEP_CHARACTERS = 20_000


def edited_step(text: str, delimiter: str, vocabulary: Vocabulary) -> Candidate:
    """The step a person wrote, ended by one delimiter; nothing of it is measured.

    Raises:
        UsageError: an empty text, more than one step, or one that does not survive the tokenizer.
    """
    if len(text) > MAX_STEP_CHARACTERS:
        raise UsageError(
            f"expected a step of at most {MAX_STEP_CHARACTERS:,} characters, got {len(text):,}: "
            "shorten it"
        )
    whole = _ended(text, delimiter)
    try:
        data = whole.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"expected a text of whole characters, got half of one at place {error.start + 1}: "
            "write it again"
        ) from None
    ids = vocabulary.encode(whole)
    if vocabulary.eos_token_ids & set(ids):
        raise UsageError(
            "expected a step without the end-of-sequence mark, got one: take it out, the run ends "
            "by its answer"
        )
    if b"".join(map(vocabulary.piece, ids)) != data:
        raise UsageError(
            "expected a text that the draft's tokenizer can write, got characters it would change: "
            "use others"
        )
    return Candidate(tuple(map(TokenSignal, ids)), "delimiter", "retokenised")


def _ended(text: str, delimiter: str) -> str:
    """The text with exactly one delimiter at its end."""
    body = text.replace("\r\n", "\n").replace("\r", "\n").rstrip()
    while delimiter.strip() and body.endswith(delimiter):
        body = body.removesuffix(delimiter).rstrip()
    if not body.strip():
        raise UsageError("expected a step with some text, got an empty one: write something")
    if delimiter in body.lstrip():
        raise UsageError(
            f"expected one step, got several ({delimiter!r} ends a step): edit one at a time"
        )
    return body + delimiter

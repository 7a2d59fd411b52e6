r"""Where a step ends, and how token bytes become readable text. Knows no model and no tokenizer.

piece      the bytes one token id stands for
delimiter  the text that ends a step, "\n\n" by default
boundary   the token that completes the delimiter, or the end-of-sequence token
thoughts   what a thinking model writes between its marks; the first may stand in the prompt
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from specguard_core.errors import ProblemError

MAX_PROBLEM_CHARACTERS = 20_000
_THOUGHTS_BEGIN, _THOUGHTS_END = "<think>", "</think>"
_KEPT_CONTROLS = frozenset("\n\t")
_EXTENDERS = (("\U0001f3fb", "\U0001f3ff"), ("\U000e0020", "\U000e007f"))  # skin tones, flag tags
_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))


class StepWatch:
    """Fed one step's tokens as bytes; says when the delimiter is complete.

    A delimiter before any non-space text does not end a step. It may lie inside one token or be
    split over several.
    """

    __slots__ = ("_delimiter", "_started", "_tail")

    def __init__(self, delimiter: bytes, begun: Iterable[bytes] = ()) -> None:
        """begun: pieces of the step that are there already; they do not end it."""
        self._delimiter = delimiter
        self._started = False
        self._tail = b""
        for piece in begun:
            self.feed(piece)

    def feed(self, piece: bytes) -> bool:
        """True when this piece completes the delimiter after some non-space text."""
        if not self._started:
            piece = piece.lstrip()
            if not piece:
                return False
            self._started = True
        window = self._tail + piece
        if self._delimiter in window:
            return True
        keep = len(self._delimiter) - 1
        self._tail = window[-keep:] if keep else b""
        return False


def join_pieces(token_ids: Iterable[int], pieces: Mapping[int, bytes]) -> str:
    """The text of some tokens; bytes that make no character are shown as U+FFFD."""
    return b"".join(pieces[token_id] for token_id in token_ids).decode("utf-8", "replace")


def said_aloud(text: str, *, in_thoughts: bool) -> str:
    """What a model wrote after its thoughts; nothing while they last, all where there are none.

    in_thoughts   whether the prompt ends inside of them
    """
    _, end, after = text.rpartition(_THOUGHTS_END)
    if end:
        return after
    return "" if in_thoughts or text.lstrip().startswith(_THOUGHTS_BEGIN) else text


def ends_in_thoughts(prompt_end: str) -> bool:
    """Whether thoughts have begun, and not ended, in the last words of a prompt."""
    return prompt_end.rfind(_THOUGHTS_BEGIN) > prompt_end.rfind(_THOUGHTS_END)


def display_groups(
    token_ids: Sequence[int], pieces: Mapping[int, bytes]
) -> list[tuple[int, int, str]]:
    """(start, stop, text) of runs of tokens that make whole characters together.

    A token that holds only part of a character is grouped with the ones that complete it, and a
    combining mark, a joiner, a skin tone or the second half of a flag with the character before it.
    """
    groups: list[tuple[int, int, bytes]] = []
    start, held = 0, b""
    for index, token_id in enumerate(token_ids):
        held += pieces[token_id]
        if _is_whole(held):
            groups.append((start, index + 1, held))
            start, held = index + 1, b""
    if held:
        groups.append((start, len(token_ids), held))
    merged: list[tuple[int, int, str]] = []
    for first, stop, data in groups:
        text = data.decode("utf-8", "replace")
        if merged and text and _belong_together(merged[-1][2], text[0]):
            before = merged.pop()
            merged.append((before[0], stop, before[2] + text))
        else:
            merged.append((first, stop, text))
    return merged


def clean_problem(problem: str) -> str:
    """The problem as the models will see it: control characters dropped, outer space stripped.

    Raises:
        ProblemError: nothing is left, or it is longer than MAX_PROBLEM_CHARACTERS.
    """
    if len(problem) > MAX_PROBLEM_CHARACTERS:
        raise ProblemError(
            f"expected a problem of at most {MAX_PROBLEM_CHARACTERS:,} characters, "
            f"got {len(problem):,}: shorten it"
        )
    kept = (
        c
        for c in problem.replace("\r\n", "\n").replace("\r", "\n")
        if c in _KEPT_CONTROLS or _is_text(c)
    )
    text = "".join(kept).strip()
    if not text:
        raise ProblemError("expected a problem with some text, got an empty one: write a question")
    return text


def _is_text(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cs")


def _is_whole(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        # Bytes that can never become a character are shown as they are, not held back for ever.
        return not (error.reason == "unexpected end of data" and len(data) - error.start < 4)
    return True


def _belong_together(before: str, character: str) -> bool:
    """Whether a character is drawn as one with the text before it."""
    mark = unicodedata.category(character).startswith("M")  # combining class 0 in many scripts
    extends = mark or character == "\u200d" or any(a <= character <= b for a, b in _EXTENDERS)
    if extends or before.endswith("\u200d"):
        return True
    n_letters = len(before) - len(before.rstrip(_FLAG_LETTERS))
    return character in _FLAG_LETTERS and n_letters % 2 == 1

"""Where the command line writes: results to `out`, progress and remarks to `err`. Knows no model.

live       the error stream is a terminal: progress is drawn over one line, and wiped for the next
quiet      the reader of `out` went away (`| head`): writing goes on into nothing, work is finished
"""

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, TextIO

Style = Literal["accepted", "fallback", "forced", "faint", "strong"]

_PROGRESS_SECONDS = 0.1
# Cyan and yellow stay apart for colour-blind eyes; a word always says the same.
_CODES: dict[Style, str] = {
    "accepted": "36",
    "fallback": "33",
    "forced": "35",
    "faint": "2",
    "strong": "1",
}


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours, or none."""

    colour: bool

    def __call__(self, text: str, style: Style) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour and text else text


@dataclass(slots=True)
class Console:
    """Two streams and a clock, in seconds."""

    out: TextIO
    err: TextIO
    colour: bool
    live: bool
    clock: Callable[[], float]
    _quiet: bool = field(default=False, init=False)
    _stage: str = field(default="", init=False)
    _drawn: int = field(default=0, init=False)
    _last: float = field(default=float("-inf"), init=False)

    @property
    def paint(self) -> Palette:
        return Palette(self.colour)

    def say(self, text: str) -> None:
        """A result."""
        self._wipe()
        if self._quiet:
            return
        try:
            self.out.write(f"{text}\n")
            self.out.flush()
        except BrokenPipeError:
            self._quiet = True

    def say_all(self, lines: Iterable[str]) -> None:
        """Results, a line each."""
        for line in lines:
            self.say(line)

    def note(self, text: str) -> None:
        """A remark or an error; never on the stream of results."""
        self._wipe()
        self.err.write(f"{text}\n")
        self.err.flush()

    def stage(self, text: str) -> None:
        """What is going on from now on."""
        self._stage = text
        self._draw(text)

    def tokens(self, n_tokens: int) -> None:
        """How far it is, drawn at most ten times a second."""
        if self.live and self.clock() - self._last >= _PROGRESS_SECONDS:
            self._draw(f"{self._stage} · {n_tokens} tokens")

    def _draw(self, text: str) -> None:
        if not self.live:
            return
        self._wipe()
        self._last = self.clock()
        self.err.write(text)
        self.err.flush()
        self._drawn = len(text)

    def _wipe(self) -> None:
        if self._drawn:
            self.err.write("\r" + " " * self._drawn + "\r")
            self.err.flush()
            self._drawn = 0


def visible(text: str) -> str:
    """The text with control characters as signs, so that no file or model can drive a terminal."""
    return "".join(map(_sign, text))


def _sign(character: str) -> str:
    if character == "\n" or unicodedata.category(character) not in ("Cc", "Cs", "Cf"):
        return character
    if ord(character) < 0x20:
        return chr(0x2400 + ord(character))
    # Joiners hold emoji and whole scripts together; other format signs can turn text around.
    return character if character in "\u200c\u200d" else "\ufffd"

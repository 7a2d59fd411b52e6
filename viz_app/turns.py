"""One queue for everything that makes a model work. Knows no model, no session and no gradio.

turn       a place in the queue; the first one works, the others wait
place      how many turns are before one: 0 works
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from specguard_core.errors import UsageError

MOST_WAITING = 8


class Turn:
    """A place in a queue."""

    def __init__(self, turns: "Turns") -> None:
        self._turns = turns

    @property
    def place(self) -> int:
        """How many turns are before this one."""
        return self._turns.place(self)

    def wait(self, seconds: float) -> bool:
        """Whether it is this one's turn, after at most so long."""
        return self._turns.wait(self, seconds)


class Turns:
    """A first-come queue with at most `most_waiting` turns behind the one that works."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most = most_waiting
        self._queue: list[Turn] = []
        self._moved = threading.Condition()

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """A place in the queue until the block ends.

        Raises:
            UsageError: the queue is full; nothing was changed.
        """
        mine = Turn(self)
        with self._moved:
            if len(self._queue) > self._most:
                raise UsageError(
                    f"expected a free place in the queue for the models, got {self._most} waiting "
                    "before you: try again in a minute"
                )
            self._queue.append(mine)
        try:
            yield mine
        finally:
            with self._moved:
                self._queue.remove(mine)
                self._moved.notify_all()

    def place(self, turn: Turn) -> int:
        with self._moved:
            return self._queue.index(turn)

    def wait(self, turn: Turn, seconds: float) -> bool:
        with self._moved:
            return self._moved.wait_for(lambda: self._queue[0] is turn, seconds)


def place_words(place: int) -> str:
    """The place of one who waits, as the page says it: "2nd in the queue"."""
    number = place + 1
    teens = 10 <= number % 100 <= 20
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending} in the queue"

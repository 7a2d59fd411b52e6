"""What a served page keeps is bounded: links, the queue, idle sessions, runs; nothing leaks."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.config import DecodeConfig
from specguard_core.errors import ModelError, UsageError
from viz_app.limits import LOCKED, Limits
from viz_app.links import Links
from viz_app.turns import Turns, place_words
from viz_app.work import Job, Rooms


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.text(max_size=300))
def test_a_link_finds_what_was_given(text):
    text = text.encode("utf-8", "ignore").decode()
    links = Links(Clock())
    assert links.find(links.give(text)) == text


def test_no_two_links_are_alike_and_none_can_be_guessed():
    links = Links(Clock())
    names = {links.give("the same") for _ in range(100)}
    assert len(names) == 100
    assert min(map(len, names)) >= 22
    for name in ("", "..", "x" * 22):
        with pytest.raises(UsageError, match="it does not know"):
            links.find(name)


def test_the_oldest_link_goes_first():
    links = Links(Clock(), most_links=2)
    first, second, third = (links.give(text) for text in "abc")
    assert len(links) == 2
    assert (links.find(second), links.find(third)) == ("b", "c")
    with pytest.raises(UsageError):
        links.find(first)


def test_links_are_bounded_in_bytes_and_in_age():
    clock = Clock()
    links = Links(clock, most_bytes=60, most_seconds=10)
    names = [links.give(str(number) * 20) for number in range(10)]
    assert links.size_bytes <= 60
    assert links.find(names[-1]) == "9" * 20
    clock.now = 11
    with pytest.raises(UsageError, match="too old"):
        links.find(names[-1])
    assert len(links) == 0
    with pytest.raises(UsageError, match="save it as a file"):
        links.give("".join(chr(32 + (i * i * 7919) % 90) for i in range(5000)))


def test_turns_come_in_order_and_each_knows_its_place():
    turns = Turns(most_waiting=3)
    with turns.turn() as first, turns.turn() as second, turns.turn() as third:
        assert [turn.place for turn in (first, second, third)] == [0, 1, 2]
        assert first.wait(0)
        assert not second.wait(0)
    with turns.turn() as again:
        assert again.wait(0)


def test_a_full_queue_refuses_in_one_sentence_and_frees_again():
    turns = Turns(most_waiting=1)
    with turns.turn():
        with turns.turn(), pytest.raises(UsageError, match="1 waiting before you: try again"):
            turns.turn().__enter__()
        with turns.turn() as waiting:
            assert waiting.place == 1


def test_whoever_waits_goes_on_as_soon_as_the_one_before_ends():
    turns = Turns()
    held, seen = threading.Event(), []

    def work() -> None:
        with turns.turn() as turn:
            held.set()
            seen.append(turn.wait(30))

    with turns.turn():
        thread = threading.Thread(target=work)
        thread.start()
        held.wait(30)
        assert seen == []
    thread.join(30)
    assert seen == [True]


@pytest.mark.parametrize(
    ("place", "words"),
    [(1, "2nd"), (2, "3rd"), (3, "4th"), (10, "11th"), (12, "13th"), (20, "21st"), (111, "112th")],
)
def test_a_place_is_said_in_words(place, words):
    assert place_words(place) == f"{words} in the queue"


def test_an_idle_session_is_given_up_and_a_busy_one_is_not():
    clock = Clock()
    rooms = Rooms(clock, idle_seconds=60)
    rooms.room("idle")
    busy = rooms.room("busy")
    busy.job = Job()
    clock.now = 50
    kept = rooms.room("visited")
    clock.now = 100
    rooms.sweep()
    assert len(rooms) == 2
    assert rooms.room("visited") is kept
    assert rooms.room("busy") is busy
    busy.job = None
    clock.now = 1000
    rooms.sweep()
    assert len(rooms) == 0


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_a_bounded_run_never_may_write_more_than_the_page_allows(asked, allowed):
    limits = Limits(max_tokens=allowed)
    config = limits.bounded(DecodeConfig(max_new_tokens=asked))
    assert config.max_new_tokens == min(asked, allowed)
    limits.check(config)
    if asked > allowed:
        with pytest.raises(UsageError, match="reset it"):
            limits.check(DecodeConfig(max_new_tokens=asked))


def test_a_read_only_page_lets_no_model_work():
    with pytest.raises(UsageError) as refused:
        Limits(read_only=True).check(DecodeConfig())
    assert str(refused.value) == LOCKED == Limits(read_only=True).locked
    assert Limits().locked == ""


@pytest.mark.parametrize(
    "place", ["/srv/models/draft", "C:\\models\\draft", "~/models/draft.gguf", "./models/draft"]
)
def test_a_public_page_names_no_place_on_its_machine(place):
    error = ModelError(f"expected a model at {place}, got no such folder: check it")
    public = Limits(public=True).told(error)
    assert "models" not in public
    assert public.startswith("expected a model at ")
    assert public.endswith(", got no such folder: check it")
    assert place in Limits().told(error)
    assert "secret" not in Limits(public=True).told(RuntimeError("secret"))


def test_a_public_sentence_that_names_no_place_is_whole():
    sentence = "expected 3/4 of tokens/s and/or more: see https://example.org/a/b"
    assert Limits(public=True).told(UsageError(sentence)) == sentence

"""Where steps end, how bytes become readable characters, and which problems are problems."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.errors import ProblemError
from specguard_core.text import (
    MAX_PROBLEM_CHARACTERS,
    StepWatch,
    clean_problem,
    display_groups,
    join_pieces,
)


def end_of(pieces, delimiter=b"\n\n"):
    """Index of the piece that ends the step; None where none does."""
    watch = StepWatch(delimiter)
    return next((index for index, piece in enumerate(pieces) if watch.feed(piece)), None)


# The end of a step


@pytest.mark.parametrize(
    ("pieces", "end"),
    [
        ([b"so", b".\n\n"], 1),
        ([b"so.", b"\n", b"\n"], 2),
        ([b"so.\n", b"\n"], 1),
        ([b"so.\n\nThen"], 0),
        ([b"so.", b"\n\n"], 1),
        ([b"so.", b"\n", b" ", b"\n"], None),
        ([b"so.\n", b"then\n", b"\n"], 2),
        ([b"\n\n", b"so", b"\n\n"], 2),
        ([b"\n", b"\n", b"so", b"\n\n"], 3),
        ([b" \n\n \t", b"so\n\n"], 1),
        ([b"\n\nso", b"\n\n"], 1),
        ([b"\n\nso\n\n"], 0),
        ([b"\n\n", b" ", b"\n\n"], None),
        ([b"\n", b"so", b"\n", b"\n"], 3),
        ([b"", b"so", b"", b"\n", b"", b"\n"], 5),
    ],
    ids=repr,
)
def test_a_delimiter_ends_a_step_merged_or_split_but_never_before_any_text(pieces, end):
    assert end_of(pieces) == end


@given(
    st.text("a\n ", max_size=12).map(str.encode),
    st.lists(st.integers(0, 12), max_size=6),
    st.sampled_from([b"\n\n", b"\n", b"\n\n\n", b"\na", b"a"]),
)
def test_how_a_text_is_cut_into_tokens_does_not_decide_whether_it_ends(text, cuts, delimiter):
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    end = end_of(pieces, delimiter)
    letters = [text[i : i + 1] for i in range(len(text))]
    letter = end_of(letters, delimiter)
    assert (end is None) == (letter is None)
    if end is not None:
        assert places[end] <= letter < places[end + 1]


@given(st.text("a\n ", max_size=12).map(str.encode))
def test_a_step_ends_where_the_delimiter_first_stands_after_some_text(text):
    found = text.lstrip().find(b"\n\n")
    letters = [text[i : i + 1] for i in range(len(text))]
    expected = None if found < 0 else len(text) - len(text.lstrip()) + found + 1
    assert end_of(letters) == expected


def test_a_delimiter_of_several_letters_may_overlap_itself():
    assert end_of([b"x", b"a", b"aab"], b"aab") == 2
    assert end_of([b"x###", b"#"], b"###") == 0


# Characters


def groups_of(*pieces):
    return display_groups(range(len(pieces)), dict(enumerate(pieces)))


def as_bytes(text):
    return [bytes([byte]) for byte in text.encode()]


@pytest.mark.case(25)
@given(st.text(max_size=8), st.lists(st.integers(0, 32), max_size=8))
def test_groups_cover_every_token_once_and_show_the_text(text, cuts):
    data = text.encode("utf-8")
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    pieces = [data[a:b] for a, b in pairwise(places)]
    groups = groups_of(*pieces)
    assert [start for start, _, _ in groups] == [0, *(stop for _, stop, _ in groups)][: len(groups)]
    assert sum(stop - start for start, stop, _ in groups) == len(pieces)
    assert "".join(shown for _, _, shown in groups) == text


@given(st.lists(st.binary(max_size=4), max_size=8))
def test_any_bytes_can_be_shown(pieces):
    groups = groups_of(*pieces)
    assert sum(stop - start for start, stop, _ in groups) == len(pieces)


@pytest.mark.case(25)
@pytest.mark.parametrize(
    "character",
    [
        "é",
        "漢",
        "😀",
        "שׁ",  # a Hebrew letter with its dot
        "ا",
        "e\u0301",  # a combining accent
        "की",  # a vowel sign of combining class 0
        "ก\u0e31",
        "1\ufe0f\u20e3",  # a keycap
        "❤\ufe0f",
        "👍🏽",  # a skin tone
        "👩\u200d👩\u200d👧",
        "🇩🇪",
        "🏴\U000e0067\U000e0062\U000e007f",
    ],
)
def test_the_bytes_of_one_character_are_shown_as_that_character(character):
    pieces = [b"a", *as_bytes(character), b"b"]
    assert [shown for _, _, shown in groups_of(*pieces)] == ["a", character, "b"]


@pytest.mark.case(25)
def test_neighbours_stay_apart():
    assert [g[2] for g in groups_of(*as_bytes("漢字"))] == ["漢", "字"]
    assert [g[2] for g in groups_of(*as_bytes("שלום"))] == list("שלום")
    assert [g[2] for g in groups_of(*as_bytes("🇩🇪🇫🇷"))] == ["🇩🇪", "🇫🇷"]
    assert [g[2] for g in groups_of(b"so", b" it", b" is")] == ["so", " it", " is"]


@pytest.mark.case(25)
def test_partial_bytes_are_grouped_and_shown_once():
    smile = "😀".encode()
    assert groups_of(b"a", smile[:2], smile[2:], b"b") == [(0, 1, "a"), (1, 3, "😀"), (3, 4, "b")]
    assert groups_of(b"a" + smile[:3], smile[3:] + b"b") == [(0, 2, "a😀b")]
    assert groups_of(b"a", smile[:3]) == [(0, 1, "a"), (1, 2, "\ufffd")]


def test_bytes_that_can_never_be_a_character_hold_nothing_back():
    assert groups_of(b"\xff", b"a", b"\x80", b"b") == [
        (0, 1, "\ufffd"),
        (1, 2, "a"),
        (2, 3, "\ufffd"),
        (3, 4, "b"),
    ]
    broken = groups_of(b"\xf0", b"a", b"b")
    assert "".join(shown for _, _, shown in broken) == "\ufffdab"
    assert broken[-1] == (2, 3, "b")


def test_a_mark_with_nothing_before_it_stands_alone():
    assert groups_of("\u0301".encode(), b"a") == [(0, 1, "\u0301"), (1, 2, "a")]


def test_nothing_has_no_groups():
    assert groups_of() == []


@given(st.text(max_size=10))
def test_joined_pieces_are_the_text_however_it_is_cut(text):
    pieces = dict(enumerate(as_bytes(text)))
    assert join_pieces(pieces, pieces) == text


# Problems


@given(st.text(max_size=40))
def test_a_cleaned_problem_stays_as_it_is_and_holds_no_control_character(text):
    try:
        cleaned = clean_problem(text)
    except ProblemError:
        return
    assert clean_problem(cleaned) == cleaned
    categories = {unicodedata.category(c) for c in cleaned if c not in "\n\t"}
    assert not categories & {"Cc", "Cs"}
    cleaned.encode("utf-8")


@pytest.mark.parametrize(
    "nothing", ["", " ", "\n\t \r\n", "\x00", "\x00 \x1b", "\u3000", "\x7f\x85", "\ud800\udfff"]
)
def test_a_problem_with_no_text_is_refused(nothing):
    with pytest.raises(ProblemError, match="empty one: write a question"):
        clean_problem(nothing)


def test_a_problem_as_long_as_allowed_is_taken_and_one_character_more_is_not():
    assert len(clean_problem("x" * MAX_PROBLEM_CHARACTERS)) == MAX_PROBLEM_CHARACTERS
    with pytest.raises(ProblemError, match=r"at most 20,000 characters, got 20,001: shorten it"):
        clean_problem("x" * (MAX_PROBLEM_CHARACTERS + 1))
    with pytest.raises(ProblemError, match="100,000"):
        clean_problem("x" * 100_000)


@pytest.mark.parametrize(
    ("typed", "cleaned"),
    [
        ("  How many?\n", "How many?"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\x00b\x1b[31mc", "ab[31mc"),
        ("a\tb\n\nc", "a\tb\n\nc"),
        ("half \ud83d of it", "half  of it"),
        ("${1+1} {{x}} <img onerror=x>", "${1+1} {{x}} <img onerror=x>"),
        ("👩\u200d👧 שלום é", "👩\u200d👧 שלום é"),
    ],
)
def test_a_problem_is_kept_letter_for_letter_but_for_control_characters(typed, cleaned):
    assert clean_problem(typed) == cleaned

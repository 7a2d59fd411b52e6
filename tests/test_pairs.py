"""The menu of pairs: what is offered, what strangers may choose, and who is in memory."""

import gc
import weakref
from dataclasses import replace

import pytest

import app
from specguard_core.config import DecodeConfig
from specguard_core.decoder.step import start
from specguard_core.errors import UsageError
from specguard_core.known_pairs import KNOWN_PAIRS
from specguard_core.lm import Models
from specguard_core.presets import preset
from tests.builders import pair, scripted
from viz_app.driving import drive
from viz_app.pairs import BUNDLED, GIGABYTE, Offer, Pairs, made_by, offers_within
from viz_app.requests import refitted
from viz_app.session import Problem, Session, grown, paired
from viz_app.views.pairs import pairs_view
from viz_app.work import Loaded, Pair, Room

HOME = ("folder/one", "folder/two")
SMALL, LARGE = ("org/a", "org/b"), ("org/c", "org/d")
OFFERS = (Offer(SMALL, "small"), Offer(LARGE, "large"))


def models(names: tuple[str, str]) -> Models:
    return pair(scripted(name=names[0]), scripted(name=names[1]))


def page(*, listed_only: bool = True) -> tuple[Pairs, list[tuple[str, str]]]:
    """Pairs with two offers, and the list of what was loaded beside home."""
    loaded = []

    def load(sources):
        loaded.append(sources)
        return Loaded(models(sources), None)

    home = Pair(lambda: Loaded(models(HOME), None), ("one", "two"), HOME)
    return Pairs(home, OFFERS, load, listed_only=listed_only), loaded


def given(*flags: str) -> Pairs:
    return app.pairs_of(app.parser().parse_args(flags), app.loader, None)


def test_every_known_pair_that_fits_is_offered_after_the_one_that_ships():
    assert [offer.sources for offer in offers_within(0)] == [BUNDLED]
    assert len(offers_within(float("inf"))) == len(KNOWN_PAIRS) + 1
    for offer, known in zip(offers_within(float("inf"))[1:], KNOWN_PAIRS, strict=True):
        size = known.weight_bytes("bfloat16")
        assert f"{size / GIGABYTE:.1f} GB" in offer.words
        assert offer in offers_within(size)
        assert offer not in offers_within(size - 1)


def test_strangers_are_offered_what_the_owner_says_and_others_any_pair():
    assert [offer.sources for offer in given("--public").offers] == [BUNDLED]
    assert given("--public").listed_only
    assert len(given("--public", "--offer", "5").offers) > 1
    assert not given().listed_only
    assert len(given().offers) == len(KNOWN_PAIRS) + 1


def test_where_phases_run_in_workers_there_is_one_pair_and_it_is_loaded_before_the_page():
    loaded = []

    def load(_):
        loaded.append("home")
        return Loaded(models(HOME), None)

    pairs = app.pairs_of(app.parser().parse_args([]), load, lambda work, seconds: work)
    assert loaded == ["home"]
    assert pairs.offers == ()
    assert pairs.listed_only


def test_a_stranger_may_choose_an_offer_and_nothing_else():
    pairs, _ = page()
    assert pairs.checked(*SMALL) == SMALL
    assert pairs.checked(*HOME) is None
    for names in (("org/a", "org/d"), ("/etc", "/etc"), ("org/x", "org/y")):
        with pytest.raises(UsageError, match="choose from its menu"):
            pairs.checked(*names)
    for names in ((None, None), ("org/a", ""), (3, 4)):
        with pytest.raises(UsageError, match="name both models"):
            pairs.checked(*names)


def test_at_home_any_name_may_be_chosen():
    pairs, _ = page(listed_only=False)
    assert pairs.checked(" org/x ", "org/y") == ("org/x", "org/y")


def test_the_guest_makes_room_for_the_next_and_looking_moves_nobody():
    pairs, loaded = page()
    home, first = pairs.of(None), pairs.of(SMALL)
    first.get()
    assert pairs.of(SMALL) is first
    assert pairs.seen(LARGE).names == ("c", "d")
    assert pairs.seen(SMALL) is first
    gone = weakref.ref(first)
    del first
    second = pairs.of(LARGE)
    second.get()
    gc.collect()
    assert gone() is None
    assert pairs.of(None) is home
    pairs.of(SMALL).get()
    assert loaded == [SMALL, LARGE, SMALL]


def test_a_run_is_written_by_the_models_that_the_session_chose():
    pairs, _ = page()
    for sources in (None, SMALL):
        session = paired(Session(Problem("2 + 3?"), CONFIG), sources, CONFIG, goes_on=False)
        *_, last = drive(session, "step", pairs.of(session.pair), Room())
        assert last.session.notice is None
        assert last.session.pair == sources
        assert last.session.trace.draft.name == (sources or HOME)[0]


CONFIG = DecodeConfig(weights=(("confidence", 1.0),), max_steps=2, normalisation="fixed")


def test_other_models_start_the_problem_afresh_unless_the_run_is_theirs():
    loaded = models(SMALL)
    info = replace(loaded.draft.info, source="org/a"), replace(loaded.target.info, source="org/b")
    state = start("2 + 3?", loaded, CONFIG)
    trace = replace(state.trace, draft=info[0], target=info[1])
    session = grown(Session(Problem("2 + 3?"), CONFIG), replace(state, trace=trace))
    assert made_by(trace, ("a", "b"))
    assert not made_by(trace, ("a", "c"))
    assert not made_by(None, ("a", "b"))
    assert not made_by(replace(trace, target=None), ("a", "b"))
    kept = paired(session, SMALL, CONFIG, goes_on=True)
    assert (kept.lines, kept.pair) == (session.lines, SMALL)
    fresh = paired(session, LARGE, CONFIG, goes_on=False)
    assert (fresh.lines, fresh.pair, fresh.problem) == ((), LARGE, session.problem)


def test_other_models_begin_with_their_own_preset_where_no_knob_was_turned():
    config = replace(preset("cpu"), seed=7, strategy="specreason")
    read = refitted(config, "cpu", "read")
    assert read == replace(preset("read"), seed=7, strategy="specreason")
    assert refitted(read, "read", "cpu") == config
    turned = replace(config, threshold=0.2)
    assert refitted(turned, "cpu", "read") == turned
    assert given().home.preset == "cpu"
    assert given("--draft", "org/a", "--target", "org/b").home.preset == "read"
    assert page()[0].seen(SMALL).preset == "read"


def test_the_menu_says_which_pair_is_chosen_by_its_name_alone():
    view = pairs_view(SMALL, ("a", "b"), OFFERS, free=False)
    assert [row["chosen"] for row in view["pairs"]] == [True, False]
    assert view["pairs"][1] == {
        "sources": ["org/c", "org/d"],
        "name": "c \u2192 d",
        "text": "large",
        "chosen": False,
    }
    assert not view["at_home"]
    assert pairs_view(None, ("one", "two"), (), free=True)["at_home"]

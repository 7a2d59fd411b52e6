"""A visitor chooses other models: an offer from the menu or, where that is allowed, any by name."""

from collections.abc import Iterator

import pytest
from conftest import Visit
from serving import NO_TOUR, RECITING, served

from specguard_core import bundled


@pytest.fixture(scope="module")
def address(browser_path: str) -> Iterator[str]:
    """The address of a page for strangers, on a pair of its own; the one that ships is offered."""
    with served(RECITING, "--public", "--draft", "org/one", "--target", "org/two") as server:
        yield server.address


def models_of(visit: Visit) -> list[str]:
    return visit.page.locator(".sg-top .pair b").all_inner_texts()


def test_a_stranger_chooses_an_offer_and_no_other(visit):
    page = visit.page
    visit.open()
    assert models_of(visit) == ["one", "two"]
    page.click('[data-key="step"]')
    page.wait_for_selector(".sg-timeline .block")
    visit.idle()
    page.click('[data-key="pair"]')
    rows = page.locator(".sg-top .pairs .row")
    assert rows.count() == 1
    assert page.locator(".sg-top .pairs input").count() == 0
    rows.first.click()
    page.wait_for_function("!document.querySelector('.sg-timeline .block')")
    assert models_of(visit) == [bundled.DRAFT.name, bundled.TARGET.name]
    page.click('[data-key="step"]')
    page.wait_for_selector(".sg-timeline .block")
    visit.idle()
    page.evaluate("SpecGuard.send('setup', { pair: ['org/secret', 'org/other'] })")
    page.wait_for_selector(".sg-top .notice")
    assert "expected models that this page offers" in page.inner_text(".sg-top .notice")
    assert page.locator(".sg-timeline .block").count() == 1
    assert models_of(visit) == [bundled.DRAFT.name, bundled.TARGET.name]
    assert visit.complaints == []


def test_at_home_any_models_can_be_named(page, browser_path):
    page.set_default_timeout(120_000)
    with served(RECITING) as server:
        visit = Visit(page, server.address)
        page.add_init_script(NO_TOUR)
        visit.open()
        page.click('[data-key="pair"]')
        assert page.locator(".sg-top .pairs .row").count() > 5
        page.fill('[data-key="pair draft"]', "own/draft")
        page.fill('[data-key="pair target"]', "own/target")
        page.click('[data-key="pair load"]')
        page.wait_for_function("document.querySelector('.sg-top .pair b')?.textContent === 'draft'")
        assert models_of(visit) == ["draft", "target"]

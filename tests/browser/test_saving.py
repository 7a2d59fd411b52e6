"""What a person saves leaves the page at once, whatever else is under way. The pair is scripted."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import RECITING, served

from viz_app.files import from_file


@pytest.fixture(scope="module")
def address(browser_path: str) -> Iterator[str]:
    """The address of app.py with models that recite."""
    with served(RECITING) as server:
        yield server.address


def test_a_copy_for_the_tab_that_is_slow_to_come_holds_up_no_save(visit):
    page = visit.page
    visit.open()
    page.click('[data-key="step"]')
    page.wait_for_selector(".sg-timeline .block")
    visit.idle()
    page.wait_for_function("sessionStorage.getItem('specguard last run') !== null")
    held = []

    def hold(route):
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/run/**", hold)
    page.evaluate("sessionStorage.clear(); SpecGuard.send('keep')")
    while not held:
        page.wait_for_timeout(50)
    with page.expect_download() as found:
        page.click('[data-key="save"]')
    session = from_file(Path(found.value.path()).read_text("utf-8"))
    assert len(session.trace.steps) == 1
    held[0].continue_()
    page.wait_for_function("sessionStorage.getItem('specguard last run') !== null")
    assert visit.complaints == []

"""A visitor opens what ships without any model: from the empty page, the editor, and by a link."""

from collections.abc import Iterator

import pytest
from serving import RECITING, served

from specguard_core.bundled import RECORDINGS
from viz_app.files import from_file
from viz_app.recordings import read_index

SHIPPED = read_index(RECORDINGS)
LISTED = ".sg-candidates .recordings"


@pytest.fixture(scope="module")
def address(browser_path: str) -> Iterator[str]:
    """The address of a page where no model may work."""
    with served(RECITING, "--read-only") as server:
        yield server.address


def n_units(recording) -> int:
    return len(from_file(recording.open()[0]).trace.units)


def test_an_empty_page_offers_every_run_once_and_opens_the_one_chosen(visit):
    page = visit.page
    visit.open()
    assert page.locator(f"{LISTED} button b").all_inner_texts() == [one.title for one in SHIPPED]
    assert page.locator(".recordings").count() == 1
    last = SHIPPED[-1]
    assert last.sentence in page.inner_text(LISTED)
    page.click(f'{LISTED} [data-key="recording {last.name}"]')
    page.wait_for_selector(".sg-timeline .block")
    assert page.locator(".sg-timeline .label").count() == n_units(last)
    assert "evidence kept" in page.inner_text(".sg-status")
    assert page.locator(LISTED).count() == 0
    page.click('[data-key="reset"]')
    page.wait_for_selector(LISTED)
    assert "evidence kept" not in page.inner_text(".sg-status")
    assert visit.complaints == []


def test_the_editor_of_the_problem_offers_them_too(visit):
    page = visit.page
    visit.open()
    page.click('[data-key="question"]')
    page.click(f'.editor [data-key="recording {SHIPPED[0].name}"]')
    page.wait_for_selector(".sg-timeline .block")
    assert page.locator(".editor").count() == 0
    assert visit.complaints == []


@pytest.mark.parametrize("recording", SHIPPED, ids=lambda one: one.name)
def test_a_link_to_each_opens_it(visit, recording):
    visit.open(f"?example={recording.name}")
    visit.page.wait_for_selector(".sg-timeline .block")
    assert visit.page.locator(".sg-timeline .label").count() == n_units(recording)
    assert visit.complaints == []


OUTSIDE = """() => {
  const strip = document.querySelector(".sg-timeline .plot").getBoundingClientRect();
  return [...document.querySelectorAll(".sg-timeline .caption")].filter((caption) => {
    const box = caption.getBoundingClientRect();
    return box.left < strip.left - 1 || box.right > strip.right + 1;
  }).map((caption) => caption.textContent);
}"""


@pytest.mark.parametrize("recording", SHIPPED, ids=lambda one: one.name)
def test_the_readings_of_every_step_stand_within_the_strip(visit, recording):
    page = visit.page
    page.set_viewport_size({"width": 1280, "height": 900})
    visit.open(f"?example={recording.name}")
    page.wait_for_selector(".sg-timeline .block")
    for step in range(n_units(recording)):
        page.click(f'.sg-timeline [data-key="step {step}"]')
        page.wait_for_selector(f'.sg-timeline [data-key="step {step}"][aria-pressed="true"]')
        page.wait_for_selector(".sg-timeline .caption")
        assert page.evaluate(OUTSIDE) == [], step
    assert visit.complaints == []

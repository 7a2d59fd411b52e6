"""Going on, pausing, going another way, and what stands when something goes wrong.

The pair is scripted, so that every test knows what each step will be; see scripted_page.py.
"""

import json
import re
import socket
from collections.abc import Iterator

import pytest
from conftest import Visit
from serving import NO_TOUR, served

SCRIPTED = ("tests/browser/scripted_page.py",)
POSITION = "document.querySelector('.sg-top .position').textContent"
BRANCH = "document.querySelector('.sg-timeline .axis em')?.textContent"
OUTCOME = "answer 32 gold 32 right first wrong step: 3"
"""Of a whole run: a kept step is wrong, and the answer is right all the same."""


@pytest.fixture(scope="module")
def address(browser_path: str) -> Iterator[str]:
    """The address of the page on the scripted pair."""
    with served(SCRIPTED) as server:
        yield server.address


def free_port() -> str:
    """A port that no other page would take by itself."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def wait(visit: Visit, condition: str) -> None:
    visit.page.wait_for_function(condition)
    visit.idle()


def ask(visit: Visit, order: int) -> None:
    """Choose an example by its place in the list."""
    visit.page.click('[data-key="question"]')
    visit.page.locator(".editor li button").nth(order).click()
    visit.page.wait_for_selector(".sg-problem .question")
    wait(visit, f"{POSITION} === 'ready'")


def run(visit: Visit, end: str = "finished") -> None:
    visit.page.click('[data-key="run"]')
    wait(visit, f"/{end}/.test({POSITION})")


def words(visit: Visit) -> list[str]:
    """What each step of the timeline says became of it."""
    labels = visit.page.locator(".sg-timeline .label")
    return [re.split(r"\s", text.strip())[1] for text in labels.all_inner_texts()]


def test_phase_by_phase_then_back_and_another_way(visit):
    page = visit.page
    visit.open()
    for phase in ("sample", "select", "verify", "commit"):
        page.keyboard.press("Shift+ArrowRight")
        wait(visit, f"document.querySelector('.sg-top .phases .on')?.textContent === '{phase}'")
    assert page.locator(".sg-problem .answer").inner_text().startswith("no answer yet")
    run(visit)
    assert words(visit) == ["accepted", "accepted", "accepted", "fallback", "accepted"]
    assert page.inner_text(".sg-problem .answer").split() == OUTCOME.split()
    page.click('[data-key="step 1"]')
    page.wait_for_function(f"{POSITION}.startsWith('step 2 of 5')")
    page.keyboard.press("f")
    wait(visit, f"{BRANCH} === 'fall back 2'")
    assert words(visit) == ["accepted", "forced"]
    assert page.locator(".sg-timeline .remark").get_attribute("title") == "branches here: from main"
    run(visit)
    assert "with 1 step forced" in page.inner_text(".sg-problem .answer")
    page.keyboard.press("2")
    page.click('[data-key="branch main"]')
    page.wait_for_function(f"{BRANCH} === 'main'")
    title = page.locator(".sg-timeline .remark").get_attribute("title")
    assert title == "branches here: fall back 2"
    assert len(words(visit)) == 5
    assert visit.complaints == []


def test_a_persons_text_stands_for_a_step_and_the_models_go_on_from_it(visit):
    page = visit.page
    visit.open()
    run(visit)
    page.click('[data-key="step 2"]')
    page.wait_for_function(f"{POSITION}.startsWith('step 3 of 5')")
    page.keyboard.press("e")
    assert page.input_value('[data-key="step text"]') == "47 - 15 = 33."
    page.fill('[data-key="step text"]', "  ")
    page.keyboard.press("Enter")
    page.wait_for_selector(".sg-top .notice")
    assert "write something" in page.inner_text(".sg-top .notice")
    page.fill('[data-key="step text"]', "47 - 15 = 32 \U0001f34e.")
    page.keyboard.press("Enter")
    wait(visit, f"{BRANCH} === 'edit 3'")
    assert page.locator(".step-editor").count() == 0
    assert words(visit) == ["accepted", "accepted", "edited"]
    assert "\U0001f34e" in page.inner_text(".sg-evidence .chips")
    assert "your step" in page.inner_text(".sg-evidence .head")
    page.keyboard.press("ArrowRight")
    wait(visit, "document.querySelectorAll('.sg-timeline .block').length === 4")
    assert "\U0001f34e" in page.inner_text(".sg-evidence .context")
    assert visit.complaints == []


def test_the_targets_view_of_a_step_is_one_click(visit):
    page = visit.page
    visit.open()
    run(visit)
    ledger = page.inner_text(".sg-tables .total")
    page.click('[data-key="step 2"]')
    page.wait_for_function(f"{POSITION}.startsWith('step 3 of 5')")
    button = page.locator('.sg-evidence [data-key="colour tokens by target"]')
    assert "one target pass" in button.get_attribute("title")
    button.click()
    page.wait_for_function(
        "SpecGuard.views.evidence.tokens.every(token => token.target.includes('nat'))"
    )
    assert button.get_attribute("aria-checked") == "true"
    assert page.inner_text(".sg-tables .total") == ledger
    assert "1 target pass to look" in page.inner_text(".sg-status")
    assert visit.complaints == []


BREAKPOINTS = [
    ("fallback", None, "step 4, paused: the target wrote it"),
    ("margin", "0.05", "step 3, paused: score within 0.05 of the threshold"),
    ("score", "0.6", "step 3, paused: score below 0.6"),
    ("confidence", "0.6", "step 3, paused: confidence below 0.6"),
    ("grounding", "0.5", "step 1, paused: grounding below 0.5"),
    ("clusters", None, "step 2, paused: two clusters or more"),
    ("equation", None, "step 3, paused: a wrong equation"),
    ("pattern", r"\d+ \+ 24", "step 2, paused: text matches"),
    ("step", "2", "step 2, paused: step number 2"),
    ("answer", None, "step 5 of 5, finished"),
]


def test_each_kind_of_breakpoint_holds_under_run(visit):
    page = visit.page
    visit.open()
    for kind, value, expected in BREAKPOINTS:
        page.click('[data-key="run to"]')
        if value is not None:
            page.fill(f'[data-key="value {kind}"]', value)
        page.click(f'[data-key="break {kind}"]')
        page.wait_for_selector('[data-key="arm 0"]')
        page.keyboard.press("Escape")
        run(visit, "paused|finished")
        assert page.inner_text(".sg-top .position").startswith(expected), kind
        assert page.locator(".sg-timeline .label .hit:not(.armed)").count() == 1
        page.click('[data-key="reset"]')
        page.wait_for_function("!document.querySelector('.sg-timeline .block')")
        page.click('[data-key="run to"]')
        page.click('[data-key="unbreak 0"]')
        page.wait_for_function("!document.querySelector('[data-key=\"arm 0\"]')")
        page.keyboard.press("Escape")
    assert visit.complaints == []


def test_run_to_a_step_to_the_next_breakpoint_and_past_one_that_is_off(visit):
    page = visit.page
    visit.open()
    page.click('[data-key="run to"]')
    page.fill('[data-key="run to step number"]', "2")
    page.keyboard.press("Enter")
    wait(visit, f"{POSITION} === 'step 2, paused: step 2 reached'")
    page.keyboard.press("b")
    page.wait_for_selector(".sg-timeline .label .hit")
    page.keyboard.press("Home")
    page.wait_for_selector(".sg-timeline .label .hit.armed")
    page.click('[data-key="run"]')
    page.wait_for_selector(".sg-timeline .label .hit:not(.armed)")
    assert page.inner_text(".sg-top .position").startswith("step 2")
    page.click('[data-key="run to"]')
    page.click('[data-key="break fallback"]')
    page.wait_for_selector('[data-key="arm 1"]')
    page.click('[data-key="arm 1"]')
    page.wait_for_selector('[data-key="arm 1"][aria-checked=false]')
    page.keyboard.press("Escape")
    run(visit)
    assert page.locator(".sg-timeline .label .hit").count() == 1
    assert visit.complaints == []


def test_the_keyboard_alone_steps_goes_back_forces_names_and_notes(visit):
    page = visit.page
    visit.open()
    for count in range(1, 6):
        page.keyboard.press("ArrowRight")
        wait(visit, f"document.querySelectorAll('.sg-timeline .block').length === {count}")
    assert page.inner_text(".sg-problem .answer").split() == OUTCOME.split()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"{POSITION} === 'step 4 of 5, finished'")
    page.keyboard.press("f")
    wait(visit, f"{BRANCH} === 'accept 4'")
    page.keyboard.press("F2")
    page.keyboard.type("main")
    page.keyboard.press("Enter")
    page.wait_for_selector(".sg-top .notice")
    assert "of another branch" in page.inner_text(".sg-top .notice")
    page.keyboard.press("F2")
    page.keyboard.type("who knows")
    page.keyboard.press("Enter")
    page.wait_for_function(f"{BRANCH} === 'who knows'")
    page.keyboard.press("n")
    page.keyboard.type("Why did I keep this?")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector('[data-key="note who knows 3"]')
    assert "Why did I keep this?" in page.locator(".remark[title^=note]").get_attribute("title")
    page.keyboard.press("Home")
    page.wait_for_function(f"{POSITION} === 'before step 1'")
    page.keyboard.press("?")
    assert "new name for the branch" in page.inner_text(".sg-help")
    page.keyboard.press("Escape")
    assert visit.complaints == []


def test_a_run_that_is_stopped_goes_on_and_one_that_is_left_can_be_taken_up(visit):
    page = visit.page
    visit.open()
    ask(visit, 1)
    page.keyboard.press("Space")
    page.wait_for_selector(".sg-timeline .block.accepted, .sg-timeline .block.fallback")
    height = page.evaluate("document.querySelector('.sg-timeline').offsetHeight")
    page.keyboard.press("Escape")
    visit.idle()
    kept = len(words(visit))
    assert page.inner_text(".sg-problem .answer").startswith("no answer yet")
    page.keyboard.press("Space")
    page.wait_for_function(f"document.querySelectorAll('.label .word').length > {kept}")
    assert page.evaluate("document.querySelector('.sg-timeline').offsetHeight") == height
    page.wait_for_function("sessionStorage.getItem('specguard last run') !== null")
    assert visit.complaints == []
    page.reload()
    page.wait_for_selector(".sg-timeline .block")
    # A reload cuts a stream of gradio's in the middle, and gradio's own code says so.
    visit.complaints.clear()
    assert len(words(visit)) >= kept
    page.keyboard.press("ArrowRight")
    wait(visit, f"document.querySelectorAll('.sg-timeline .block').length > {kept}")
    assert visit.complaints == []


def test_out_of_memory_is_one_sentence_and_the_next_press_goes_on(visit):
    page = visit.page
    visit.open()
    ask(visit, 2)
    page.keyboard.press("Space")
    page.wait_for_selector(".sg-top .notice")
    visit.idle()
    assert "out of memory" in page.inner_text(".sg-top .notice")
    assert page.locator(".sg-timeline .block").count() == 2
    with page.expect_download() as download:
        page.click('[data-key="save"]')
    assert len(json.loads(download.value.path().read_text("utf-8"))["branches"]) == 1
    run(visit)
    assert page.inner_text(".sg-problem .answer").split() == OUTCOME.split()


def test_a_second_tab_has_the_run_and_goes_its_own_way(visit):
    page = visit.page
    visit.open()
    page.keyboard.press("ArrowRight")
    wait(visit, "document.querySelectorAll('.sg-timeline .block').length === 1")
    page.wait_for_function("sessionStorage.getItem('specguard last run') !== null")
    with page.expect_popup() as opened:
        page.evaluate("window.open(location.href)")
    second = Visit(opened.value, visit.address)
    second.page.set_default_timeout(120_000)
    second.page.wait_for_selector(".sg-timeline .block")
    second.page.keyboard.press("ArrowRight")
    wait(second, "document.querySelectorAll('.sg-timeline .block').length === 2")
    assert page.locator(".sg-timeline .block").count() == 1
    page.keyboard.press("Space")
    wait(visit, f"{POSITION}.endsWith('finished')")
    assert second.page.locator(".sg-timeline .block").count() == 2
    assert visit.complaints == []


def test_a_lost_server_is_told_and_the_run_outlives_it(page, browser_path):
    page.set_default_timeout(120_000)
    page.add_init_script(NO_TOUR)
    port = free_port()
    with served(SCRIPTED, "--port", port) as server:
        visit = Visit(page, server.address)
        visit.open()
        run(visit)
        page.wait_for_function("sessionStorage.getItem('specguard last run') !== null")
        labels = words(visit)
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".sg-offline")
    assert "cannot be reached" in page.inner_text(".sg-offline")
    assert words(visit) == labels
    with page.expect_download() as download:
        page.click('[data-key="save"]')
    saved = json.loads(download.value.path().read_text("utf-8"))
    assert len(saved["branches"][0]["trace"]["units"]) == 5
    with served(SCRIPTED, "--port", port):
        page.wait_for_selector(".sg-offline", state="detached")
        page.wait_for_selector(".sg-timeline .block")
        assert words(visit) == labels
        page.keyboard.press("Home")
        page.wait_for_function(f"{POSITION} === 'before step 1'")

"""Judging a recorded run by other knobs, going another way from it, and keeping it."""

import json


def run_to_the_end(visit) -> None:
    visit.page.click('[data-key="run"]')
    visit.page.wait_for_function(
        "document.querySelector('.sg-top .position').textContent.endsWith('finished')"
    )
    visit.idle()


def flip_something(page) -> None:
    """Turn the threshold to the end at which some verdict goes the other way."""
    refused = page.locator(".sg-timeline .label .refused").count() > 0
    page.evaluate("value => SpecGuard.turn('threshold', value)", 0 if refused else 1.01)
    page.wait_for_selector(".sg-knobs .flips [data-key^='flip ']")


def test_a_threshold_flips_verdicts_and_what_follows_is_stale_until_it_is_set_back(visit):
    page = visit.page
    visit.open()
    run_to_the_end(visit)
    text = page.inner_text(".sg-timeline .texts")
    flip_something(page)
    page.wait_for_selector(".sg-timeline .handle.turned")
    assert page.locator(".sg-timeline .flips-word").count() == 1
    assert "flip" in page.inner_text(".sg-knobs .flips h3")
    assert page.inner_text(".sg-timeline .texts") == text
    page.click('[data-key="knobs reset"]')
    page.wait_for_selector(".sg-timeline .handle:not(.turned)")
    assert page.locator(".sg-timeline .block.stale").count() == 0
    assert visit.complaints == []


def test_a_rerun_from_the_flip_is_a_branch_and_the_first_run_stands(visit):
    page = visit.page
    visit.open()
    run_to_the_end(visit)
    before = page.inner_text(".sg-timeline .labels")
    flip_something(page)
    page.click('[data-key="rerun"]')
    page.wait_for_function(
        "document.querySelector('.sg-timeline .axis em')?.textContent.startsWith('re-run')"
    )
    visit.idle()
    page.click('[data-key="tab tree"]')
    assert page.locator(".sg-tables .tree-table li").count() == 2
    page.click('[data-key="branch main"]')
    page.wait_for_function(
        "document.querySelector('.sg-timeline .axis em')?.textContent === 'main'"
    )
    assert page.inner_text(".sg-timeline .labels") == before
    assert visit.complaints == []


def test_a_saved_session_loads_in_another_visit(visit, tmp_path):
    page = visit.page
    visit.open()
    run_to_the_end(visit)
    labels = page.inner_text(".sg-timeline .labels")
    with page.expect_download() as download:
        page.click('[data-key="save"]')
    path = tmp_path / "session.json"
    download.value.save_as(path)
    assert json.loads(path.read_text("utf-8"))["kind"] == "session"
    page.click('[data-key="reset"]')
    page.wait_for_function("!document.querySelector('.sg-timeline .block')")
    with page.expect_file_chooser() as chooser:
        page.click('[data-key="load"]')
    chooser.value.set_files(path)
    page.wait_for_selector(".sg-timeline .block")
    assert page.inner_text(".sg-timeline .labels") == labels
    assert visit.complaints == []


def test_a_reload_keeps_the_last_run(visit):
    page = visit.page
    visit.open()
    page.click('[data-key="step"]')
    page.wait_for_selector(".sg-timeline .block.accepted, .sg-timeline .block.fallback")
    visit.idle()
    page.wait_for_function("sessionStorage.getItem('specguard last run') !== null")
    labels = page.inner_text(".sg-timeline .labels")
    page.reload()
    page.wait_for_selector(".sg-timeline .block")
    assert page.inner_text(".sg-timeline .labels") == labels
    assert visit.complaints == []


def test_a_broken_file_is_one_sentence_and_the_run_stays(visit, tmp_path):
    page = visit.page
    visit.open()
    page.click('[data-key="step"]')
    page.wait_for_selector(".sg-timeline .block.accepted, .sg-timeline .block.fallback")
    visit.idle()
    path = tmp_path / "broken.json"
    path.write_text('{"kind": "trace", "<script>": 1', "utf-8")
    with page.expect_file_chooser() as chooser:
        page.click('[data-key="load"]')
    chooser.value.set_files(path)
    page.wait_for_selector(".sg-top .notice")
    assert "expected a JSON file" in page.inner_text(".sg-top .notice")
    assert page.locator(".sg-timeline .block").count() == 1


def test_the_keyboard_alone_steps_looks_and_forces(visit):
    page = visit.page
    visit.open()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".sg-timeline .block.accepted, .sg-timeline .block.fallback")
    visit.idle()
    page.keyboard.press("]")
    chosen = page.get_attribute(".sg-evidence .chip-token[aria-pressed=true]", "data-key")
    page.keyboard.press("[")
    assert page.get_attribute(".sg-evidence .chip-token[aria-pressed=true]", "data-key") != chosen
    page.keyboard.press("f")
    page.wait_for_function(
        "document.querySelector('.sg-timeline .label .word')?.textContent.startsWith('forced')"
    )
    visit.idle()
    page.keyboard.press("3")
    assert page.locator(".sg-tables .compare tbody tr").count() == 1
    page.keyboard.press("2")
    assert page.locator(".sg-tables .tree-table li").count() == 2
    assert visit.complaints == []


def test_the_example_opens_at_once_and_shows_which_threshold_catches_its_wrong_step(visit):
    page = visit.page
    visit.open()
    page.locator("[data-key='recording example']").first.click()
    page.wait_for_selector(".sg-timeline .block")
    assert page.locator(".sg-problem .wrong").count() == 1
    page.evaluate("SpecGuard.turn('threshold', 0.75)")
    page.wait_for_selector(".sg-timeline .flips-word")
    page.click(".sg-knobs .flips [data-key^='flip ']")
    page.wait_for_selector(".sg-timeline .label.on .flips-word")
    assert page.inner_text(".sg-why .verdict strong") == "Accepted"
    page.click('.sg-why .segments button:has-text("What-if")')
    assert page.inner_text(".sg-why .verdict strong") == "Refused"
    assert visit.complaints == []

"""A page that is served to others: read-only, one queue for the models, a session that expired."""

from conftest import Visit
from serving import APP, NO_TOUR, RECITING, ROOT, served

POSITION = "document.querySelector('.sg-top .position')?.textContent"
SLOW = "Slowly! Ana has 23 coins and 4 bags of 6. She gives 15 away. How many are left?"


def visitor(browser, address: str) -> Visit:
    """Another person's browser on the page."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_init_script(NO_TOUR)
    page = context.new_page()
    page.set_default_timeout(120_000)
    visit = Visit(page, address)
    page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    visit.open()
    return visit


def ask(visit: Visit, question: str) -> None:
    visit.page.click('[data-key="question"]')
    visit.page.fill(".sg-problem textarea", question)
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_function(
        "text => document.querySelector('.sg-problem .question')?.textContent.startsWith(text)",
        arg=question,
    )


def test_a_read_only_page_opens_its_trace_and_judges_it_but_lets_no_model_work(browser):
    trace = str(ROOT / "assets" / "traces" / "example.json")
    with served(RECITING, "--read-only", "--trace", trace) as server:
        page = (visit := visitor(browser, server.address)).page
        page.wait_for_selector(".sg-timeline .block")
        assert page.locator(".sg-timeline .label").count() == 6
        # The evidence file beside the trace lets rollout knobs turn.
        assert page.get_attribute('[data-key="knob sparsify"]', "aria-disabled") == "false"
        assert page.is_disabled('[data-key="redraw"]')
        assert "read-only" in page.get_attribute('[data-key="redraw"]', "title")
        page.evaluate("SpecGuard.turn('threshold', 0.75)")
        page.wait_for_selector(".sg-knobs .flips [data-key^='flip ']")
        assert page.is_disabled('[data-key="rerun"]')
        page.keyboard.press("r")
        assert page.inner_text(".sg-top .notice").startswith("This page is read-only")
        page.click('[data-key="reset"]')
        page.wait_for_function("!document.querySelector('.sg-timeline .block')")
        assert page.is_disabled('[data-key="step"]')
        assert "read-only" in page.get_attribute('[data-key="step"]', "title")
        assert "read-only" in page.inner_text(".sg-status .models")
        assert visit.complaints == []
        page.context.close()


def test_the_queue_says_ones_place_and_a_full_one_is_a_sentence(browser):
    with served(RECITING, "--queue", "1") as server:
        first, second, third = (visitor(browser, server.address) for _ in range(3))
        ask(first, SLOW)
        first.page.click('[data-key="run"]')
        first.page.wait_for_function(f"/token/.test({POSITION})")
        second.page.click('[data-key="step"]')
        second.page.wait_for_function(f"{POSITION} === '2nd in the queue'")
        third.page.click('[data-key="step"]')
        third.page.wait_for_selector(".sg-top .notice")
        assert "try again in a minute" in third.page.inner_text(".sg-top .notice")
        assert third.page.is_enabled('[data-key="step"]')
        assert second.page.locator(".sg-timeline .block").count() == 0
        first.page.keyboard.press("Escape")
        second.page.wait_for_selector(".sg-timeline .block")
        second.idle()
        third.page.click('[data-key="step"]')
        third.page.wait_for_selector(".sg-timeline .block")
        for visit in (first, second, third):
            assert visit.complaints == []
            visit.page.context.close()


def test_a_session_that_the_server_forgot_is_put_back_from_the_tab(browser):
    with served(RECITING, "--idle", "8") as server:
        page = (visit := visitor(browser, server.address)).page
        page.click('[data-key="step"]')
        page.wait_for_selector(".sg-timeline .block")
        visit.idle()
        page.wait_for_function("sessionStorage.getItem('specguard last run') !== null")
        labels = page.inner_text(".sg-timeline .labels")
        page.wait_for_timeout(11_000)
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(".sg-top .notice")
        assert "the tab's own copy stands here again" in page.inner_text(".sg-top .notice")
        assert page.inner_text(".sg-timeline .labels") == labels
        assert visit.complaints == []
        page.context.close()


def test_a_new_server_under_an_open_page_puts_the_run_back_and_says_so_once(browser):
    with served(RECITING) as server:
        page = (visit := visitor(browser, server.address)).page
        page.click('[data-key="step"]')
        page.wait_for_selector(".sg-timeline .block")
        visit.idle()
        page.wait_for_function("sessionStorage.getItem('specguard last run') !== null")
        labels = page.inner_text(".sg-timeline .labels")
        port = str(server.port)
    with served(RECITING, "--port", port):
        page.keyboard.press("Home")
        page.wait_for_selector(".sg-top .notice")
        assert "the tab's own copy stands here again" in page.inner_text(".sg-top .notice")
        assert page.inner_text(".sg-timeline .labels") == labels
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.querySelectorAll('.sg-timeline .block').length === 2")
        visit.idle()
        page.reload()
        page.wait_for_function("document.querySelectorAll('.sg-timeline .block').length === 2")
        assert page.locator(".sg-top .notice").count() == 0
        page.context.close()


def test_an_uncalibrated_pair_is_calibrated_from_the_page(browser, tmp_path):
    lines = (ROOT / "assets/problems/abacus-calibration.jsonl").read_text("utf-8").splitlines()
    problems = tmp_path / "few.jsonl"
    problems.write_text("\n".join(lines[:8]), "utf-8")
    with served(APP, "--calibration", "none") as server:
        page = (visit := visitor(browser, server.address)).page
        page.click('[data-key="step"]')
        page.wait_for_selector(".sg-knobs .calibration")
        visit.idle()
        assert "uncalibrated" in page.inner_text(".sg-why .sum")
        labels = page.inner_text(".sg-timeline .labels")
        with page.expect_file_chooser() as chooser:
            page.click('[data-key="calibrate file"]')
        chooser.value.set_files(problems)
        page.wait_for_selector(".sg-knobs .calibrated")
        visit.idle()
        assert "calibrated here: 8 problems" in page.inner_text(".sg-knobs .calibrated")
        assert page.locator(".sg-knobs .calibration").count() == 0
        assert page.inner_text(".sg-timeline .labels").split()[:3] == labels.split()[:3]
        page.click('[data-key="reset"]')
        page.wait_for_function("!document.querySelector('.sg-timeline .block')")
        page.click('[data-key="step"]')
        page.wait_for_selector(".sg-why .sum")
        visit.idle()
        assert "uncalibrated" not in page.inner_text(".sg-why .sum")
        assert visit.complaints == []
        page.context.close()

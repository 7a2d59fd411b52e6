"""A person steps a real problem to its answer, in a real browser, on the bundled pair."""

import re

import pytest
from contrast import CONTRAST
from serving import NO_TOUR


def blocks(page) -> int:
    return page.locator(".sg-timeline .block").count()


def position(page) -> str:
    return page.inner_text(".sg-top .position")


def press_step(visit) -> None:
    before = position(visit.page)
    visit.page.click('[data-key="step"]')
    visit.page.wait_for_function(
        "before => { const top = document.querySelector('.sg-top');"
        "const position = top.querySelector('.position').textContent;"
        "return !top.classList.contains('running') && !top.querySelector('.notice') &&"
        "position !== before && !position.startsWith('waiting') }",
        arg=before,
    )


def test_a_problem_is_stepped_to_its_answer(visit):
    page = visit.page
    visit.open()
    assert position(page) == "ready"
    for count in range(1, 20):
        press_step(visit)
        assert blocks(page) == count
        if "finished" in position(page):
            break
    assert page.inner_text(".sg-problem .answer").split()[-1] in ("right", "wrong")
    assert page.is_disabled('[data-key="step"]')
    assert page.inner_text(".sg-why .verdict strong") in ("Accepted", "Refused")
    assert page.locator(".sg-candidates .card").count() >= 1
    assert page.locator(".sg-evidence .chip-token").count() >= 5
    assert visit.complaints == []
    assert visit.outside == []


def test_the_page_is_painted_before_any_model_is_loaded(visit):
    page = visit.page
    first_status = []
    page.on("console", lambda message: first_status.append(message.text))
    page.add_init_script(
        "new MutationObserver((_, watch) => { const line = document.querySelector('.sg-status');"
        "if (line && line.children.length) { console.log('status: ' + line.textContent);"
        "watch.disconnect(); } }).observe(document, { childList: true, subtree: true });"
    )
    visit.open()
    said = [text for text in first_status if text.startswith("status: ")]
    assert said
    assert "models" in said[0]


def test_going_back_calls_no_model_and_shows_the_earlier_step(visit):
    page = visit.page
    visit.open()
    press_step(visit)
    press_step(visit)
    cost = page.inner_text(".sg-tables .total")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        "document.querySelector('.sg-top .position').textContent.startsWith('step 1')"
    )
    assert blocks(page) == 2
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "document.querySelector('.sg-top .position').textContent.startsWith('step 2')"
    )
    assert page.inner_text(".sg-tables .total") == cost
    assert visit.complaints == []


def test_phase_by_phase_more_becomes_known(visit):
    page = visit.page
    visit.open()
    for phase in ("sample", "select", "verify", "commit"):
        page.click('[data-key="phase"]')
        page.wait_for_function(
            "phase => document.querySelector('.sg-top .phases .on')?.textContent === phase",
            arg=phase,
        )
        visit.idle()
    assert page.locator(".sg-why .sum").count() == 1


def test_a_token_shows_its_attribution_and_alternatives_without_the_server(visit):
    page = visit.page
    visit.open()
    press_step(visit)
    page.route("**/gradio_api/**", lambda route: route.abort())
    page.locator(".sg-evidence .chip-token").nth(2).click()
    chosen = page.text_content(".sg-evidence .chip-token[aria-pressed=true]")
    assert page.text_content(".sg-evidence .popover .tag") == chosen
    assert page.locator(".sg-evidence .popover tbody tr").count() >= 2
    assert re.search(r"draws 0\.\d{3} from here", page.inner_text(".sg-evidence .context .caption"))
    page.click('.segments button:has-text("Entropy")')
    assert page.get_attribute('.segments button:has-text("Entropy")', "aria-checked") == "true"


@pytest.mark.case(24)
def test_a_typed_problem_is_shown_letter_for_letter(visit):
    page = visit.page
    visit.open()
    hostile = "${1+1} <img src=x onerror=alert(1)> {{x}} has 2 + 3 coins. How many?"
    page.click('[data-key="question"]')
    page.fill(".sg-problem textarea", hostile)
    page.keyboard.press("Enter")
    page.wait_for_function(
        "text => document.querySelector('.sg-problem .question')?.textContent === text", arg=hostile
    )
    press_step(visit)
    shown = page.inner_text(".sg-evidence .rows").replace("\n", " ")
    assert "${1+1} <img src=x onerror=alert(1)> {{x}}" in re.sub(r"\s+", " ", shown)
    assert page.locator(".sg img").count() == 0
    assert visit.complaints == []


@pytest.mark.case(23)
def test_two_visitors_do_not_see_each_other(visit, browser):
    visit.open()
    press_step(visit)
    context = browser.new_context()
    context.add_init_script(NO_TOUR)
    other = context.new_page()
    other.set_default_timeout(120_000)
    other.goto(visit.address)
    other.wait_for_selector(".sg-top .transport")
    assert blocks(other) == 0
    other.click('[data-key="question"]')
    other.locator(".editor li button", has_text="Every day Rosa").click()
    other.wait_for_function("!document.querySelector('.editor')")
    press_step(visit)
    assert blocks(visit.page) == 2
    assert blocks(other) == 0
    context.close()


@pytest.mark.parametrize("width", [1280, 1440, 1920])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_and_nothing_scrolls_sideways(visit, width, theme):
    page = visit.page
    page.set_viewport_size({"width": width, "height": 1000})
    visit.open(f"?__theme={theme}")
    press_step(visit)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate(_WEAK_TEXT) == []


# Every text of the page against the ground it stands on; WCAG 2 contrast, 4.5 : 1.
_WEAK_TEXT = (
    f"() => {{{CONTRAST}"
    """
  const weak = [];
  const root = document.getElementById("sg-page");
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const box = element.getBoundingClientRect();
    if (!node.textContent.trim() || !box.width || !box.height) continue;
    const style = getComputedStyle(element);
    const faint = parseFloat(style.fontSize) < 1 || parseFloat(style.opacity) < 1;
    if (element.closest("svg") || faint) continue;
    const ratio = contrast(style.color, element);
    const text = node.textContent.slice(0, 30);
    if (ratio < 4.5) weak.push(`${ratio.toFixed(2)} ${element.className} ${text}`);
  }
  return weak;
}"""
)

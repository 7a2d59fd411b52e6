"""Why a step was trusted, on the page: tokens, target, candidates, thresholds, in both themes."""

import re

import pytest
from contrast import CONTRAST


def open_example(visit, query: str = "") -> None:
    visit.open(query)
    if not visit.page.locator(".sg-timeline .block").count():
        visit.page.locator("[data-key='recording example']").first.click()
    visit.page.wait_for_selector(".sg-timeline .block")


def go_to(page, step: int) -> None:
    page.locator(".sg-timeline .label").nth(step - 1).click()
    page.wait_for_selector(f".sg-timeline .label:nth-child({step}).on")


def test_a_newcomer_finds_the_wrong_step_its_token_and_the_threshold_that_catches_it(visit):
    page = visit.page
    open_example(visit)
    assert page.locator(".sg-problem .wrong").count() == 1
    page.click('[data-key="tab thresholds"]')
    page.wait_for_selector(".sg-tables .thresholds .area")
    assert "1 of 1 wrong ones let through" in page.inner_text(".sg-tables .words")
    page.click('[data-key="catch all"]')
    page.wait_for_selector(".sg-timeline .flips-word")
    assert "0 of 1 wrong ones let through" in page.inner_text(".sg-tables .words")
    page.click(".sg-knobs .flips [data-key^='flip ']")
    page.wait_for_selector(".sg-timeline .label.on .flips-word")
    page.locator(".sg-why .decided button").last.click()
    assert page.locator(".sg-evidence .chip-token[aria-pressed=true]").count() == 1
    # The plot is a slider: the arrow keys go on from where the click left it.
    page.focus('[data-key="thresholds plot"]')
    before = page.inner_text(".sg-tables .words h3")
    page.keyboard.press("Shift+ArrowRight")
    page.wait_for_function(
        "before => document.querySelector('.sg-tables .words h3').innerText !== before", arg=before
    )
    assert visit.complaints == []


def test_tokens_out_of_the_minimum_are_hollow_and_the_heatmap_goes_down_to_single_tokens(visit):
    page = visit.page
    open_example(visit)
    go_to(page, 4)
    hollow = page.locator(".sg-evidence .chip-token.left-out")
    assert hollow.count() > 0
    hollow.first.click()
    assert "in no minimum" in page.inner_text(".sg-evidence .popover")
    page.click('.sg-evidence [data-key="mass by token"]')
    rows = page.locator(".sg-evidence .heat-rows .heat-row")
    assert rows.count() > 10
    assert re.search(r"\d+ of \d+ context tokens|whole", page.inner_text(".sg-evidence .count"))
    page.locator(".sg-evidence .heat-rows .heat-row.peak span").nth(2).click()
    assert page.locator(".sg-evidence .context .lit").count() == 1
    assert page.locator(".sg-evidence .chip-token[aria-pressed=true]").count() == 1
    assert visit.complaints == []


def test_another_cut_regroups_the_draws_and_another_candidate_is_chosen_on_a_branch(visit):
    page = visit.page
    open_example(visit)
    go_to(page, 4)
    clusters = page.locator(".sg-candidates .hull").count()
    page.fill('[data-key="cut"]', "0.05")
    page.keyboard.press("Tab")
    page.wait_for_selector(".sg-candidates .as-set")
    assert page.locator(".sg-candidates .hull").count() == 1 < clusters
    page.click('[data-key="knobs reset"]')
    page.wait_for_selector(".sg-candidates .as-set", state="detached")
    page.click(".sg-candidates .node:not(.on)")
    page.wait_for_selector('[data-key="choose"]')
    page.click('[data-key="choose"]')
    page.wait_for_function(
        "document.querySelector('.sg-timeline .axis em')?.textContent.startsWith('choice')"
    )
    visit.idle()
    assert visit.complaints == []


def test_the_target_s_view_is_asked_for_once_and_shows_where_the_two_disagree(visit):
    page = visit.page
    open_example(visit)
    go_to(page, 4)
    target = page.locator('.sg-evidence [data-key="colour tokens by target"]')
    assert "one target pass" in target.get_attribute("title")
    target.click()
    page.wait_for_selector(".sg-evidence .apart:not([hidden])")
    visit.idle()
    assert "Target\u2019s least" in page.inner_text(".sg-evidence .apart")
    assert page.locator(".sg-evidence .curve.log-prob polyline.target").count() >= 1
    assert page.locator(".sg-evidence [class*='split-']").count() > 0
    page.locator(".sg-evidence .apart button").last.click()
    assert "target" in page.inner_text(".sg-evidence .popover .aside")
    assert visit.complaints == []


def test_the_raw_trace_unfolds_where_it_is_asked(visit):
    page = visit.page
    open_example(visit)
    page.keyboard.press("7")
    page.click('[data-key="raw /units"]')
    page.click('[data-key="raw /units/0"]')
    page.wait_for_selector('[data-key="raw /units/0/candidates"]')
    assert page.get_attribute('li:has(> [data-key="raw /units"])', "aria-expanded") == "true"
    assert visit.complaints == []


@pytest.mark.parametrize(
    ("theme", "width", "height"), [("dark", 1280, 960), ("light", 1440, 900), ("dark", 390, 844)]
)
def test_every_panel_can_be_read_and_nothing_is_cut(visit, theme, width, height):
    page = visit.page
    page.set_viewport_size({"width": width, "height": height})
    open_example(visit, f"?__theme={theme}")
    go_to(page, 4)
    page.evaluate("SpecGuard.turn('threshold', 0.75)")
    page.wait_for_selector(".sg-timeline .handle.turned")
    for tab in ("thresholds", "raw", "tree", "compare", "log", "notes"):
        page.click(f'[data-key="tab {tab}"]')
        if tab in ("thresholds", "raw"):
            page.wait_for_selector(f".sg-tables .{tab}")
        assert page.evaluate(WEAK_TEXT) == [], tab
    page.click('.sg-evidence [data-key="mass by token"]')
    assert page.evaluate(WEAK_TEXT) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate(CUT_TEXT) == []
    assert page.evaluate(NAMELESS) == []
    assert visit.complaints == []


# Text whose box is too small for it and that no ellipsis, scroll bar or title makes up for.
CUT_TEXT = """() => [...document.querySelectorAll("#sg-page *")].filter((element) => {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const style = getComputedStyle(element);
  if (!own || element.closest("svg, [hidden], details:not([open]) .sheet, select")) return false;
  if (!element.offsetWidth || parseFloat(style.fontSize) < 1) return false;
  const hidden = style.overflowX === "hidden" && style.textOverflow !== "ellipsis";
  return hidden && element.scrollWidth > element.clientWidth + 1 && !element.closest("[title]");
}).map((element) => `${element.className} ${element.textContent.slice(0, 40)}`)"""

# Things that can be worked but have no name a screen reader could say.
NAMELESS = """() => [...document.querySelectorAll(
  "#sg-page button, #sg-page [role=slider], #sg-page [role=button], #sg-page select, #sg-page input"
)].filter((element) => {
  const label = element.closest("label");
  const own = element.getAttribute("aria-label") || element.title || element.textContent.trim();
  return !own && !(label && label.textContent.trim());
}).map((element) => element.outerHTML.slice(0, 80))"""

# Every text of the page against the ground it stands on; WCAG 2 contrast, 4.5 : 1.
WEAK_TEXT = (
    f"() => {{{CONTRAST}"
    """
  const weak = new Set();
  const root = document.getElementById("sg-page");
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const box = element.getBoundingClientRect();
    if (!node.textContent.trim() || !box.width || !box.height) continue;
    const style = getComputedStyle(element);
    const faint = parseFloat(style.fontSize) < 1 || element.closest("button:disabled, .icon");
    if (faint || style.visibility === "hidden") continue;
    const paint = element.closest("svg") ? style.fill : style.color;
    if (!/\\d/.test(paint)) continue;
    const ratio = contrast(paint, element);
    const name = element.getAttribute("class") || element.tagName;
    if (ratio < 4.5) weak.add(`${ratio.toFixed(2)} ${name} ${node.textContent.slice(0, 30)}`);
  }
  return [...weak];
}"""
)

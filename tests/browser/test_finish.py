"""What a person sees at a glance: whole names, words inside their panel, each notice, each mark."""

import pytest
from test_blocks import choose_strategy, finish

WIDTHS = [1280, 1440, 1920]


def open_example(visit, query: str = "") -> None:
    visit.open(f"?example=example{query}")
    visit.page.wait_for_selector(".sg-timeline .block")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_top_bar_names_the_models_and_says_what_each_value_is(visit, theme):
    page = visit.page
    open_example(visit, f"&__theme={theme}")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("width => innerWidth === width", arg=width)
        names = page.locator(".sg-top .model b")
        assert names.all_inner_texts() == ["abacus-draft", "abacus-target"]
        assert page.evaluate(_CUT) == [], width
        captions = page.locator(".sg-top .chip > em")
        assert captions.all_inner_texts() == ["strategy", "preset", "seed"]
        assert page.evaluate(_SMALL) == [], width
        assert page.evaluate(_CROSSING) == [], width
    assert "abacus-draft" in page.get_attribute(".sg-top .pair", "title")
    assert visit.complaints == []


def test_the_words_under_the_sum_stay_in_the_panel_and_apart(visit):
    page = visit.page
    open_example(visit)
    for step in (6, 4, 1):
        page.click(f'[data-key="step {step - 1}"]')
        page.wait_for_selector(f".sg-timeline .label:nth-child({step}).on")
        for threshold in (0.98, 1.0, 0.72, 0.02):
            page.evaluate("value => SpecGuard.turn('threshold', value)", threshold)
            page.wait_for_function(
                "value => SpecGuard.views.why.whatif?.threshold === value", arg=threshold
            )
            assert page.locator(".sg-why .balance .names span").count() == 3
            assert page.evaluate(_STRAY) == [], (step, threshold)
    assert visit.complaints == []


def test_a_run_that_went_wrong_opens_at_the_step_and_names_it_its_token_and_the_threshold(visit):
    page = visit.page
    open_example(visit)
    page.wait_for_selector(".sg-timeline .label:nth-child(4).on")
    assert page.inner_text('[data-key="first wrong"]') == "first wrong step: 4"
    assert page.locator(".sg-timeline .wrong-word").count() == 1
    fault = page.inner_text(".sg-why .fault")
    assert "3 / 2 = 1 does not hold" in fault
    assert "threshold raised to 0.730" in fault
    first = page.locator(".sg-why .decided button").first
    assert first.inner_text().split()[1] == "grounding"
    chip = page.text_content(".sg-evidence .chip-token[aria-pressed=true]")
    assert chip == first.locator(".tag").text_content()
    assert page.get_attribute('[data-key="colour tokens by grounding"]', "aria-checked") == "true"
    page.click('[data-key="step 1"]')
    page.wait_for_selector(".sg-timeline .label:nth-child(2).on")
    assert page.locator(".sg-why .fault").count() == 0
    page.click('[data-key="first wrong"]')
    page.wait_for_selector(".sg-timeline .label:nth-child(4).on")
    assert visit.complaints == []


def test_steps_that_are_the_target_s_by_rule_are_no_fallbacks(visit):
    page = visit.page
    visit.open()
    choose_strategy(page, "target_only")
    finish(visit)
    assert page.locator(".sg-timeline .block.target").count() >= 2
    assert page.locator(".sg-timeline .block.fallback").count() == 0
    assert set(page.locator(".sg-timeline .word").all_inner_texts()) == {"by target"}
    assert visit.complaints == []


def test_a_breakpoint_pauses_a_run_of_blocks_and_the_list_says_which_cannot(visit):
    page = visit.page
    visit.open()
    choose_strategy(page, "speculative")
    page.click('[data-key="run to"]')
    assert "confidence below" in page.inner_text(".sg .runto p.quiet")
    assert "no score, signals or candidates" in page.inner_text(".sg .runto p.quiet")
    assert page.locator('[data-key="break fallback"]').count() == 0
    page.fill('[data-key="value pattern"]', "= ?\\d")
    page.click('[data-key="break pattern"]')
    page.wait_for_selector('[data-key="arm 0"]')
    page.keyboard.press("Escape")
    page.click('[data-key="run"]')
    page.wait_for_function(
        "/paused: text matches/.test(document.querySelector('.sg-top .position').textContent)"
    )
    visit.idle()
    paused = page.locator(".sg-timeline .block").count()
    assert page.locator(".sg-timeline .label .hit:not(.armed)").count() == 1
    choose_strategy(page, "specguard")
    page.click('[data-key="run to"]')
    assert "Only in runs of blocks, as no token" in page.inner_text(".sg .runto p.quiet")
    assert paused >= 1
    assert visit.complaints == []


def test_the_same_notice_comes_again_after_it_was_dismissed(visit, tmp_path):
    page = visit.page
    visit.open()
    path = tmp_path / "broken.json"
    path.write_text("{", "utf-8")
    for _ in range(3):
        with page.expect_file_chooser() as chooser:
            page.click('[data-key="load"]')
        chooser.value.set_files(path)
        page.wait_for_selector(".sg-top .notice")
        page.click('[data-key="dismiss"]')
        page.wait_for_selector(".sg-top .notice", state="detached")
    assert visit.complaints == []


def test_on_a_phone_every_menu_stays_in_the_window(visit):
    page = visit.page
    page.set_viewport_size({"width": 390, "height": 844})
    open_example(visit)
    for key in ("run to", "strategy", "preset", "share"):
        page.click(f'[data-key="{key}"]')
        page.wait_for_selector(".sg-top details[open] .sheet")
        assert page.evaluate(_BEYOND) == [], key
        page.click(f'[data-key="{key}"]')
        page.wait_for_selector(".sg-top details[open]", state="detached")
    page.click('[data-key="question"]')
    page.wait_for_selector(".editor")
    assert page.evaluate(_BEYOND) == []
    assert visit.complaints == []


# What stands open and reaches beyond the window.
_BEYOND = """() => [...document.querySelectorAll(".sheet, .sheet *")].filter((element) => {
  const box = element.getBoundingClientRect();
  return element.checkVisibility() && box.width > 0 && (box.left < 0 || box.right > innerWidth);
}).map((element) => element.className)"""

# Names in the top bar that an ellipsis cuts.
_CUT = """() => [...document.querySelectorAll(".sg-top .chip b, .sg-top .position")]
  .filter((element) => element.scrollWidth > element.clientWidth)
  .map((element) => element.textContent)"""

# Captions that are hidden, or smaller than may be read.
_SMALL = """() => [...document.querySelectorAll(".sg-top .chip > em")].filter((element) => {
  const box = element.getBoundingClientRect();
  return box.width < 10 || box.height < 10 || parseFloat(getComputedStyle(element).fontSize) < 11;
}).map((element) => element.textContent)"""

# Parts of the bar that lie over each other or beyond the window.
_CROSSING = """() => {
  const parts = [...document.querySelector(".sg-top").children]
    .map((element) => [element, element.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0);
  const cross = (a, b) => a.left < b.right - 0.5 && a.right > b.left + 0.5;
  return parts.filter(([, box], i) => box.right > innerWidth + 0.5
    || parts.some(([, other], j) => j > i && cross(box, other)))
    .map(([element]) => element.className);
}"""

# Words under the bar of the sum that leave it or touch each other.
_STRAY = """() => {
  const room = document.querySelector(".sg-why .balance").getBoundingClientRect();
  const words = [...document.querySelectorAll(".sg-why .balance .names span")]
    .map((element) => [element.textContent, element.getBoundingClientRect()]);
  const cross = (a, b) => a.left < b.right && a.right > b.left;
  return words.filter(([, box], i) => box.left < room.left - 0.5 || box.right > room.right + 0.5
    || words.some(([, other], j) => j > i && cross(box, other))).map(([text]) => text);
}"""

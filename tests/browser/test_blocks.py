"""A speculative run is stepped to its answer; every drafted token says what became of it."""

import re


def choose_strategy(page, name: str) -> None:
    page.click('[data-key="strategy"]')
    page.click(f'[data-key="strategy {name}"]')
    page.wait_for_function(
        "name => document.querySelector('[data-key=strategy] b').textContent === name", arg=name
    )


def finish(visit) -> None:
    visit.page.click('[data-key="run"]')
    visit.page.wait_for_function(
        "document.querySelector('.sg-top .position').textContent.endsWith('finished')"
    )
    visit.idle()


def test_a_speculative_run_shows_p_q_ratio_and_u_of_each_token(visit, tmp_path):
    page = visit.page
    visit.open()
    choose_strategy(page, "speculative")
    assert page.locator(".sg-knobs [data-key='knob gamma']").count() == 1
    assert page.locator(".sg-knobs [data-key='knob beta']").count() == 0
    page.click('[data-key="step"]')
    page.wait_for_selector(".sg-timeline .block")
    visit.idle()
    assert page.locator(".sg-blocks .columns .drafted").count() >= 2
    finish(visit)
    assert page.inner_text(".sg-problem .answer").split()[-1] in ("right", "wrong")

    rejected = page.locator(".sg-timeline .label", has_text=re.compile(r"[0-4] of 5")).first
    rejected.click()
    page.wait_for_selector(".sg-blocks .drafted.corrected")
    page.locator(".sg-blocks .drafted.rejected").click()
    assert page.inner_text(".sg-why .verdict strong") == "Rejected"
    side = page.inner_text(".sg-why .chip-sum")
    assert all(name in side for name in ("q(x)", "p(x)", "ratio", "u"))
    hint = page.get_attribute(".sg-blocks .drafted.rejected", "title")
    assert re.search(r"q\(x\) .*\np\(x\) .*\nratio .*\nu greedy", hint)
    page.keyboard.press("[")
    assert page.inner_text(".sg-why .verdict strong") in ("Accepted", "Rejected")

    counts = [int(text) for text in page.locator(".sg-blocks .histogram b").all_inner_texts()]
    blocks = page.locator(".sg-timeline .block").count()
    assert sum(counts) in (blocks, blocks - 1)
    assert "tokens a block, expected" in page.inner_text(".sg-blocks .lengths")

    with page.expect_download() as download:
        page.click('[data-key="save"]')
    path = tmp_path / "blocks.json"
    download.value.save_as(path)
    page.click('[data-key="reset"]')
    page.wait_for_function("!document.querySelector('.sg-timeline .block')")
    with page.expect_file_chooser() as chooser:
        page.click('[data-key="load"]')
    chooser.value.set_files(path)
    page.wait_for_selector(".sg-timeline .block")
    assert page.locator(".sg-timeline .block").count() == blocks
    assert visit.complaints == []

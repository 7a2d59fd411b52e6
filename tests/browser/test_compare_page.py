"""Two strategies run on one problem, stand side by side, and open in the debugger at a step."""


def test_specguard_and_the_target_alone_are_compared_and_opened_where_they_differ(visit):
    page = visit.page
    visit.open()
    page.click('[data-key="question"]')
    # A bundled problem on which the two part ways.
    page.locator(".editor li button", has_text="Every day Rosa").click()
    page.wait_for_function("!document.querySelector('.editor')")
    page.keyboard.press("c")
    page.select_option('[data-key="side A"]', label="specguard")
    page.select_option('[data-key="side B"]', label="target_only")
    page.click('[data-key="run both"]')
    page.wait_for_function(
        "document.querySelector('.sg-timeline .axis em')?.textContent === 'target_only'"
        " && document.querySelector('.sg-top .position').textContent.endsWith('finished')"
    )
    visit.idle()
    heads = page.locator(".sg-tables .compare thead th").all_inner_texts()
    assert [h.split()[:2] for h in heads[1:]] == [["A", "specguard"], ["B", "target_only"]]
    assert all("right" in h or "wrong" in h for h in heads[1:])
    apart = page.locator(".sg-tables .compare tr.apart")
    assert apart.count() >= 1
    assert page.locator(".sg-tables .compare ins").count() >= 1
    ledger = page.inner_text(".sg-tables .beside")
    assert all(name in ledger for name in ("target, written", "target passes", "target positions"))

    step = int(apart.first.locator("th").inner_text())
    apart.first.locator("[data-key^='open A']").click()
    page.wait_for_function(
        "step => document.querySelector('.sg-top .position').textContent.startsWith(`step ${step}`)"
        " && document.querySelector('.sg-timeline .axis em').textContent === 'specguard'",
        arg=step,
    )
    assert page.is_visible(".sg-evidence .chip-token")
    page.click('[data-key="tab tree"]')
    assert page.locator(".sg-tables .tree-table li").count() == 2
    assert visit.complaints == []

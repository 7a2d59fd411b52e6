"""What leaves the page opens elsewhere, and what is kept comes back. The pair is scripted."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from conftest import Visit
from PIL import Image
from serving import NO_TOUR, RECITING, ROOT, served

EXAMPLE = ROOT / "assets" / "traces" / "example.json"
LABELS = ".sg-timeline .labels"


@pytest.fixture(scope="module")
def address(browser_path: str) -> Iterator[str]:
    """The address of app.py with models that recite."""
    with served(RECITING) as server:
        yield server.address


def open_example(visit: Visit) -> str:
    """The labels of the shipped run."""
    visit.open("?example=example")
    visit.page.wait_for_selector(".sg-timeline .block")
    return visit.page.inner_text(LABELS)


def download(page, *keys: str) -> Path:
    """The file that comes of pressing these, one after the other."""
    for key in keys[:-1]:
        page.click(f'[data-key="{key}"]')
    with page.expect_download() as found:
        page.click(f'[data-key="{keys[-1]}"]')
    return Path(found.value.path())


def load(page, path: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.click('[data-key="load"]')
    chooser.value.set_files(path)


def test_a_report_opens_offline_and_shows_what_the_page_shows(visit, browser, tmp_path):
    labels = open_example(visit)
    path = tmp_path / "report.html"
    path.write_bytes(download(visit.page, "share", "export report").read_bytes())
    assert path.stat().st_size < 2 * 2**20
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 960})
    page = context.new_page()
    page.set_default_timeout(120_000)
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(path.as_uri())
    assert page.inner_text(LABELS) == labels
    page.click('[data-key="step 4"]')
    assert page.inner_text(".sg-why .verdict strong") == "Refused"
    shown = page.inner_text(".sg-evidence .head .note")
    page.locator(".sg-candidates .card").first.click()
    assert page.inner_text(".sg-evidence .head .note") != shown
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".sg-top .position").startswith("step 4")
    page.keyboard.press("5")
    assert page.locator(".sg-tables .body").inner_text()
    assert page.is_disabled('[data-key="redraw"]')
    page.keyboard.press("r")
    assert "A report only shows what was recorded" in page.inner_text(".sg-top .notice")
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert said == []
    context.close()
    assert visit.complaints == []


@pytest.mark.parametrize("name", ["timeline", "candidates", "curves", "heatmap"])
def test_a_picture_leaves_as_svg_and_png_that_stand_by_themselves(visit, name):
    page = visit.page
    open_example(visit)
    page.click('[data-key="step 4"]')
    page.wait_for_selector(".sg-timeline .label:nth-child(5).on")
    text = download(page, f"picture {name}", f"picture {name} svg").read_text("utf-8")
    root = ET.fromstring(text)
    tags = {element.tag.rsplit("}")[-1] for element in root.iter()}
    assert tags & {"rect", "path", "polyline"}
    assert not tags & {"foreignObject", "script", "image", "style"}
    assert "class=" not in text
    assert "var(" not in text
    words = "".join(root.itertext())
    expected = {"timeline": "0.577", "candidates": "B", "curves": "least", "heatmap": "template"}
    assert expected[name] in words
    with Image.open(download(page, f"picture {name}", f"picture {name} png")) as image:
        assert image.width >= 2 * float(root.get("width")) - 2
        assert len(image.convert("RGB").getcolors(10**6)) > 20
    assert visit.complaints == []


def test_token_signals_leave_as_a_table(visit):
    open_example(visit)
    data = download(visit.page, "share", "export csv").read_text("utf-8")
    rows = list(csv.DictReader(io.StringIO(data, newline="")))
    assert {row["step"] for row in rows} == set("123456")
    assert visit.complaints == []


def test_a_link_opens_the_run_and_one_to_nothing_is_a_sentence(visit, browser):
    labels = open_example(visit)
    visit.page.click('[data-key="share"]')
    visit.page.click('[data-key="link"]')
    link = visit.page.input_value('[data-key="link text"]')
    context = browser.new_context()
    context.add_init_script(NO_TOUR)
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(link)
    page.wait_for_selector(".sg-timeline .block")
    assert page.inner_text(LABELS) == labels
    for query, sentence in (
        ("?trace=abc", "expected a link that this server gave out"),
        ("?example=<img src=x>", "expected an example out of real-overtime, "),
    ):
        page.goto(f"{visit.address}/{query}")
        page.wait_for_selector(".sg-top .notice")
        assert page.inner_text(".sg-top .notice").startswith(sentence)
        assert page.is_enabled('[data-key="step"]')
    context.close()


def test_a_new_server_does_not_lose_what_a_tab_shows(browser_path, page):
    page.set_default_timeout(120_000)
    page.add_init_script(NO_TOUR)
    with served(RECITING) as server:
        page.goto(server.address)
        page.wait_for_selector(".sg-top .transport")
        page.click('[data-key="step"]')
        page.wait_for_selector(".sg-timeline .block")
        page.wait_for_function("sessionStorage.getItem('specguard last run') !== null")
        labels = page.inner_text(LABELS)
        port = str(server.port)
    with served(RECITING, "--port", port):
        page.reload()
        page.wait_for_selector(".sg-timeline .block")
        assert page.inner_text(LABELS) == labels
        page.click('[data-key="step"]')
        page.wait_for_function("document.querySelectorAll('.sg-timeline .label').length === 2")


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def changed(**values: object) -> str:
    return json.dumps({**json.loads(EXAMPLE.read_text("utf-8")), **values})


HOSTILE = {
    "script in a name": ('{"kind": "<img src=x onerror=alert(1)>"}', "a kind out of"),
    "a wrong type": (changed(problem=[1]), "expected a whole trace"),
    "NaN": (changed(problem_id="x").replace('"x"', "NaN"), "NaN, which is no number"),
    "a newer version": (changed(schema_version=99), "a newer program wrote it"),
    "a million steps": (changed(units=[0] * 10**6), "expected a whole trace"),
    "deep nesting": (nested(100_000), "nested too deep"),
    "bytes": ("\x00\xff" * 50, "expected a JSON file"),
}


def test_no_hostile_file_ends_the_session_or_the_run_in_it(visit, tmp_path):
    page = visit.page
    labels = open_example(visit)
    for name, (text, sentence) in HOSTILE.items():
        path = tmp_path / "hostile.json"
        path.write_text(text, "utf-8")
        page.evaluate("document.querySelector('.sg-top .notice')?.remove()")
        load(page, path)
        page.wait_for_selector(".sg-top .notice")
        notice = page.inner_text(".sg-top .notice")
        assert sentence in notice, name
        assert "\n" not in notice.strip(), name
        assert page.inner_text(LABELS) == labels, name
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(100 * 2**20)
    page.evaluate("document.querySelector('.sg-top .notice')?.remove()")
    load(page, huge)
    assert "got 100 MiB: it was not read" in page.inner_text(".sg-top .notice")
    saved = json.loads(download(page, "save").read_text("utf-8"))
    assert saved["kind"] == "session"
    assert page.locator(".sg img").count() == 0
    assert visit.complaints == []


def test_script_in_tokens_is_shown_letter_for_letter(visit, tmp_path):
    import base64

    trace = json.loads(EXAMPLE.read_text("utf-8"))
    token = str(trace["units"][0]["candidates"][0]["tokens"][0]["token_id"])
    hostile = "<img src=x onerror=alert(1)>${1+1}{{x}}"
    trace["pieces"][token] = base64.b64encode(hostile.encode()).decode()
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace), "utf-8")
    page = visit.page
    visit.open()
    load(page, path)
    page.wait_for_selector(".sg-timeline .block")
    page.click('[data-key="step 0"]')
    page.wait_for_selector(".sg-timeline .label:nth-child(1).on")
    assert hostile in page.locator(".sg-candidates").inner_text()
    chip = page.locator(".sg-evidence .chip-token").first
    assert chip.text_content() == hostile.replace(" ", "·")
    report = download(page, "share", "export report").read_text("utf-8")
    assert "<img" not in report
    assert page.locator(".sg img").count() == 0
    assert visit.complaints == []


def test_the_tour_is_walked_once_by_keyboard_and_never_comes_back(browser, address):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{address}/?example=example")
    page.wait_for_selector(".sg-timeline .block")
    assert page.locator(".sg-tour").count() == 0
    other = context.new_page()
    other.set_default_timeout(120_000)
    other.goto(address)
    for number in range(1, 7):
        other.wait_for_selector(f".sg-tour:has-text('{number} of 6')")
        assert not other.evaluate(_COVERED)
        other.keyboard.press("Enter")
    assert other.locator(".sg-tour").count() == 0
    other.reload()
    other.wait_for_selector(".sg-top .transport")
    other.wait_for_function("document.querySelector('.sg-status .models').textContent")
    assert other.locator(".sg-tour").count() == 0
    context.close()


# Whether the hint lies over what it speaks of.
_COVERED = """() => {
  const box = (name) => document.querySelector(name).getBoundingClientRect();
  const [a, b] = [box(".sg-tour"), box(".sg-toured")];
  return a.left < b.right && a.right > b.left && a.top < b.bottom && a.bottom > b.top;
}"""

"""Take the pictures of the page anew: `python scripts/screenshots.py`. Needs Chromium.

The page is started as a person starts it and opens the shipped example, so the pictures need no
model and come out the same each time.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "assets" / "screenshots"
SHOTS = (
    ("debugger-light.png", "light", 1440, 900, "ledger"),
    ("debugger-dark.png", "dark", 1440, 900, "thresholds"),
    ("debugger-wide.png", "light", 1920, 1080, "thresholds"),
    ("debugger-narrow.png", "light", 1280, 960, "ledger"),
)
"""File, theme, width and height in CSS pixels, and the table that is open at the foot."""


def main() -> int:
    """Take every picture of SHOTS."""
    flags = argparse.ArgumentParser(description="Take the pictures of the page anew.")
    flags.add_argument("--step", type=int, default=5, help="the step that is looked at, from 1")
    flags.add_argument("--whatif", type=float, help="set the threshold to this before the picture")
    given = flags.parse_args()
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        print("screenshots.py: no Chromium on PATH: install it", file=sys.stderr)
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "app.py", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        address = next(found for line in server.stdout or () if (found := _address(line)))
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"]
                )
                for name, theme, width, height, tab in SHOTS:
                    page = browser.new_page(viewport={"width": width, "height": height})
                    page.set_default_timeout(240_000)
                    page.add_init_script("localStorage.setItem('specguard tour', 'seen')")
                    page.goto(f"{address}/?__theme={theme}")
                    _show(page, given.step, given.whatif, tab)
                    page.screenshot(path=FOLDER / name)
                    print(FOLDER.relative_to(ROOT) / name)
                    page.close()
        finally:
            server.terminate()
    return 0


def _show(page: Page, step: int, whatif: float | None, tab: str) -> None:
    page.wait_for_selector(".sg-top .transport")
    page.locator("[data-key='recording example']").first.click()
    page.wait_for_selector(".sg-timeline .block")
    page.locator(".sg-timeline .label").nth(step - 1).click()
    page.wait_for_selector(f".sg-timeline .label:nth-child({step}).on")
    if whatif is not None:
        page.evaluate("value => SpecGuard.turn('threshold', value)", whatif)
        page.wait_for_selector(".sg-timeline .handle.turned")
    page.click(f'[data-key="tab {tab}"]')
    page.wait_for_selector(f".sg-tables .{tab}")
    page.mouse.move(0, 0)
    page.wait_for_timeout(1500)


def _address(line: str) -> str | None:
    found = re.search(r"http://\S+", line)
    return found.group().rstrip("/") if found else None


if __name__ == "__main__":
    sys.exit(main())

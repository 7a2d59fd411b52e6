"""What every test shares: an offline, single-threaded environment and a browser. Knows no test.

The environment is set before any library reads it, so that tests of pure code never import torch
only to slow it down. Child processes inherit it.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from specguard_core import bundled

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

os.environ.update(
    {
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "TOKENIZERS_PARALLELISM": "false",
        "GRADIO_ANALYTICS_ENABLED": "False",
    }
)
# Models in tests are tiny: more threads only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

# A busy machine is no failure; in CI the same examples run each time.
settings.register_profile("everywhere", deadline=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("everywhere"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "everywhere")

IN_CI = bool(os.environ.get("CI")) or os.environ.get("REQUIRE_BROWSER") == "1"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks whatever drives a browser, so that `-m "not browser"` leaves it out."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "browser_path" in fixtures:
            item.add_marker("browser")
        if "address" in fixtures:
            item.add_marker(pytest.mark.bundled(bundled.DRAFT, bundled.TARGET))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Looks for the weights that a test says it needs, before any fixture loads them."""
    for mark in item.iter_markers("bundled"):
        require_folders(mark.args, in_ci=IN_CI)


def require_folders(folders: Sequence[Path], *, in_ci: bool) -> None:
    """Weights that ship are in the tree: in CI their absence is a fault, elsewhere a skip."""
    missing = [folder.name for folder in folders if not (folder / "config.json").is_file()]
    if missing:
        reason = f"expected {', '.join(missing)} in assets/models: fetch the whole repository"
        if in_ci:
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def browser_path() -> str:
    """The installed Chromium; without one the test is skipped, or fails where REQUIRE_BROWSER=1."""
    for name in BROWSERS:
        found = shutil.which(name)
        if found:
            return found
    reason = f"no browser on PATH (looked for {', '.join(BROWSERS)}): install Chromium"
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser(browser_path: str) -> Iterator["Browser"]:
    """A headless Chromium for one module: while open, Playwright keeps an event loop running."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=browser_path, args=list(BROWSER_ARGUMENTS)
        )
        yield opened
        opened.close()


@pytest.fixture
def page(browser: "Browser") -> Iterator["Page"]:
    """A page in a context of its own, 1280 wide: no test sees what another left behind."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()

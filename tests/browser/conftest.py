"""The page served on the bundled pair, once for all browser tests, and a watch on each visit."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from serving import APP, NO_TOUR, served

if TYPE_CHECKING:
    from playwright.sync_api import Page


@dataclass
class Visit:
    """A page under watch: what its console said and what it asked of other machines."""

    page: "Page"
    address: str
    complaints: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def open(self, query: str = "") -> None:
        self.page.goto(f"{self.address}/{query}")
        self.page.wait_for_selector(".sg-top .transport")

    def idle(self) -> None:
        """Wait until no run goes on."""
        self.page.wait_for_selector(".sg-top:not(.running)")


@pytest.fixture(scope="session")
def address(browser_path: str) -> Iterator[str]:
    """The address of `python app.py`, started as a person starts it."""
    with served(APP) as server:
        yield server.address


@pytest.fixture
def visit(page: "Page", address: str) -> Visit:
    """A fresh visitor; the browser is allowed the time a busy machine needs."""
    page.set_default_timeout(120_000)
    page.add_init_script(NO_TOUR)
    watched = Visit(page, address)

    def said(message: object) -> None:
        if message.type in ("error", "warning"):
            watched.complaints.append(message.text)

    def asked(request: object) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            watched.outside.append(request.url)

    page.on("console", said)
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.on("request", asked)
    return watched

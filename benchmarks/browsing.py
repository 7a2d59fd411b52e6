"""A page of app.py in a real Chromium, and what it takes to look at a run there.

painted    the second animation frame after the last change of any panel that an input brings; an
           input is over once no panel has changed for a while after the server's answer
payload    bytes of all answers between an input and its paint, as sent and as the page reads them
heap       bytes the page's JavaScript holds after a forced collection of garbage
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
START_SECONDS = 240
QUIET_MS = 250
"""No change of any panel for this long: all that an input brings is there."""

PROBE = """
try { localStorage.setItem('specguard tour', 'seen'); } catch { /* no storage here */ }
window.measured = (act, panel, isThere, quiet) => new Promise((done, failed) => {
  const before = SpecGuard.views[panel];
  let began = 0, number = 0, timer = null, late = null;
  const watch = new MutationObserver(() => {
    if (SpecGuard.views[panel] === before || !isThere()) return;
    clearTimeout(timer);
    const mine = ++number;
    requestAnimationFrame(() => requestAnimationFrame(() => {
      if (mine !== number) return;
      const took = performance.now() - began;
      timer = setTimeout(() => { watch.disconnect(); clearTimeout(late); done(took); }, quiet);
    }));
  });
  for (const [name, root] of Object.entries(SpecGuard.roots)) {
    if (['answer', 'copy', 'files', 'models'].includes(name)) continue;
    watch.observe(root, { childList: true, subtree: true, characterData: true, attributes: true });
  }
  // Cleared in the end: while it is due it holds the view before, and the heap would seem to grow.
  const told = `the ${panel} panel did not change within 110 s`;
  late = setTimeout(() => failed(new Error(told)), 110_000);
  began = performance.now();
  act();
});
window.firsts = {};
new MutationObserver((_, watch) => {
  const now = performance.now();
  if (document.querySelector('.sg-top .transport')) window.firsts.panels ??= now;
  const models = document.querySelector('.sg-status .models')?.textContent || '';
  if (/idle|ready/.test(models)) { window.firsts.models = now; watch.disconnect(); }
}).observe(document, { childList: true, subtree: true, characterData: true });
"""
STEP = """([step, quiet]) => measured(
  () => document.querySelector(`.sg-timeline [data-key="step ${step}"]`).click(), 'evidence',
  () => document.querySelector(`.sg-timeline .label.on[data-key="step ${step}"]`), quiet)"""
SLIDER = """([key, quiet]) => measured(
  () => document.querySelector('[data-key="knob threshold"]').dispatchEvent(
    new KeyboardEvent('keydown', { key, shiftKey: true, bubbles: true })),
  'knobs', () => true, quiet)"""
OPEN = """([steps, quiet]) => measured(
  () => {
    const carried = new DataTransfer();
    carried.items.add(document.getElementById('measured file').files[0]);
    document.dispatchEvent(new DragEvent('drop', { dataTransfer: carried, bubbles: true }));
  },
  'timeline', () => document.querySelectorAll('.sg-timeline .label').length === steps, quiet)"""
CHOOSER = """() => {
  const input = document.createElement('input');
  Object.assign(input, { type: 'file', id: 'measured file', hidden: true });
  document.body.append(input);
}"""


def browser_path() -> str | None:
    """The installed Chromium; None where there is none."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


@dataclass(frozen=True, slots=True)
class Server:
    """address: without the slash; began: on the clock of time.monotonic."""

    address: str
    began: float
    pid: int

    def worked(self) -> float:
        """Milliseconds of processor time so far, to 10 ms; 0 where the system does not say."""
        stat = Path(f"/proc/{self.pid}/stat")
        if not stat.is_file():
            return 0.0
        user, system = stat.read_text("ascii").rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) * 1000 / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(*flags: str) -> Iterator[Server]:
    """`python app.py FLAGS` on a free port, as a person starts it."""
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "app.py", "--port", "0", *flags],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield Server(_address(process), began, process.pid)
        finally:
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines = []
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and (line := process.stdout.readline()):
        lines.append(line)
        if found := re.search(r"http://\S+", line):
            return found.group().rstrip("/")
    raise RuntimeError("the page did not start:\n" + "".join(lines))


@contextmanager
def visited(executable: str) -> Iterator[Page]:
    """An empty tab, 1280 x 900, in a browser of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(SWITCHES))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        page.add_init_script(PROBE)
        yield page
        browser.close()


@dataclass
class Wire:
    """What came over the network since `clear`; a stream that stays open is not waited for."""

    sent: int = 0
    decoded: int = 0
    open: set[str] = field(default_factory=set)
    last: float = 0.0

    def watch(self, line: CDPSession) -> None:
        line.on("Network.requestWillBeSent", self._begun)
        line.on("Network.dataReceived", self._received)
        line.on("Network.loadingFinished", self._ended)
        line.on("Network.loadingFailed", self._ended)
        line.send("Network.enable")

    def clear(self) -> None:
        self.sent = self.decoded = 0

    def _begun(self, event: dict[str, Any]) -> None:
        if "heartbeat" not in event["request"]["url"]:
            self.open.add(event["requestId"])

    def _received(self, event: dict[str, Any]) -> None:
        self.sent += event["encodedDataLength"]
        self.decoded += event["dataLength"]

    def _ended(self, event: dict[str, Any]) -> None:
        self.open.discard(event["requestId"])
        self.last = time.monotonic()


class Visit:
    """One page, and the inputs that are measured on it. Milliseconds and bytes."""

    def __init__(self, page: Page, address: str) -> None:
        self._page = page
        self._line = page.context.new_cdp_session(page)
        self.wire = Wire()
        self.wire.watch(self._line)
        self._line.send("Performance.enable")
        page.goto(f"{address}/")
        page.wait_for_selector(".sg-top .transport")
        page.evaluate(CHOOSER)
        self.settle()

    def settle(self, seconds: float = 0.5, most: float = 60.0) -> None:
        """Wait until no answer is under way, such as the copy that the tab keeps of a run."""
        deadline = time.monotonic() + most
        while time.monotonic() < deadline:
            self._page.wait_for_timeout(100)
            if not self.wire.open and time.monotonic() - self.wire.last > seconds:
                return

    def open(self, path: Path, steps: int) -> float:
        """From the file dropped on the page to its run painted."""
        self._page.set_input_files("[id='measured file']", path)
        return self._input(OPEN, steps)

    def step(self, index: int, quiet: int = QUIET_MS) -> float:
        """From a click on another step's label to that step painted in every panel."""
        return self._input(STEP, index, quiet)

    def slider(self, key: str) -> float:
        """From a key on the threshold to the run judged by the new value and painted."""
        return self._input(SLIDER, key)

    def _input(self, script: str, value: str | int, quiet: int = QUIET_MS) -> float:
        self.wire.clear()
        took: float = self._page.evaluate(script, [value, quiet])
        return took

    def heap(self) -> int:
        """Bytes the page's JavaScript holds."""
        for _ in range(2):
            self._line.send("HeapProfiler.collectGarbage")
        metrics = self._line.send("Performance.getMetrics")["metrics"]
        return int(next(m["value"] for m in metrics if m["name"] == "JSHeapUsedSize"))


def cold_page(page: Page, server: Server) -> dict[str, float]:
    """Milliseconds from the address asked for to the browser's first contentful paint, to the
    panels, and to the models; and from the program's start to the panels."""
    asked = time.monotonic()
    page.goto(f"{server.address}/")
    page.wait_for_function("window.firsts.models !== undefined")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    firsts = page.evaluate("window.firsts")
    started = (asked - server.began) * 1000 + firsts["panels"]
    return {"paint": paint, **firsts, "from start": started}

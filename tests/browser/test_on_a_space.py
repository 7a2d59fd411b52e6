"""The app started as a Space starts it, seen as its visitors see it: in a frame of another site.

The other site is the same machine under its other name; to a browser they have nothing in common,
and many give a page in such a frame no storage and no cookies.
"""

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from serving import APP, Server, served

from specguard_core import bundled

ENVIRONMENT = {
    "SYSTEM": "spaces",
    "SPACE_ID": "owner/specguard",
    "SPACE_HOST": "owner-specguard.hf.space",
    "SPACE_AUTHOR_NAME": "owner",
    "SPACE_REPO_NAME": "specguard",
    "GRADIO_SERVER_NAME": "0.0.0.0",
    "GRADIO_ALLOW_FLAGGING": "never",
    "GRADIO_THEME": "huggingface",
    "GRADIO_NUM_PORTS": "1",
}
NO_STORAGE = """
const denied = () => { throw new DOMException('denied', 'SecurityError'); };
for (const name of ['localStorage', 'sessionStorage']) {
  Object.defineProperty(window, name, { get: denied });
}
Object.defineProperty(Document.prototype, 'cookie', { get: () => '', set: denied });
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def space(browser_path: str) -> Iterator[Server]:
    """`python app.py` with a Space's environment and no flag."""
    port = free_port()
    with served(APP, environment={**ENVIRONMENT, "GRADIO_SERVER_PORT": str(port)}) as server:
        assert server.address == f"http://0.0.0.0:{port}"
        yield Server(f"http://127.0.0.1:{port}", server.process)


@contextmanager
def framed(address: str) -> Iterator[str]:
    """A page of another site that shows this address in a frame."""
    body = (
        "<!doctype html><title>A Space</title><body style='margin:0'>"
        f"<iframe src='{address}' style='width:1280px;height:900px;border:0'></iframe>"
    ).encode()

    class Outside(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Outside) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        yield f"http://localhost:{other.server_address[1]}/"
        other.shutdown()


@pytest.mark.bundled(bundled.DRAFT, bundled.TARGET)
def test_a_visitor_steps_a_problem_in_a_frame_of_another_site(page, space):
    complaints: list[str] = []
    outside: list[str] = []
    page.set_default_timeout(120_000)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
    page.on("request", lambda asked: outside.append(asked.url))
    page.add_init_script(NO_STORAGE)
    with framed(space.address) as address:
        page.goto(address)
        frame = page.frame_locator("iframe")
        frame.locator(".sg-top .transport").wait_for()
        frame.locator('[data-key="step"]').click()
        frame.locator(".sg-timeline .block").wait_for()
        frame.locator(".sg-top:not(.running)").wait_for()
        assert frame.locator(".sg-candidates .card").count() >= 1
        frame.locator('[data-key="run"]').click()
        frame.locator(".sg-problem .judged").wait_for()
        assert "finished" in frame.locator(".sg-top .position").inner_text()
        frame.locator('[data-key="share"]').click()
        frame.locator('[data-key="link"]').click()
        link = frame.locator('[data-key="link text"]').input_value()
        assert link.startswith(f"{space.address}/?trace=")
        assert "Copy it from here" in frame.locator(".sg-top .share .said").inner_text()
    # The clipboard is denied there, which the browser itself remarks on.
    assert [said for said in complaints if "Clipboard API" not in said] == []
    ours = (space.address, address, "data:", "blob:")
    assert [url for url in outside if not url.startswith(ours)] == []


def test_a_stranger_is_told_no_place_of_the_machine(page, space):
    page.set_default_timeout(120_000)
    page.goto(f"{space.address}/?example=none")
    page.wait_for_selector(".sg-top .notice")
    assert page.inner_text(".sg-top .notice").startswith("expected an example out of ")
    assert "/" not in page.evaluate("SpecGuard.views.top.sources.join()")
    page.evaluate("SpecGuard.send('setup', { file: '{' })")
    page.wait_for_function(
        "document.querySelector('.sg-top .notice')?.textContent.includes('JSON file')"
    )

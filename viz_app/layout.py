"""The page as gradio sees it: one gr.HTML per panel, and which event calls which handler.

A panel's template is static and empty; its JSON value is drawn by static/<panel>.js with
textContent, so no text of a model is ever markup. All clicks come back through the top panel, and
what they change through one answer for all panels.
"""

import logging
import time
from abc import ABCMeta
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import gradio as gr
from starlette.middleware import Middleware

from specguard_core.errors import SpecGuardError
from specguard_core.evidence import Evidence
from viz_app.guard import BodyLimit, Packing
from viz_app.handlers import Handlers
from viz_app.limits import Limits
from viz_app.page import PANELS, RIGHT, answer, to_json
from viz_app.pairs import Pairs
from viz_app.recordings import Recording
from viz_app.session import Look, Problem, Session
from viz_app.work import Room

TITLE = "SpecGuard Debugger"
_QUEUE_LENGTH = 32

P = ParamSpec("P")
Answer = TypeVar("Answer")
_log = logging.getLogger(__name__)


def build(
    pairs: Pairs,
    examples: Sequence[Problem],
    seed: int = 0,
    recordings: Sequence[Recording] = (),
    limits: Limits | None = None,
    opening: Session | None = None,
    rows: Evidence | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> gr.Blocks:
    """The page. No model is loaded before the first visitor has seen it.

    `recordings` open without any model, `opening` is what a new visitor finds, `rows` its evidence;
    `clock` counts seconds.
    """
    handlers = Handlers(pairs, examples, seed, recordings, limits or Limits(), clock, rows)
    first = opening or handlers.first()
    views = handlers.views(first, Look(), room=Room(rows or Evidence()))
    with gr.Blocks(title=TITLE, fill_width=True) as page:
        idle = handlers.idle_seconds
        line = gr.State(first, time_to_live=idle, delete_callback=lambda _: handlers.sweep())
        look = gr.State(Look())
        with gr.Column(elem_id="sg-page"):
            panels = {n: _panel(n, views[n]) for n in PANELS if n not in RIGHT}
            with gr.Column(elem_id="sg-right"):
                panels |= {name: _panel(name, views[name]) for name in RIGHT}
            # One value carries the views of all panels: each output of an event costs the browser
            # as much as drawing a panel.
            answered = _panel("answer", answer({}, 0.0))
            files = _panel("files", to_json({}))
            copy = _panel("copy", to_json({}))
            models = _panel("models", to_json({}))
        both = [line, look, answered]
        # A progress mark that nobody sees is drawn at every frame all the same, but on no output.
        silent: dict[str, Any] = {"show_progress": "hidden", "show_progress_on": []}
        bus = panels["top"]
        # The queue for the models is our own: it is bounded, and says one's place in it.
        bus.drive(
            handlers.drive,
            [line, look],
            [*both, bus],
            concurrency_limit=None,
            **silent,
            api_visibility="private",
            trigger_mode="multiple",
        )
        bus.look(
            handlers.look,
            [line, look],
            [look, answered],
            queue=False,
            **silent,
            api_visibility="private",
            trigger_mode="multiple",
        )
        bus.setup(
            handlers.setup,
            [line, look],
            both,
            queue=False,
            **silent,
            api_visibility="private",
        )
        bus.stop(
            handlers.stop,
            queue=False,
            **silent,
            api_visibility="private",
            trigger_mode="multiple",
        )
        bus.save(
            handlers.save,
            [line],
            [files],
            queue=False,
            **silent,
            api_visibility="private",
            trigger_mode="multiple",
        )
        # Apart from what a person saves: the one must not keep the other waiting, or be dropped.
        bus.keep(
            handlers.keep,
            [line],
            [copy],
            queue=False,
            **silent,
            api_visibility="private",
            trigger_mode="always_last",
        )
        page.load(
            handlers.warm,
            None,
            [models],
            concurrency_limit=None,
            **silent,
            api_visibility="private",
        )
        page.unload(handlers.leave)
        offered = handlers.endpoints
        for endpoint in (offered.run_trace, offered.regate, offered.explain_step):
            gr.api(telling(endpoint, handlers.told), concurrency_limit=None)
    page.queue(max_size=_QUEUE_LENGTH)
    return page


def telling(
    endpoint: Callable[P, Answer], told: Callable[[BaseException], str]
) -> Callable[P, Answer]:
    """The endpoint, its errors as one sentence; one that nobody foresaw is logged."""

    @wraps(endpoint)
    def called(*args: P.args, **kwargs: P.kwargs) -> Answer:
        try:
            return endpoint(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a program gets a sentence, too
            if not isinstance(error, SpecGuardError):
                _log.exception("an endpoint failed")
            raise gr.Error(told(error), print_exception=False) from None

    return called


def guards() -> list[Middleware]:
    """What stands between a request and the page."""
    return [Middleware(BodyLimit), Middleware(Packing)]


def _begin(
    self: Any, value: str | None = None, *, own_id: int | None = None, **options: Any
) -> None:
    """As gr.HTML, but that copies made of it for a visitor have its id."""
    gr.HTML.__init__(self, value, **options)
    self._id = self._id if own_id is None else own_id
    self._constructor_args[0]["own_id"] = self._id


# Where an answer leaves a panel as it is, gradio makes the panel anew; it files each under an id of
# its own, value and all, and a visitor's memory would grow with every press. Made past gradio's
# metaclass, which writes a stub file beside the module of every class it makes.
_Panel = ABCMeta.__new__(type(gr.HTML), "_Panel", (gr.HTML,), {"__init__": _begin})


def _panel(name: str, value: str) -> gr.HTML:
    events = ", ['drive', 'look', 'setup', 'stop', 'save', 'keep']" if name == "top" else ""
    made: gr.HTML = _Panel(
        value,
        html_template=f'<section class="sg sg-{name}"></section>',
        js_on_load=f"SpecGuard.mount('{name}', element, props, watch, trigger{events});",
        apply_default_css=False,
        elem_id=f"sg-{name}",
        elem_classes=["sg-cell"],
    )
    return made

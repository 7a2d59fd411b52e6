"""The page as gradio sees it: one gr.HTML per panel, and which event calls which handler.

A panel's template is static and empty; its JSON value is drawn by static/<panel>.js with
textContent, so no text of a model is ever markup. All clicks come back through the top panel.
"""

from collections.abc import Sequence
from pathlib import Path

import gradio as gr

from viz_app.handlers import Handlers
from viz_app.page import PANELS, Panel, to_json
from viz_app.session import Look, Problem
from viz_app.work import Pair

TITLE = "SpecGuard Debugger"
_MODEL_WORK = "model"
_QUEUE_LENGTH = 32
_RIGHT: tuple[Panel, ...] = ("why", "knobs")
"""Panels that share the right column: the sum takes what it needs, the knobs the rest."""


def build(
    pair: Pair, examples: Sequence[Problem], seed: int = 0, example: Path | None = None
) -> gr.Blocks:
    """The page. No model is loaded before the first visitor has seen it.

    `example` is a recorded session that opens without any model.
    """
    handlers = Handlers(pair, examples, seed, example)
    first = handlers.first()
    views = handlers.views(first, Look())
    with gr.Blocks(title=TITLE, fill_width=True) as page:
        line = gr.State(first)
        look = gr.State(Look())
        with gr.Column(elem_id="sg-page"):
            panels = {n: _panel(n, views[n]) for n in PANELS if n not in _RIGHT}
            with gr.Column(elem_id="sg-right"):
                panels |= {name: _panel(name, views[name]) for name in _RIGHT}
            files = _panel("files", to_json({}))
            models = _panel("models", to_json({}))
        drawn = [panels[name] for name in PANELS]
        both = [line, look, *drawn]
        bus = panels["top"]
        bus.drive(
            handlers.drive,
            [line, look],
            both,
            concurrency_id=_MODEL_WORK,
            concurrency_limit=1,
            show_progress="hidden",
            api_visibility="private",
        )
        bus.look(
            handlers.look,
            [line, look],
            [look, *drawn],
            queue=False,
            show_progress="hidden",
            api_visibility="private",
            trigger_mode="multiple",
        )
        bus.setup(
            handlers.setup,
            [line, look],
            both,
            queue=False,
            show_progress="hidden",
            api_visibility="private",
        )
        bus.stop(
            handlers.stop,
            queue=False,
            show_progress="hidden",
            api_visibility="private",
            trigger_mode="multiple",
        )
        bus.save(
            handlers.save,
            [line],
            [files],
            queue=False,
            show_progress="hidden",
            api_visibility="private",
        )
        page.load(
            handlers.warm,
            None,
            [models],
            concurrency_id=_MODEL_WORK,
            show_progress="hidden",
            api_visibility="private",
        )
        page.unload(handlers.leave)
    page.queue(max_size=_QUEUE_LENGTH)
    return page


def _panel(name: str, value: str) -> gr.HTML:
    events = ", ['drive', 'look', 'setup', 'stop', 'save']" if name == "top" else ""
    return gr.HTML(
        value,
        html_template=f'<section class="sg sg-{name}"></section>',
        js_on_load=f"SpecGuard.mount('{name}', element, props, watch, trigger{events});",
        apply_default_css=False,
        elem_id=f"sg-{name}",
        elem_classes=["sg-cell"],
    )

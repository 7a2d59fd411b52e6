"""The page: `python app.py`, then open the address it prints. Everything works offline.

This is a composition root: the command line, the environment and the devices are read here.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from specguard_core import bundled
from specguard_core.errors import SpecGuardError
from viz_app.session import Problem
from viz_app.work import Loaded, Pair

EXAMPLES = 12
EXAMPLE = bundled.ASSETS / "traces" / "example.json"
"""A recorded session that opens without any model."""


def parser() -> argparse.ArgumentParser:
    """The flags of the page."""
    flags = argparse.ArgumentParser(description="Step through SpecGuard decoding in a page.")
    flags.add_argument("--host", default="127.0.0.1", help="address to listen on")
    flags.add_argument("--port", type=int, default=7860, help="port; 0 is any free one")
    flags.add_argument("--draft", default=str(bundled.DRAFT), help="draft model: folder or hub id")
    flags.add_argument(
        "--target", default=str(bundled.TARGET), help="target model: folder or hub id"
    )
    flags.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, ...")
    flags.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    flags.add_argument(
        "--calibration", help="`none`, or a file; the draft folder's own where it is not given"
    )
    return flags


def loader(arguments: argparse.Namespace) -> Loaded:
    """The pair that the flags name, with its calibration."""
    from specguard_core import load_models
    from specguard_core.commands.shell import calibration_of

    models = load_models(
        arguments.draft, arguments.target, device=arguments.device, dtype=arguments.dtype
    )
    return Loaded(models, calibration_of(arguments, models))


def examples(path: Path, count: int) -> list[Problem]:
    """The first held-out problems of a file; none where it is missing."""
    from specguard_core.problem_files import read_problems

    if not path.is_file():
        return []
    return [
        Problem(item.question, item.answer, item.problem_id)
        for item in read_problems(path, limit=count)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the page until interrupted."""
    given = parser().parse_args(arguments)
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from viz_app import theme
    from viz_app.layout import build

    pair = Pair(lambda: loader(given), (Path(given.draft).name, Path(given.target).name))
    try:
        problems = examples(bundled.PROBLEMS, EXAMPLES)
    except SpecGuardError as error:
        print(f"app.py: {error}", file=sys.stderr)
        return 2
    page = build(pair, problems, example=EXAMPLE if EXAMPLE.is_file() else None)
    try:
        page.launch(
            server_name=given.host,
            server_port=given.port or None,
            theme=theme.theme(),
            head=theme.head(),
            footer_links=[],
            run_history=False,
            show_error=True,
            ssr_mode=False,
        )
    except OSError as error:
        print(f"app.py: {error}: choose another --port or --host", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

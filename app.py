"""The page: `python app.py`, then open the address it prints. Everything works offline.

This is a composition root: the command line, the environment and the devices are read here.

On a Hugging Face Space nobody gives flags: its environment stands for them, and the variable
SPECGUARD_FLAGS holds any others, as one would type them.
"""

import argparse
import math
import os
import shlex
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from specguard_core import bundled
from specguard_core.commands.flags import add_place_flags, place_options
from specguard_core.commands.shell import fitting_preset
from specguard_core.errors import SpecGuardError, UsageError
from viz_app.files import open_file
from viz_app.limits import IDLE_SECONDS, PUBLIC_TOKENS, Limits
from viz_app.memory import give_back, set_aside
from viz_app.names import full_name, short_name
from viz_app.pairs import GIGABYTE, Pairs, Sources, offers_within
from viz_app.recordings import read_index
from viz_app.session import Problem
from viz_app.turns import MOST_WAITING
from viz_app.work import Loaded, Pair
from viz_app.workers import Fork, zero_gpu

EXAMPLES = 12
MOST_SESSIONS = 1000
"""Visitors whose runs are kept at once; the one idle longest is let go first."""


def parser() -> argparse.ArgumentParser:
    """The flags of the page."""
    flags = argparse.ArgumentParser(description="Step through SpecGuard decoding in a page.")
    flags.add_argument("--host", default="127.0.0.1", help="address to listen on")
    flags.add_argument("--port", type=int, default=7860, help="port; 0 is any free one")
    flags.add_argument("--draft", default=str(bundled.DRAFT), help="draft model: folder or hub id")
    flags.add_argument(
        "--target",
        default=str(bundled.TARGET),
        help="target model: folder, hub id, or http://host:port/v1?model=NAME ($SPECGUARD_API_KEY)",
    )
    flags.add_argument("--reward", help="reward model of rsd; the bundled pair has its own")
    add_place_flags(flags)
    flags.add_argument(
        "--calibration", help="`none`, or a file; the draft folder's own where it is not given"
    )
    flags.add_argument(
        "--trace",
        metavar="FILE",
        help="open the page on a trace or a session, with the evidence file beside it",
    )
    flags.add_argument(
        "--max-tokens", type=positive, metavar="N", help="most tokens that a run may keep"
    )
    flags.add_argument(
        "--queue", type=positive, default=MOST_WAITING, metavar="N", help="visitors that may wait"
    )
    flags.add_argument(
        "--idle", type=positive, default=IDLE_SECONDS, metavar="S", help="seconds to keep a session"
    )
    flags.add_argument("--read-only", action="store_true", help="open and judge runs; no models")
    flags.add_argument(
        "--public",
        action="store_true",
        help="strangers may come: the models named here only, runs bounded, errors name no place",
    )
    flags.add_argument(
        "--offer",
        type=float,
        metavar="GB",
        help="offer known pairs up to this size in the page's menu (default: all; --public: none)",
    )
    flags.add_argument("--auth", type=login, metavar="USER:PASSWORD", help="ask for a login")
    flags.add_argument("--root-path", metavar="/PATH", help="where a proxy serves the page")
    flags.add_argument("--mcp", action="store_true", help="serve the endpoints as MCP tools, too")
    return flags


def environment_flags(environment: Mapping[str, str]) -> list[str]:
    """The flags that an environment stands for; what is typed comes after them and wins.

    GRADIO_SERVER_NAME and _PORT are where to listen; SPACE_ID is set on a Space, where strangers
    come; SPECGUARD_FLAGS is for whoever owns it.
    """
    flags = []
    for name, flag in (("GRADIO_SERVER_NAME", "--host"), ("GRADIO_SERVER_PORT", "--port")):
        if environment.get(name):
            flags += [flag, environment[name]]
    if environment.get("SPACE_ID"):
        flags.append("--public")
    return [*flags, *shlex.split(environment.get("SPECGUARD_FLAGS", ""))]


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)


def login(text: str) -> tuple[str, str]:
    """A user and a password, neither of them empty."""
    user, _, password = text.partition(":")
    if not user or not password:
        raise argparse.ArgumentTypeError("expected USER:PASSWORD, got no colon between two words")
    return user, password


def limits_of(arguments: argparse.Namespace) -> Limits:
    """What the flags allow."""
    bound = PUBLIC_TOKENS if arguments.public else None
    return Limits(
        max_tokens=arguments.max_tokens or bound,
        read_only=arguments.read_only,
        public=arguments.public,
        waiting=arguments.queue,
        idle_seconds=arguments.idle,
    )


def loader(arguments: argparse.Namespace) -> Loaded:
    """The pair that the flags name, with its calibration."""
    from specguard_core import load_models
    from specguard_core.commands.shell import calibration_of, known_reward

    models = load_models(
        arguments.draft,
        arguments.target,
        reward=known_reward(arguments),
        api_key=os.environ.get("SPECGUARD_API_KEY"),
        on_note=lambda words: print(words, file=sys.stderr),
        **place_options(arguments),
    )
    return Loaded(models, calibration_of(arguments, models))


def free_port(host: str) -> int:
    """A port that nothing listens on: the library itself would try those from 7860 in turn."""
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


def check_mcp(asked: bool) -> None:
    """Refuse --mcp where the library it needs is missing.

    Raises:
        UsageError: it is asked for, and cannot be.
    """
    if asked and find_spec("mcp") is None:
        raise UsageError(
            "expected the mcp package for --mcp, got none: pip install 'gradio[mcp]' first"
        )


def examples(path: Path, count: int) -> list[Problem]:
    """The first held-out problems of a file; none where it is missing."""
    from specguard_core.problem_files import read_problems

    if not path.is_file():
        return []
    return [
        Problem(item.question, item.answer, item.problem_id)
        for item in read_problems(path, limit=count)
    ]


def is_zero_gpu(environment: Mapping[str, str]) -> bool:
    """Whether this is a Space whose GPU is lent by the call."""
    return environment.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def pairs_of(
    given: argparse.Namespace, load: Callable[[argparse.Namespace], Loaded], fork: Fork | None
) -> Pairs:
    """The pair that the flags name, and those that may be chosen instead.

    Where phases run in workers there is one pair, and it is loaded now: workers have what was
    there before the page was.

    Raises:
        SpecGuardError: it cannot be loaded.
    """

    def load_other(sources: Sources) -> Loaded:
        theirs = dict.fromkeys(("reward", "calibration", "chat_template"))
        own = {**theirs, "draft": sources[0], "target": sources[1]}
        return load(argparse.Namespace(**{**vars(given), **own}))

    home = Pair(
        lambda: load(given),
        (short_name(given.draft), short_name(given.target)),
        (full_name(given.draft), full_name(given.target)),
        fork,
        fitting_preset(given.draft, given.target, given.calibration),
    )
    if fork is not None:
        home.get()
        return Pairs(home)
    asked = 0.0 if given.public else math.inf
    most = asked if given.offer is None else given.offer
    return Pairs(home, offers_within(most * GIGABYTE), load_other, listed_only=given.public)


def main(
    arguments: Sequence[str] | None = None,
    load: Callable[[argparse.Namespace], Loaded] = loader,
) -> int:
    """Serve the page until interrupted; `load` gives the pair, once it is needed."""
    typed = sys.argv[1:] if arguments is None else arguments
    given = parser().parse_args([*environment_flags(os.environ), *typed])
    give_back()
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        # Before anything else speaks to the GPU, as ZeroGPU wants it.
        fork = zero_gpu() if is_zero_gpu(os.environ) else None
        pairs = pairs_of(given, load, fork)
        problems = examples(bundled.PROBLEMS, EXAMPLES)
        recordings = read_index(bundled.RECORDINGS)
        opening, rows = (None, None) if given.trace is None else open_file(Path(given.trace))
        check_mcp(given.mcp)
    except SpecGuardError as error:
        print(f"app.py: {error}", file=sys.stderr)
        return 2
    from viz_app import theme
    from viz_app.layout import build, guards

    page = build(
        pairs,
        problems,
        recordings=recordings,
        limits=limits_of(given),
        opening=opening,
        rows=rows,
    )
    set_aside()
    try:
        page.launch(
            server_name=given.host,
            server_port=given.port or free_port(given.host),
            auth=given.auth,
            root_path=given.root_path,
            mcp_server=given.mcp,
            app_kwargs={"middleware": guards()},
            state_session_capacity=MOST_SESSIONS,
            theme=theme.theme(),
            head=theme.head(),
            footer_links=[],
            run_history=False,
            show_error=not given.public,
            ssr_mode=None,  # off unless GRADIO_SSR_MODE asks for it
        )
    except OSError as error:
        print(f"app.py: {error}: choose another --port or --host", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

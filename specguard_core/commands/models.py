"""The command `models`: what a model is, and whether a pair fits, before it is used."""

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from specguard_core.commands.model_text import model_lines, pair_lines, refusal, verdict_lines
from specguard_core.commands.shell import Shell, json_text, load_named
from specguard_core.config import DecodeConfig
from specguard_core.errors import UsageError
from specguard_core.known_pairs import KNOWN_PAIRS
from specguard_core.probe import tokens_per_second

if TYPE_CHECKING:
    from specguard_core.backends.parts import Part


def run_models(arguments: Namespace, shell: Shell) -> int:
    """Say what models are and whether they fit; weights are read only by --probe, if they do."""
    console = shell.console
    if arguments.draft is None:
        if arguments.json:
            console.say(json_text({"pairs": [asdict(pair) for pair in KNOWN_PAIRS]}))
        else:
            console.say_all(pair_lines(KNOWN_PAIRS))
        return 0
    if arguments.probe and arguments.target is None:
        raise UsageError("expected a target beside the draft for --probe, got none: name both")
    from specguard_core.backends.parts import describe, describe_pair

    parts = _parts(arguments)
    found = [describe(part) for part in parts]
    verdict = describe_pair(*parts) if len(parts) == 2 else None
    why = None if verdict is None else refusal(verdict)
    speeds = None
    if arguments.probe and why is None:
        speeds = _speeds(arguments, shell)
    if arguments.json:
        told: dict[str, Any] = {"models": [asdict(description) for description in found]}
        told |= {"fits": why is None, "reason": why}
        if verdict is not None:
            told |= {"pair": asdict(verdict), "tokens_per_second": speeds}
        console.say(json_text(told))
    else:
        for description in found:
            console.say_all(model_lines(description, console.paint))
        if verdict is not None:
            console.say(console.paint("as a pair", "strong"))
            console.say_all(verdict_lines(verdict, speeds))
    if why is not None:
        console.note(f"error: {why}")
        return 1
    if verdict is not None and not arguments.json:
        console.say("the pair fits")
    return 0


def _parts(arguments: Namespace) -> "list[Part]":
    from specguard_core.backends.parts import Asked, prepared
    from specguard_core.backends.server import is_address

    asked = [
        Asked(
            "draft",
            arguments.draft,
            arguments.draft_device or arguments.device,
            arguments.draft_bits,
        )
    ]
    if arguments.target is not None:
        if is_address(arguments.target):
            raise UsageError(
                "expected a target with files to look at, got a server's address: a server is "
                "asked when a run begins"
            )
        device = arguments.target_device or arguments.device
        asked.append(Asked("target", arguments.target, device, arguments.target_bits))
    return [prepared(one, arguments.dtype) for one in asked]


def _speeds(arguments: Namespace, shell: Shell) -> dict[str, float]:
    models = load_named(arguments, shell, arguments.draft, arguments.target)
    system_prompt = DecodeConfig().system_prompt
    speeds = {}
    for role, model in (("draft", models.need_draft()), ("target", models.need_target())):
        shell.console.stage(f"timing the {role}")
        speeds[role] = tokens_per_second(model, models.vocabulary, system_prompt)
    return speeds

"""Flags that the command line and the page share, and what they mean to a loader."""

from argparse import ArgumentParser, Namespace
from typing import TypedDict


class PlaceOptions(TypedDict):
    """Where models go and how they are prompted, by the names load_models has for it."""

    dtype: str
    device: str
    draft_device: str | None
    target_device: str | None
    draft_bits: int | None
    target_bits: int | None
    chat_template: str | None


def add_place_flags(parser: ArgumentParser) -> None:
    """One flag for each of PlaceOptions."""
    dtypes = "auto, float32, bfloat16 or float16"
    devices = "auto, cpu, cuda, cuda:1, mps, or spread: over all there is, the disk included"
    parser.add_argument("--dtype", default="auto", metavar="NAME", help=dtypes)
    parser.add_argument("--device", default="auto", metavar="NAME", help=devices)
    for role in ("draft", "target"):
        parser.add_argument(
            f"--{role}-device", metavar="NAME", help=f"of the {role}, where it is not --device"
        )
        parser.add_argument(
            f"--{role}-bits",
            type=int,
            choices=(8, 4),
            help=f"pack the {role}'s weights, by bitsandbytes: on a CUDA GPU, 4 bits on a CPU",
        )
    parser.add_argument(
        "--chat-template", metavar="FILE", help="Jinja template of prompts, not the tokenizer's own"
    )


def place_options(arguments: Namespace) -> PlaceOptions:
    """What the flags say."""
    return PlaceOptions(
        dtype=arguments.dtype,
        device=arguments.device,
        draft_device=arguments.draft_device,
        target_device=arguments.target_device,
        draft_bits=arguments.draft_bits,
        target_bits=arguments.target_bits,
        chat_template=arguments.chat_template,
    )

"""What goes wrong while a model is fetched or read, told in one sentence. Knows no model.

chain      an error, and those it was raised from: libraries wrap what the hub or the disk said
"""

import errno
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from logging import ERROR, getLogger
from pathlib import Path

import httpx
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import SafetensorError, safe_open
from transformers.utils import logging

from specguard_core.errors import ModelError, SpecGuardError, out_of_memory

_FULL_DISK = {errno.ENOSPC, errno.EDQUOT}
_UNREACHABLE = (
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    httpx.TransportError,
    ConnectionError,
    TimeoutError,
)
_GGUF_KIND = re.compile(r"architecture (\S+) is not supported")


@contextmanager
def told_in_one_sentence(
    location: str, what: str, noun: str = "a causal language model"
) -> Iterator[None]:
    """Whatever a library raises inside, as a ModelError.

    Args:
        location: the folder or hub id that was named.
        what: the part that is being read: configuration, tokenizer or weights.
        noun: what was expected there.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except SpecGuardError:
        raise
    except Exception as error:  # whatever a library raises, the files are of no use
        chain = _chain(error)
        for tell in (_memory, _disk, _hub, _gguf, _damaged):
            sentence = tell(chain, location)
            if sentence is not None:
                raise ModelError(sentence) from error
        raise ModelError(
            f"expected {noun} at {location}, its {what} cannot be read ({_first_line(error)}): "
            "check the name, or the folder's files"
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Our sentences say what is loading and what lacks: no bars and reports of libraries."""
    remarks = [getLogger(name) for name in ("accelerate", "bitsandbytes")]
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    levels = [remark.level for remark in remarks]
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    for remark in remarks:
        remark.setLevel(ERROR)
    try:
        yield
    finally:
        for remark, before in zip(remarks, levels, strict=True):
            remark.setLevel(before)
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _memory(chain: list[BaseException], location: str) -> str | None:
    if not any(map(out_of_memory, chain)):
        return None
    return (
        f"expected enough memory for the weights of {location}, it ran out: name a smaller model, "
        "or ask `models` what this one needs"
    )


def _disk(chain: list[BaseException], location: str) -> str | None:
    full = any(
        (isinstance(error, OSError) and error.errno in _FULL_DISK)
        or "no space left on device" in str(error).lower()
        for error in chain
    )
    if not full:
        return None
    return (
        f"expected room on the disk for {location}, it is full: free some, or set HF_HOME to a "
        "folder on another disk"
    )


def _hub(chain: list[BaseException], location: str) -> str | None:
    def came(*kinds: type[BaseException]) -> bool:
        return any(isinstance(error, kinds) for error in chain)

    if came(GatedRepoError):
        return (
            f"expected access to {location}, it is gated: accept its terms at "
            f"https://huggingface.co/{location}, then `hf auth login` or set HF_TOKEN"
        )
    if came(RevisionNotFoundError):
        return (
            f"expected a branch, tag or commit of {location} after the @, it has no such: see "
            f"https://huggingface.co/{location}/commits/main"
        )
    if came(RepositoryNotFoundError):
        return (
            f"expected a model on the hub, {location} is not there or is private: check the name, "
            "or `hf auth login`"
        )
    if came(*_UNREACHABLE) or any("couldn't connect to" in str(error) for error in chain):
        return (
            f"expected {location} on this machine or a hub that answers, got neither: connect to "
            "the network, or name a folder"
        )
    return None


def _gguf(chain: list[BaseException], location: str) -> str | None:
    for error in chain:
        if match := _GGUF_KIND.search(str(error)):
            return (
                f"expected a GGUF file of a kind that transformers reads, the one in {location} is "
                f"of kind {match[1]}: name the model's original folder or hub id"
            )
    return None


def _damaged(chain: list[BaseException], location: str) -> str | None:
    if not any(isinstance(error, SafetensorError) for error in chain):
        return None
    name = next(filter(_is_damaged, sorted(Path(location).glob("*.safetensors"))), None)
    which = "a file" if name is None else name.name
    return (
        f"expected whole weights at {location}, {which} is damaged or only half there: fetch it "
        "again"
    )


def _is_damaged(path: Path) -> bool:
    try:
        with safe_open(path, "pt"):
            return False
    except SafetensorError:
        return True


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain:
        chain.append(at)
        at = at.__cause__ or at.__context__
    return chain


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__

"""Speculative decoding that checks whole reasoning steps, one transition at a time.

Public names resolve on first use, so that importing the package loads no model library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specguard_core.backends.hf import load_models as load_models
    from specguard_core.config import DecodeConfig as DecodeConfig
    from specguard_core.decoder.step import advance as advance
    from specguard_core.decoder.step import advance_many as advance_many
    from specguard_core.decoder.step import decode as decode
    from specguard_core.decoder.step import start as start
    from specguard_core.evidence import Evidence as Evidence
    from specguard_core.presets import preset as preset
    from specguard_core.regate import Regate as Regate
    from specguard_core.regate import regate as regate
    from specguard_core.trace_io import load_trace as load_trace
    from specguard_core.trace_io import save_trace as save_trace
    from specguard_core.types import Trace as Trace

_HOMES = {
    "DecodeConfig": "config",
    "Evidence": "evidence",
    "Regate": "regate",
    "Trace": "types",
    "advance": "decoder.step",
    "advance_many": "decoder.step",
    "decode": "decoder.step",
    "load_models": "backends.hf",
    "load_trace": "trace_io",
    "preset": "presets",
    "regate": "regate",
    "save_trace": "trace_io",
    "start": "decoder.step",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'specguard_core' has no attribute {name!r}")
    value = getattr(import_module(f"specguard_core.{_HOMES[name]}"), name)
    globals()[name] = value
    return value

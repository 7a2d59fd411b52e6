"""What surrounds a command, and what every command does with its flags. Reads no environment."""

import json
import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO, Unpack

from specguard_core import bundled
from specguard_core.calibration import checked_calibration, default_calibration
from specguard_core.commands.console import Console
from specguard_core.commands.flags import PlaceOptions, place_options
from specguard_core.config import DecodeConfig
from specguard_core.errors import SpecGuardError, UsageError
from specguard_core.lm import Models
from specguard_core.presets import PresetName, changed, default_preset, preset
from specguard_core.strategies import STRATEGIES, StepStrategy
from specguard_core.trace_io import load_calibration
from specguard_core.types import Calibration


class Loader(Protocol):
    """As backends.hf.load_models."""

    def __call__(
        self,
        draft: str | None,
        target: str | None,
        *,
        reward: str | None,
        on_stage: Callable[[str], None] | None,
        on_note: Callable[[str], None] | None,
        **places: Unpack[PlaceOptions],
    ) -> Models: ...


@dataclass(frozen=True, slots=True)
class Shell:
    """What surrounds a command."""

    console: Console
    stdin: TextIO
    load: Loader


def exit_code(error: SpecGuardError) -> int:
    """2 where the request itself is wrong, 1 where a run failed."""
    return 2 if isinstance(error, UsageError) else 1


def sentence_of(error: BaseException) -> str:
    """What any error says, in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, SpecGuardError):
        return text
    return f"unexpected {type(error).__name__}: {text}" if text else type(error).__name__


def config_of(arguments: Namespace) -> DecodeConfig:
    """The preset, then --set, then --strategy and --seed.

    Raises:
        ConfigError: an unknown name (answered with the menu) or a value out of range.
    """
    settings = list(arguments.set)
    if arguments.strategy is not None:
        settings.append(f"strategy={arguments.strategy}")
    if arguments.seed is not None:
        settings.append(f"seed={arguments.seed}")
    return changed(preset(preset_name(arguments)), settings)


def preset_name(arguments: Namespace) -> str:
    """What --preset names, else the default of the pair that is named."""
    if arguments.preset is not None:
        return str(arguments.preset)
    return fitting_preset(arguments.draft, arguments.target, arguments.calibration)


def fitting_preset(draft: str, target: str | None, calibration: str | None) -> PresetName:
    """The default of a pair: `calibration` is a file or `none`; None: the draft folder's own."""
    from specguard_core.backends.server import is_address

    if calibration is None:
        calibrated = (Path(draft) / bundled.CALIBRATION_NAME).is_file()
    else:
        calibrated = calibration != "none"
    reads = target is not None and not is_address(target)
    return default_preset(calibrated=calibrated, target_reads=reads)


def load_called(arguments: Namespace, shell: Shell, configs: Sequence[DecodeConfig]) -> Models:
    """Only the models that the strategies call."""
    called = [(STRATEGIES[config.strategy], config) for config in configs]
    drafts = any(strategy.drafts(config) for strategy, config in called)
    targets = any(strategy.needs_target for strategy, _ in called)
    judged = any(isinstance(row, StepStrategy) and row.judge == "reward" for row, _ in called)
    return load_named(
        arguments,
        shell,
        arguments.draft if drafts else None,
        arguments.target if targets else None,
        reward_of(arguments) if judged else None,
    )


def reward_of(arguments: Namespace) -> str:
    """The reward model that is named, or the one that belongs to the bundled pair.

    Raises:
        UsageError: none is named, and the pair is another.
    """
    if (known := known_reward(arguments)) is not None:
        return known
    raise UsageError(
        "expected --reward, a folder or hub id of a reward model, got none: this strategy judges "
        "by one, and none that fits this pair ships with it"
    )


def known_reward(arguments: Namespace) -> str | None:
    """The reward model that is named, else the bundled pair's own; None where there is none."""
    if arguments.reward is not None:
        return str(arguments.reward)
    ours = (arguments.draft, arguments.target) == (str(bundled.DRAFT), str(bundled.TARGET))
    return str(bundled.REWARD) if ours and bundled.REWARD.is_dir() else None


def load_named(
    arguments: Namespace,
    shell: Shell,
    draft: str | None,
    target: str | None,
    reward: str | None = None,
) -> Models:
    """The models named, each stage told."""
    return shell.load(
        draft,
        target,
        reward=reward,
        on_stage=shell.console.stage,
        on_note=shell.console.note,
        **place_options(arguments),
    )


def calibration_of(arguments: Namespace, models: Models) -> Calibration | None:
    """What --calibration names; the draft folder's own where it names nothing."""
    if arguments.calibration is None:
        return default_calibration(models)
    if arguments.calibration == "none":
        return None
    return checked_calibration(load_calibration(arguments.calibration), models)


def check_out(path: str | None) -> None:
    """Refuse a place that cannot be written before the work, not after it."""
    if path is None:
        return
    folder = Path(path).parent
    if not folder.is_dir():
        raise UsageError(f"expected a file in a folder that exists, got {path}: make {folder}")
    if Path(path).is_dir():
        raise UsageError(f"expected a file, got the folder {path}: name a file in it")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"expected a folder that can be written, got {folder}: name another")


def json_text(value: Any) -> str:
    """JSON for machines."""
    return json.dumps(value, indent=1, allow_nan=False)

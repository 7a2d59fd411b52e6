"""A forward pass as a plain list of tensor operations. Knows no attention, no cache, no sampling.

Where a model is small, most of a pass is the Python that chooses the operations: modules,
decorators, configuration, output classes. Passes over inputs of one shape choose the same ones each
time. They are recorded once and then played, which gives the same bits in less time.

tape        the operations of a pass, as one Python function
slot        a tensor that a pass is given or makes
constant    whatever else an operation takes: weights, sizes, numbers
unfit       a pass whose operations depend on what its tensors hold, or that uses a tensor which is
            neither made in the pass nor a weight: it cannot be recorded

A recording is proof of one pass only. That no operation depends on a position is shown by a second
recording with other inputs: `same_operations` compares the two.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

Pass = Callable[..., tuple[Tensor, ...]]

_SAYS_WHAT_A_TENSOR_IS = frozenset(
    ("dim", "size", "numel", "nelement", "stride", "element_size", "__len__", "get_device")
) | frozenset(("is_floating_point", "is_complex", "is_contiguous", "is_inference"))
_MAY_GIVE_BACK_ITS_INPUT = frozenset(("to", "float", "contiguous", "type_as"))
_DEPENDS_ON_DATA = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class UnfitError(Exception):
    """A pass that cannot be recorded."""


@dataclass(frozen=True, slots=True)
class Tape:
    """`play` takes the pass's inputs and gives its outputs; `constants` are those of `source`."""

    play: Pass
    source: str
    constants: tuple[Any, ...]


def record(
    run: Pass, inputs: Sequence[Tensor], weights: Iterable[Tensor]
) -> tuple[Tape, tuple[Tensor, ...]]:
    """The operations of `run(*inputs)`, and what it gave.

    Raises:
        UnfitError: as in the file's first lines.
    """
    recorder = _Recorder(inputs, weights)
    with _Watch(), recorder:
        outputs = run(*inputs)
    return recorder.tape(outputs), outputs


def same_operations(one: Tape, other: Tape) -> bool:
    """Whether both do the same with their inputs, whatever these hold."""
    return one.source == other.source and all(
        mine is yours
        or (not isinstance(mine, Tensor) and type(mine) is type(yours) and mine == yours)
        for mine, yours in zip(one.constants, other.constants, strict=True)
    )


class _Watch(TorchDispatchMode):
    """Refuses operators whose result has a shape or a number that the data decides."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # so in torch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(tag in func.tags for tag in _DEPENDS_ON_DATA):
            raise UnfitError(f"{func} depends on what a tensor holds")
        return func(*args, **(kwargs or {}))


class _Recorder(TorchFunctionMode):
    """Writes down every torch function called while it is open."""

    def __init__(self, inputs: Sequence[Tensor], weights: Iterable[Tensor]) -> None:
        super().__init__()
        self._weights = {id(weight) for weight in weights}
        self._lines: list[str] = []
        self._constants: list[Any] = []
        self._slots: dict[int, str] = {}
        # Kept alive, so that no other tensor gets the same id.
        self._tensors: list[Tensor] = []
        self._inputs = [self._new_slot(tensor) for tensor in inputs]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        name = func.__name__
        if isinstance(output, Tensor):
            if name not in _MAY_GIVE_BACK_ITS_INPUT or id(output) not in self._slots:
                self._write(self._call(func, args, kwargs), [output])
        elif isinstance(output, tuple | list) and any(isinstance(o, Tensor) for o in output):
            if not all(isinstance(o, Tensor) for o in output):
                raise UnfitError(f"{name} gives tensors among other things")
            self._write(self._call(func, args, kwargs), output)
        elif output is None:
            self._lines.append(self._call(func, args, kwargs))
        elif name != "__get__" and name not in _SAYS_WHAT_A_TENSOR_IS:
            raise UnfitError(f"{name} takes a value out of a tensor")
        return output

    def tape(self, outputs: Sequence[Tensor]) -> Tape:
        returned = ", ".join(self._expression(output) for output in outputs)
        lines = [f"def play({', '.join(self._inputs)}):", *self._lines, f"return {returned},"]
        source = "\n    ".join(lines)
        namespace = {f"c{number}": constant for number, constant in enumerate(self._constants)}
        # The source is names of slots and constants, and literals: nobody else's text.
        exec(compile(source, "<tape>", "exec"), namespace)  # noqa: S102
        return Tape(namespace["play"], source, tuple(self._constants))

    def _write(self, call: str, outputs: Sequence[Tensor]) -> None:
        names = [self._slots.get(id(output)) or self._new_slot(output) for output in outputs]
        comma = "" if len(names) == 1 else ","
        self._lines.append(f"{', '.join(names)}{comma} = {call}")

    def _call(self, func: Any, args: Any, kwargs: Any) -> str:
        given = [self._expression(value) for value in args]
        given += [f"{name}={self._expression(value)}" for name, value in kwargs.items()]
        return f"{self._constant(func)}({', '.join(given)})"

    def _expression(self, value: Any) -> str:
        if isinstance(value, Tensor):
            slot = self._slots.get(id(value))
            if slot is not None:
                return slot
            if id(value) not in self._weights:
                raise UnfitError("a tensor comes from outside the pass and is no weight")
            return self._constant(value)
        if type(value) in (tuple, list):
            inside = "".join(f"{self._expression(item)}, " for item in value)
            return f"({inside})" if type(value) is tuple else f"[{inside}]"
        if type(value) is slice:
            parts = (value.start, value.stop, value.step)
            return f"{self._constant(slice)}({', '.join(map(self._expression, parts))})"
        if value is None or value is Ellipsis or type(value) in (bool, int, str):
            return repr(value)
        return self._constant(value)

    def _constant(self, value: Any) -> str:
        self._constants.append(value)
        return f"c{len(self._constants) - 1}"

    def _new_slot(self, tensor: Tensor) -> str:
        self._tensors.append(tensor)
        name = self._slots[id(tensor)] = f"t{len(self._tensors)}"
        return name

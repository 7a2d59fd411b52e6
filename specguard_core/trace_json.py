"""Frozen dataclasses to JSON and back, driven by their type hints. Knows no file, and of all
classes only DecodeConfig by name.

codec      the two directions of one type, made from its hints: a new field needs nothing here
mismatch   JSON that is not of the type; it knows the place, e.g. units.3.cost
absent     a field left out of the file because it holds its default of None or ()
"""

import base64
import math
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from specguard_core import config
from specguard_core.config import DecodeConfig

MAX_ENTRIES = 1_000_000


@dataclass(frozen=True, slots=True)
class Codec:
    """Both directions of one type; `decode(encode(value)) == value`."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


class MismatchError(ValueError):
    """JSON that is not what the type says; the place is filled in while it travels outwards."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.place: list[str] = []

    def inside(self, name: object) -> "MismatchError":
        self.place.insert(0, str(name))
        return self

    def __str__(self) -> str:
        where = f" at {'.'.join(self.place)}" if self.place else ""
        return f"{self.args[0]}{where}"


@cache
def codec(kind: Any) -> Codec:
    """The codec of a type: a dataclass of scalars, bytes, Literals, unions, tuples and Mappings."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if is_dataclass(kind) and isinstance(kind, type):
        return _dataclass_codec(kind)
    if origin is Literal:
        return Codec(_plain, lambda value: _out_of(arguments, value))
    if origin in (Union, UnionType):
        return _union_codec(arguments)
    if origin is tuple:
        return _tuple_codec(arguments)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_codec(*arguments)
    raise TypeError(f"expected a type that can be saved, got {kind}")


def _dataclass_codec(kind: type[Any]) -> Codec:
    hints = get_type_hints(kind)
    known = {f.name: codec(hints[f.name]) for f in fields(kind)}
    decoders = {name: field_codec.decode for name, field_codec in known.items()}
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    absent = {f.name: f.default for f in fields(kind) if f.default is None or f.default == ()}

    def encode(value: Any) -> Any:
        found = {}
        for name, field_codec in known.items():
            item = getattr(value, name)
            if name not in absent or item != absent[name]:
                found[name] = field_codec.encode(item)
        return found

    def decode(data: Any) -> Any:
        found = {}
        name: str | None = None
        try:
            for name, item in _object(data).items():
                if name not in decoders:
                    raise MismatchError(f"an unknown key {name!r}")
                found[name] = decoders[name](item)
        except MismatchError as mismatch:
            raise mismatch if name not in decoders else mismatch.inside(name) from None
        for name in needed:
            if name not in found:
                raise MismatchError(f"no {name!r}")
        try:
            return kind(**found)
        except ValueError as error:
            raise MismatchError(str(error)) from None

    return Codec(encode, decode)


def _union_codec(arms: tuple[Any, ...]) -> Codec:
    named = [arm for arm in arms if arm is not NoneType]
    optional = len(named) < len(arms)
    if len(named) > 1 and all(is_dataclass(arm) for arm in named):
        return _one_of_classes(named, optional=optional)
    others = [codec(arm) for arm in named]
    only = others[0] if len(others) == 1 else None
    writer = only or codec(object)

    def encode(value: Any) -> Any:
        return None if value is None and optional else writer.encode(value)

    def decode(data: Any) -> Any:
        if data is None and optional:
            return None
        # With one arm its own words are the clearest, place included.
        if only is not None:
            return only.decode(data)
        for arm in others:
            with suppress(MismatchError):
                return arm.decode(data)
        raise MismatchError(f"{_short(data)}, none of its kinds")

    return Codec(encode, decode)


def _one_of_classes(kinds: list[Any], *, optional: bool) -> Codec:
    """An object is read as the class whose fields it names most of, and judged by that one."""
    codecs = {kind: codec(kind) for kind in kinds}
    names = {kind: {f.name for f in fields(kind)} for kind in kinds}

    def encode(value: Any) -> Any:
        return None if value is None and optional else codecs[type(value)].encode(value)

    def decode(data: Any) -> Any:
        if data is None and optional:
            return None
        found = _object(data).keys()
        return codecs[max(kinds, key=lambda kind: len(found & names[kind]))].decode(data)

    return Codec(encode, decode)


def _tuple_codec(arguments: tuple[Any, ...]) -> Codec:
    many = len(arguments) == 2 and arguments[1] is Ellipsis

    entries = tuple(codec(argument) for argument in arguments if argument is not Ellipsis)
    of_floats = arguments == (float, Ellipsis)

    def codecs(n_items: int) -> tuple[Codec, ...]:
        return entries * n_items if many else entries

    def encode(value: Any) -> Any:
        return [one.encode(item) for one, item in zip(codecs(len(value)), value, strict=True)]

    def decode(data: Any) -> Any:
        if not isinstance(data, list):
            raise MismatchError(f"{_short(data)} instead of a list")
        if len(data) > MAX_ENTRIES:
            raise MismatchError(
                f"a list of {len(data):,} entries instead of at most {MAX_ENTRIES:,}"
            )
        if not many and len(data) != len(entries):
            raise MismatchError(f"{len(data)} entries instead of {len(entries)}")
        # Most of a long trace are lists of numbers: a run of 4,000 tokens has 250,000 of them.
        if of_floats and set(map(type, data)) <= {float} and all(map(math.isfinite, data)):
            return tuple(data)
        found: list[Any] = []
        try:
            for one, item in zip(codecs(len(data)), data, strict=True):
                found.append(one.decode(item))
        except MismatchError as mismatch:
            raise mismatch.inside(len(found)) from None
        return tuple(found)

    return Codec(encode, decode)


def _mapping_codec(key_kind: Any, value_kind: Any) -> Codec:
    order = {name: index for index, name in enumerate(get_args(key_kind))}
    key_codec, value_codec = codec(key_kind), codec(value_kind)

    def encode(value: Any) -> Any:
        # The order of a mapping is free: the menu's where keys come from one, else sorted.
        keys = sorted(value, key=lambda key: (order.get(key, 0), key))
        return {str(key): value_codec.encode(value[key]) for key in keys}

    def decode(data: Any) -> Any:
        found = {}
        for name, item in _object(data).items():
            try:
                key = _whole_key(name) if key_kind is int else key_codec.decode(name)
                found[key] = value_codec.decode(item)
            except MismatchError as mismatch:
                raise mismatch.inside(name) from None
        return found

    return Codec(encode, decode)


def _object(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise MismatchError(f"{_short(data)} instead of an object")
    return data


def _whole_key(name: str) -> int:
    if len(name) > 18 or not name.isascii() or not name.removeprefix("-").isdigit():
        raise MismatchError(f"the key {_short(name)} instead of a whole number")
    return int(name)


def _out_of(menu: tuple[Any, ...], value: Any) -> Any:
    for choice in menu:
        if type(choice) is type(value) and choice == value:
            return choice
    raise MismatchError(f"{_short(value)} instead of one of {', '.join(map(str, menu))}")


def _exactly(kind: type, noun: str) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        if type(value) is not kind:
            raise MismatchError(f"{_short(value)} instead of {noun}")
        return value

    return decode


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise MismatchError(f"{_short(value)} instead of a number")
    try:
        number = float(value)
    except OverflowError:
        raise MismatchError("a number that is too large") from None
    if not math.isfinite(number):
        raise MismatchError("a number that is not finite")
    return number


def _finite_float(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number to save, got {number}: measure it or use None")
    return number


def _plain(value: Any) -> Any:
    """A value of no declared type: JSON's own kinds, numpy's scalars and sequences of them."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return _finite_float(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in sorted(value.items())}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    raise TypeError(f"expected a value that can be saved, got {type(value).__name__}")


def _frozen(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _frozen(item) for key, item in data.items()}
    return tuple(map(_frozen, data)) if isinstance(data, list) else data


def _from_base64(data: Any) -> bytes:
    if not isinstance(data, str):
        raise MismatchError(f"{_short(data)} instead of base64 text")
    try:
        return base64.b64decode(data.encode("ascii"), validate=True)
    except ValueError:
        raise MismatchError(f"{_short(data)} instead of base64 text") from None


def _config_from_json(data: Any) -> DecodeConfig:
    try:
        return config.from_json(_object(data))
    except MismatchError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise MismatchError(str(error)) from None


def _short(value: Any) -> str:
    text = f"{value!r}"
    return text if len(text) <= 40 else f"{text[:37]}..."


_SCALARS: dict[Any, Codec] = {
    bool: Codec(bool, _exactly(bool, "true or false")),
    int: Codec(operator.index, _exactly(int, "a whole number")),
    float: Codec(_finite_float, _number),
    str: Codec(str, _exactly(str, "a text")),
    bytes: Codec(lambda value: base64.b64encode(value).decode("ascii"), _from_base64),
    object: Codec(_plain, _frozen),
    DecodeConfig: Codec(config.to_json, _config_from_json),
}

"""Where the values of one ``add`` are checked and cast, before anything in the memory changes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray
from needreplay.replay import native
from needreplay.replay.schema import flattened

Target = tuple[str, AnyArray, tuple[int, ...], np.dtype[Any], set[Any], set[type]]
"""Name, the array to fill, its shape and dtype, dtypes known to fit, types of numbers that do."""

_ARRAY = np.ndarray
_NUMBERS = "biufc"

_SCALARS: dict[str, tuple[type, ...]] = {
    "f": (float, int, bool),
    "i": (int, bool),
    "u": (int, bool),
    "b": (bool,),
}


class Staging:
    """Named arrays of ``size`` entries each, filled from what a caller gives.

    A value has the shape of its array, or, where ``size`` is 1, may lack the leading axis. It may
    be cast as long as its kind allows: float64 to float32, but not a float to an integer.
    """

    def __init__(self, targets: Mapping[str, AnyArray], size: int) -> None:
        self.size = size
        self._names = frozenset(targets)
        self._nested = any("/" in name for name in targets)
        self._batched = [_target(name, target) for name, target in targets.items()]
        self._single = [_target(name, target[0, ...]) for name, target in targets.items()]
        self._first, first = next(iter(targets.items()))
        self._first_ndim = first.ndim
        self._native = native.columns_of(dict(targets))

    def fill(self, values: Mapping[str, Any]) -> None:
        """Write every value into its array, or raise in prose."""
        if self._nested:
            values = flattened(values)
        if self._native is not None and (
            (self.size == 1 and self._native.put(values, 0)) or self._native.put_all(values)
        ):
            return
        if len(values) != len(self._names):
            self._refuse_names(values)
        name = self._first
        try:
            targets = self._batched if self.size > 1 else self._axes_of(values[name])
            for name, target, shape, dtype, castable, scalars in targets:
                value = values[name]
                if type(value) is not _ARRAY:
                    if type(value) in scalars:
                        target[...] = value
                        continue
                    value = _as_array(name, value, dtype)
                if value.shape != shape:
                    self._refuse_shape(name, value.shape, shape)
                if value.dtype is not dtype and value.dtype not in castable:
                    _check_cast(name, value.dtype, dtype)
                    castable.add(value.dtype)
                target[...] = value
                if not shape and value.dtype.kind in _NUMBERS:
                    scalars.add(value.dtype.type)
        except KeyError:
            self._refuse_names(values)
        except OverflowError as error:
            raise NeedReplayError(
                f"{name} is {values[name]}, which its column cannot hold; nothing was stored."
            ) from error

    def _axes_of(self, first: Any) -> list[Target]:
        """Targets with the leading axis, or without it if the first value has none."""
        ndim = first.ndim if type(first) is _ARRAY else len(shape_of(first))
        return self._single if ndim < self._first_ndim else self._batched

    def _refuse_shape(self, name: str, given: tuple[int, ...], wanted: tuple[int, ...]) -> NoReturn:
        raise NeedReplayError(
            f"{name} has shape {given}, but {wanted} is taken at a time"
            + (", with or without a leading axis of 1" if self.size == 1 else "")
            + "; nothing was stored."
        )

    def _refuse_names(self, values: Mapping[str, Any]) -> NoReturn:
        missing = sorted(self._names - values.keys())
        unknown = sorted(values.keys() - self._names)
        parts = [f"{', '.join(missing)} missing"] if missing else []
        parts += [f"{', '.join(unknown)} unknown"] if unknown else []
        raise NeedReplayError(
            f"add takes {', '.join(sorted(self._names))}: {' and '.join(parts)}. "
            "Nothing was stored."
        )


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of ``value``, or () if it is nothing that could be an array."""
    shape: tuple[int, ...] = ()
    if isinstance(value, np.ndarray):
        shape = value.shape
    else:
        with contextlib.suppress(ValueError):
            shape = np.shape(value)
    return shape


def _target(name: str, target: AnyArray) -> Target:
    scalars = () if target.shape else _SCALARS.get(target.dtype.kind, ())
    return name, target, target.shape, target.dtype, set(), set(scalars)


def _as_array(name: str, value: Any, kept: np.dtype[Any]) -> AnyArray:
    """An array of what is not one; whole numbers fit any integer column that can hold them."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise NeedReplayError(f"{name} cannot be read as an array: {error}") from error
    if array.dtype.kind in "iu" and kept.kind in "iu" and array.size:
        limits = np.iinfo(kept)
        if array.min() >= limits.min and array.max() <= limits.max:
            return array.astype(kept)
    return array


def _check_cast(name: str, given: np.dtype[Any], kept: np.dtype[Any]) -> None:
    if not np.can_cast(given, kept, casting="same_kind"):
        raise NeedReplayError(
            f"{name} is {given}, but its column is {kept}, which cannot hold it; nothing was "
            "stored. Cast it, or declare the column with another dtype."
        )

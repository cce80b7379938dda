"""What a caller tells of transitions, as arrays of numbers, or an error in prose.

numpy reads much as numbers that was hardly meant so: text, dates, complex numbers without their
imaginary part, masked entries without their mask.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray, FloatArray, IntArray

KERNEL_FLOATS = np.dtype(np.float64), np.dtype(np.float32)
"""What a kernel takes as it is; everything else is made float64 first."""

_STATES = "give a vector of whole numbers, one for each id. Nothing was changed."
_FEATURES = "give real numbers, one row for each id. Nothing was changed."


def real_numbers(name: str, values: Any, to_do: str) -> FloatArray:
    """``values`` as float64 in any shape; ``to_do`` ends the message if they cannot be."""
    array = _as_array(name, values, to_do)
    if array.dtype == np.float64:
        return np.asarray(array, order="C")
    if array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # infinity is for the caller to judge
            return np.asarray(array, dtype=np.float64, order="C")
    if array.dtype.kind == "O" and all(isinstance(entry, Real) for entry in array.flat):
        try:
            return array.astype(np.float64)
        except OverflowError as error:
            raise NeedReplayError(
                f"{name} holds a number beyond float64 ({error}); {to_do}"
            ) from error
    raise NeedReplayError(f"{name} is {array.dtype} of shape {array.shape}; {to_do}")


def whole_numbers(name: str, values: Any, to_do: str) -> IntArray:
    """``values`` as a vector of int64; ``to_do`` ends the message if they cannot be."""
    array = _as_array(name, values, to_do)
    if array.shape != (0,) and (array.ndim != 1 or array.dtype.kind not in "iu"):
        raise NeedReplayError(f"{name} is {array.dtype} of shape {array.shape}; {to_do}")
    return np.asarray(array, dtype=np.int64)


def feature_rows(features: ArrayLike) -> AnyArray:
    """``features`` as an array that a kernel can read, of any shape."""
    if type(features) is np.ndarray and features.dtype in KERNEL_FLOATS:
        return features
    return real_numbers("features", features, _FEATURES)


def states_told(states: ArrayLike) -> IntArray:
    """``states`` as a vector of int64."""
    return whole_numbers("states", states, _STATES)


def _as_array(name: str, values: Any, to_do: str) -> AnyArray:
    if isinstance(values, np.ma.MaskedArray):
        raise NeedReplayError(f"{name} is a masked array, whose mask would be lost; {to_do}")
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise NeedReplayError(f"{name} cannot be read as an array ({error}); {to_do}") from error

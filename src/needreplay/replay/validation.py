"""Validation: what callers pass becomes arrays that kernels can read, or is rejected with a reason.

numpy converts a lot that was hardly meant as a number: text, dates, complex numbers without their
imaginary part, masked entries without their mask. All of it is rejected here. Every check runs
before anything changes, so a call that raises leaves the buffer as it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, AnyDtype, FloatArray, IntArray
from needreplay.replay._kernels.kernel import current, largest_of

MIN_PRIORITY, MAX_PRIORITY = 1e-100, 1e100
"""A priority is 0 or in this range: sums, quotients and products with need are then exact."""
FIRST_PRIORITY = 1.0
"""The priority of new transitions until a larger one is set."""

MIN_NEED, MAX_NEED = 1e-100, 1e100
"""The largest entry of a need query, in absolute value, is 0 or in this range."""

_ID = np.dtype(np.int64)
_UNCHANGED = "Nothing was changed."


# Settings ----------------------------------------------------------------------------------------


def flag(name: str, value: object) -> bool:
    """``value`` as a plain bool."""
    if not isinstance(value, bool | np.bool_):
        raise NeedReplayError(f"{name} is {value!r}; it must be True or False.")
    return bool(value)


# Numbers -----------------------------------------------------------------------------------------


def as_floats(name: str, values: object, advice: str) -> FloatArray:
    """``values`` as float64 of any shape; ``advice`` ends the message if they are not."""
    array = _as_array(name, values, advice)
    if array.dtype == np.float64:
        return np.asarray(array, order="C")
    if array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # the caller checks for infinity
            return np.asarray(array, dtype=np.float64, order="C")
    if array.dtype.kind == "O" and all(isinstance(entry, Real) for entry in array.flat):
        try:
            return array.astype(np.float64)
        except OverflowError as error:
            raise NeedReplayError(
                f"{name} has a number beyond float64 ({error}); {advice}"
            ) from error
    raise NeedReplayError(f"{name} is {array.dtype} of shape {array.shape}; {advice}")


def as_integers(name: str, values: object, advice: str) -> IntArray:
    """``values`` as a vector of int64; ``advice`` ends the message if they are not."""
    array = _as_array(name, values, advice)
    if array.shape != (0,) and (array.ndim != 1 or array.dtype.kind not in "iu"):
        raise NeedReplayError(f"{name} is {array.dtype} of shape {array.shape}; {advice}")
    return np.asarray(array, dtype=np.int64)


def _as_array(name: str, values: object, advice: str) -> AnyArray:
    if isinstance(values, np.ma.MaskedArray):
        raise NeedReplayError(f"{name} is a masked array, and its mask would be lost; {advice}")
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise NeedReplayError(f"{name} cannot be read as an array ({error}); {advice}") from error


def as_features(features: ArrayLike) -> FloatArray:
    """``features`` as an array that a kernel can read, of any shape."""
    return as_floats("features", features, f"pass real numbers, one row per id. {_UNCHANGED}")


def check_states(states: IntArray, n_states: int) -> None:
    """Raise for states outside 0 to ``n_states`` - 1."""
    if len(states) and not (states.min() >= 0 and states.max() < n_states):
        raise NeedReplayError(
            f"states has values from {states.min()} to {states.max()}, but the sampler was made "
            f"for {n_states} states, numbered from 0. {_UNCHANGED}"
        )


def check_need(
    need: AnyArray | None, length: int, meaning: str, size: int | None = None
) -> FloatArray:
    """``need`` as float64: ``length`` finite numbers, or ``size`` rows of as many.

    Args:
        need: what the caller passed to ``sample``.
        length: how many entries a query has.
        meaning: what an entry stands for, used in the message ("one per state").
        size: how many rows are sampled, if each may have a query of its own.
    """
    if need is None:
        raise NeedReplayError(
            f"need is missing: this sampler takes {length} numbers ({meaning}). "
            "Nothing was sampled."
        )
    advice = f"pass {length} real numbers ({meaning}). Nothing was sampled."
    query = as_floats("need", need, advice)
    if query.shape not in ((length,), (size, length)):
        rows = f", or {(size, length)}, a query for each sampled row" if size is not None else ""
        raise NeedReplayError(
            f"need has shape {query.shape}, but {length} numbers are expected ({meaning}): pass "
            f"shape {(length,)}{rows}. Nothing was sampled."
        )
    if query.ndim == 1 and ((entry := largest_of(query)) == 0.0 or MIN_NEED <= entry <= MAX_NEED):
        return query
    largest = np.abs(query).max(axis=-1, initial=0.0)
    fine = (largest == 0.0) | ((largest >= MIN_NEED) & (largest <= MAX_NEED))
    if not fine.all():
        row = int(np.argmin(fine))
        name = f"need[{row}]" if query.ndim == 2 else "need"
        raise NeedReplayError(
            f"{name} is {largest.flat[row]:g} where it is largest; it must be 0 everywhere, or "
            f"from {MIN_NEED:g} to {MAX_NEED:g} there (NaN and infinity are not). Nothing was "
            "sampled."
        )
    return query


def check_beta(beta: Any, name: str = "beta") -> float:
    """``beta`` as a float, if it is a real number from 0 to 1."""
    number = beta
    if getattr(beta, "ndim", None) == 0 and not isinstance(beta, np.ma.MaskedArray):
        number = beta.item()
    is_real = isinstance(number, Real) and not isinstance(number, bool)
    share = float(number) if is_real and 0 <= number <= 1 else math.nan
    if math.isnan(share):
        raise NeedReplayError(
            f"{name} is {beta!r}; it must be a number from 0 (no correction) to 1 (full "
            "correction)."
            + (
                " One that grows is LinearBeta(start, end, batches), beta of ReplayBuffer."
                if isinstance(beta, list | tuple)
                else ""
            )
        )
    return share


# Ids and priorities ------------------------------------------------------------------------------


def as_ids(ids: ArrayLike) -> IntArray:
    """``ids`` as a vector of int64."""
    if type(ids) is np.ndarray and ids.dtype is _ID and ids.ndim == 1:
        return ids
    return as_integers("ids", ids, f"pass a vector of integers, such as batch.ids. {_UNCHANGED}")


def current_slots(
    ids: IntArray, oldest_id: int, next_id: int, capacity: int
) -> tuple[int, IntArray, IntArray]:
    """How many of ``ids`` were overwritten; the indices and slots of those that count."""
    bad, overwritten, chosen = current(np.ascontiguousarray(ids), oldest_id, next_id)
    if bad >= 0:
        raise NeedReplayError(
            f"ids[{bad}] is {ids[bad]}, which never existed: ids so far are 0 to {next_id - 1}. "
            f"{_UNCHANGED}"
        )
    return overwritten, chosen, ids[chosen] % capacity


def as_priorities(priorities: ArrayLike, ids: IntArray) -> FloatArray:
    """``priorities`` as a vector, one for each id, each 0 or within the range."""
    advice = f"pass a vector of real numbers, one per id. {_UNCHANGED}"
    array = as_floats("priorities", priorities, advice)
    if array.shape != ids.shape:
        raise NeedReplayError(
            f"priorities has shape {array.shape} and ids {ids.shape}; pass one priority per id. "
            f"{_UNCHANGED}"
        )
    fine = (array == 0.0) | ((array >= MIN_PRIORITY) & (array <= MAX_PRIORITY))
    if not fine.all():
        bad = int(np.argmin(fine))
        raise NeedReplayError(
            f"priorities[{bad}] is {array[bad]}; a priority must be 0, or a number from "
            f"{MIN_PRIORITY:g} to {MAX_PRIORITY:g}. {_UNCHANGED}"
        )
    return array


def is_within(numbers: AnyArray, low: float, end: float) -> bool:
    """Whether low <= n < end for all ``numbers``; NaN is not."""
    return bool(np.all((numbers >= low) & (numbers < end)))


# Columns -----------------------------------------------------------------------------------------


def as_columns(
    targets: Mapping[str, AnyArray],
    size: int,
    values: Mapping[str, object],
    lead: tuple[int, ...] | None = None,
    axes: str = "",
) -> dict[str, AnyArray]:
    """``values``, checked, as new arrays of ``size`` rows like those of ``targets``.

    ``lead`` and ``axes`` are for messages: the axes of rows that were passed, and what they mean.
    Where ``size`` is 1 the leading axis may be missing. A value may be cast within its kind
    (float64 to float32), but not across kinds (a float to an integer), nor where it does not fit.
    """
    if values.keys() != targets.keys():
        _reject_names(targets, values)
    first, target = next(iter(targets.items()))
    single = size == 1 and len(shape_of(values[first])) < target.ndim
    columns = {}
    for name, target in targets.items():
        rows = np.zeros((size, *target.shape[1:]), dtype=target.dtype)
        part = rows[0, ...] if single else rows
        array = _as_column(name, values[name], target.dtype)
        if array.shape != part.shape:
            expected = part.shape if lead is None or single else (*lead, *part.shape[1:])
            raise NeedReplayError(
                f"{name} has shape {array.shape}, but add takes {expected} here"
                + (", with or without a leading axis of 1" if size == 1 and not axes else "")
                + f"{axes}; nothing was stored."
            )
        with np.errstate(over="ignore"):
            part[...] = array
        if part.dtype.kind in "fc" and array.dtype != part.dtype:
            overflown = np.isinf(part) & np.isfinite(array)
            if overflown.any():
                raise NeedReplayError(
                    f"{name} has {array[overflown].flat[0]}, beyond the largest {part.dtype}, "
                    "which is the dtype of its column; nothing was stored. Scale it, or declare "
                    "the column with a wider dtype."
                )
        columns[name] = rows
    return columns


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of ``value``, or () if it is not an array."""
    try:
        return np.shape(value)
    except ValueError:
        return ()


OWN_NAME = {
    "done": "terminated and truncated",
    "dones": "terminated and truncated",
    "act": "action",
    "actions": "action",
    "rew": "reward",
    "rewards": "reward",
    "observation": "obs",
    "observations": "obs",
    "next_observation": "next_obs",
    "next_observations": "next_obs",
    "next_state": "next_obs",
    "obs_next": "next_obs",
}
"""What other libraries call the columns of a step."""


def _reject_names(targets: Mapping[str, AnyArray], values: Mapping[str, object]) -> NoReturn:
    missing = sorted(targets.keys() - values.keys())
    unknown = sorted(values.keys() - targets.keys())
    parts = [f"{', '.join(missing)} missing"] if missing else []
    parts += [f"{', '.join(unknown)} unknown"] if unknown else []
    hints = [f" Pass {name} as {OWN_NAME[name]}." for name in unknown if name in OWN_NAME]
    raise NeedReplayError(
        f"add takes {', '.join(sorted(targets))}: {' and '.join(parts)}. Nothing was stored."
        + "".join(hints if "terminated" in targets else [])
    )


def _as_column(name: str, value: object, dtype: AnyDtype) -> AnyArray:
    """``value`` as an array that a column of ``dtype`` can hold."""
    array = _as_array(name, value, "nothing was stored.")
    if array.dtype == dtype:
        return array
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        fits = not array.size or (array.min() >= limits.min and array.max() <= limits.max)
    else:
        fits = np.can_cast(array.dtype, dtype, casting="same_kind")
    if not fits:
        raise NeedReplayError(
            f"{name} is {array.dtype}{f' {array}' if array.size == 1 else ''}, but its column is "
            f"{dtype}, which cannot hold it; nothing was stored. Cast it, or declare the column "
            "with another dtype."
        )
    return array


def as_step_rows(
    name: str, value: object, size: int, shape: tuple[int, ...], dtype: AnyDtype
) -> AnyArray:
    """Features or states of ``size`` steps, as rows of ``shape``, finite and of ``dtype``."""
    target = np.empty((0, *shape), dtype=dtype)
    rows = as_columns({name: target}, size, {name: value})[name]
    if not np.isfinite(rows).all():
        raise NeedReplayError(
            f"{name} has NaN or infinity; pass finite numbers; nothing was stored."
        )
    return rows

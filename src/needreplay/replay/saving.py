"""What a memory is, to and from a checkpoint: settings have to agree, arrays are read in place."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray
from needreplay.replay.checkpoint import opened, write_checkpoint
from needreplay.replay.samplers.base import Sampler

_PLAIN = (bool, int, float, str)


def settings_of_sampler(sampler: Sampler, prefix: str = "draw") -> dict[str, Any]:
    """A draw's name and plain public attributes, and those of a draw that it is made of."""
    settings: dict[str, Any] = {prefix: sampler.name}
    for name, value in vars(sampler).items():
        if name[0] != "_" and isinstance(value, _PLAIN):
            settings[f"{prefix}.{name}"] = value
        elif hasattr(value, "set_priorities"):
            settings |= settings_of_sampler(value, f"{prefix}.{name}")
    return settings


def save_memory(
    path: str | os.PathLike[str],
    settings: Mapping[str, Any],
    state: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
    filled: Mapping[str, int],
) -> None:
    """Write settings, state and of each array the rows in use, all at once.

    Args:
        path: an older file there stays until the new one is whole.
        settings: what has to be the same for the file to be read back.
        state: everything else that JSON can hold.
        arrays: every array, live.
        filled: how many rows of an array are in use, where not all are.
    """
    facts = {"settings": dict(sorted(settings.items())), "state": state, "filled": filled}
    write_checkpoint(path, facts, _cut(arrays, filled))


def load_memory(
    path: str | os.PathLike[str],
    settings: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
    empty: Callable[[], None],
) -> dict[str, Any]:
    """Fill ``arrays`` from a file of the same ``settings``, and answer with the state.

    A file that is damaged, or of other settings, is refused before anything changes; ``empty`` is
    called if reading fails after that.
    """
    with opened(path) as saved:
        _refuse_other_settings(settings, saved.facts["settings"], path)
        in_use = _cut(arrays, saved.facts["filled"])
        saved.check_arrays(in_use)
        try:
            saved.read_into(in_use)
        except OSError as error:
            empty()
            raise NeedReplayError(
                f"{os.fspath(path)} was whole but could not be read a second time ({error}); "
                "this memory is empty now. Load again, or another file."
            ) from error
        state: dict[str, Any] = saved.facts["state"]
        return state


def _refuse_other_settings(
    own: Mapping[str, Any], saved: Mapping[str, Any], path: str | os.PathLike[str]
) -> None:
    for name in sorted(own.keys() | saved.keys()):
        if own.get(name) != saved.get(name):
            raise NeedReplayError(
                f"{os.fspath(path)} was saved with {name} {saved.get(name)}, but this memory has "
                f"{own.get(name)}; make it with the settings of the file. Nothing was loaded."
            )


def _cut(arrays: Mapping[str, AnyArray], filled: Mapping[str, int]) -> dict[str, AnyArray]:
    """Of each array, the rows in use."""
    return {name: array[: filled.get(name, len(array))] for name, array in arrays.items()}

"""A batch: columns, and for each transition its id, probability and importance weight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.devices import FAILURES, checked_device
from needreplay._core.errors import NeedReplayError, not_installed
from needreplay._core.types import Columns, Device, FloatArray, IntArray
from needreplay.equations import annealed
from needreplay.replay.storage import flatten
from needreplay.replay.validation import OWN_NAME, check_beta

_TORCHRL: dict[str, Any] = {
    "obs": "observation",
    "next_obs": ("next", "observation"),
    "reward": ("next", "reward"),
}
"""What TorchRL calls the columns of a step."""


@dataclass(slots=True, eq=False)
class Batch:
    """``size`` transitions; ``batch["obs"]`` is a column with one row for each."""

    ids: IntArray
    """Pass these to ``update_priorities``."""
    probabilities: FloatArray
    """The probability of each under the sampler, up to one constant where not ``normalized``.

    With a need query for each row, the probability of each under its own row's query. It is NaN
    where the sampler does not know the row's total score, and ``normalized`` is then False.
    """
    weights: FloatArray
    """Importance weights: multiply the losses by them. The largest is 1."""
    columns: Columns
    """Every column by name; of a Dict space, a dict of arrays."""
    normalized: bool = True
    """Whether ``probabilities`` sum to 1 over the buffer."""

    def __getitem__(self, name: str) -> Any:
        try:
            return self.columns[name]
        except KeyError:
            raise _no_column(name, self.columns) from None

    def __len__(self) -> int:
        return len(self.ids)

    def torch(self, device: Device = "cpu") -> Batch:
        """This batch with torch tensors on ``device``; ``ids`` stay as they are.

        On the CPU columns share the memory of this batch. Weights and probabilities are
        float32, unless a column is float64.
        """
        try:
            return self._as_tensors(lambda tensor: tensor.to(device))
        except FAILURES:
            checked_device(device)
            raise

    def _as_tensors(self, place: Callable[[Any], Any]) -> Batch:
        """This batch with torch tensors, each of which ``place`` brings where it is wanted."""
        try:
            import torch
        except ImportError as error:
            raise not_installed("batch.torch needs torch", "deep") from error
        wide = any(column.dtype == np.float64 for column in flatten(self.columns).values())

        def tensor(array: Any) -> Any:
            if isinstance(array, dict):
                return {name: tensor(column) for name, column in array.items()}
            return place(torch.from_numpy(array))

        def numbers(array: FloatArray) -> Any:
            return tensor(array if wide else array.astype(np.float32))

        return replace(
            self,
            probabilities=numbers(self.probabilities),
            weights=numbers(self.weights),
            columns=tensor(self.columns),
        )

    def tensordict(self, device: Any = "cpu") -> Any:
        """This batch as TorchRL's losses take it: a ``TensorDict`` on ``device``.

        ``obs`` is "observation", ``next_obs``, ``reward``, "terminated" and "done" are in "next",
        the weights are "priority_weight", the ids "index". Other columns keep their names.
        """
        try:
            from tensordict import TensorDict  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise NeedReplayError(
                "batch.tensordict needs tensordict, which is not installed; install it with: pip "
                "install tensordict"
            ) from error
        batch = self.torch(device)
        found = {_TORCHRL.get(name, name): column for name, column in batch.columns.items()}
        if "discount" in found and ("next", "observation") in found:
            found["next", "reward"] = found["next", "reward"][..., None]
            ended = (found["discount"] == 0.0)[..., None]
            found |= {("next", "terminated"): ended, ("next", "done"): ended}
        import torch

        found |= {"index": torch.from_numpy(self.ids).to(device), "priority_weight": batch.weights}
        return TensorDict(found, batch_size=[len(self)])

    def keys(self) -> Iterator[str]:
        """The names of the columns."""
        return iter(self.columns)


def _no_column(name: object, columns: Columns) -> NeedReplayError:
    """The error for a column that a batch does not have, with what it is called here."""
    hint = ""
    if name in ("terminated", "truncated", "done", "dones") and "discount" in columns:
        hint = (
            ' batch["discount"] is 0 where the episode terminated, and only there: the target is '
            "reward + discount * value(next_obs)."
        )
    elif OWN_NAME.get(str(name)) in columns:
        hint = f' Use batch["{OWN_NAME[str(name)]}"].'
    return NeedReplayError(f"A batch has no column {name!r}; it has {', '.join(columns)}.{hint}")


@dataclass(frozen=True)
class LinearBeta:
    """β from ``start`` to ``end`` over the first ``batches`` batches, and ``end`` from then on."""

    start: float = 0.4
    end: float = 1.0
    batches: int = 1_000_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", check_beta(self.start, "start"))
        object.__setattr__(self, "end", check_beta(self.end, "end"))
        is_number = isinstance(self.batches, float | np.floating)
        count = int(self.batches) if is_number and self.batches % 1 == 0 else self.batches  # 1e6
        object.__setattr__(self, "batches", check_number("batches", count, int, AT_LEAST_ONE))

    def __call__(self, sampled: int) -> float:
        """β for the next batch after ``sampled`` batches."""
        return annealed(self.start, self.end, sampled / self.batches)

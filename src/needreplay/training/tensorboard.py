"""The rows of ``metrics.csv`` as TensorBoard's curves; the extra ``tensorboard``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from needreplay.core.errors import NeedReplayError

FOLDER = "tensorboard"


class Curves:
    """Writes a run's rows below ``folder``; rows from ``first_step`` on are written anew."""

    def __init__(self, folder: Path, first_step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as missing:
            raise NeedReplayError(
                "Curves need the package tensorboard, which is not installed; install it with: "
                "pip install 'needreplay[tensorboard]'"
            ) from missing
        try:
            self._writer = SummaryWriter(str(folder / FOLDER), purge_step=first_step)
        except OSError as error:
            raise _unwritten(error) from error

    def add(self, row: dict[str, Any]) -> None:
        """One point on every curve that the row has a value for."""
        try:
            for name, value in row.items():
                if name not in ("iteration", "steps") and value is not None:
                    self._writer.add_scalar(name, value, row["steps"])
            self._writer.flush()
        except OSError as error:
            raise _unwritten(error) from error

    def close(self) -> None:
        """Nothing more comes."""
        self._writer.close()


def _unwritten(error: OSError) -> NeedReplayError:
    return NeedReplayError(
        f"TensorBoard's curves cannot be written: {error.strerror}. The run stands at its last "
        "checkpoint; the same command goes on from there."
    )

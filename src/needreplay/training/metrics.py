"""The rows of ``metrics.csv``: one an iteration, flushed as it is written, cut back on resume."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from needreplay.core.errors import NeedReplayError
from needreplay.core.tables import write_text

if TYPE_CHECKING:
    from needreplay.deep import Learned

COLUMNS = (
    "iteration",
    "steps",
    "updates",
    "train_episodes",
    "train_return",
    "eval_episodes",
    "eval_return",
    "epsilon",
    "loss",
    "td_error",
    "sampling_entropy",
    "need_mean",
    "need_variation",
    "need_negative",
    "feature_similarity",
    "feature_age",
)


@dataclass
class Tally:
    """Sums over the iteration that is under way; saved with a checkpoint."""

    episodes: int = 0
    returns: float = 0.0
    updates: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def add_episode(self, episode_return: float) -> None:
        """One more episode of training is over."""
        self.episodes += 1
        self.returns += episode_return

    def add_update(self, learned: Learned) -> None:
        """One more update was made."""
        self.updates += 1
        self._add(loss=learned.loss, td_error=learned.error, sampling_entropy=learned.entropy)
        if learned.need is not None:
            need = learned.need
            self._add(
                need_mean=need.mean,
                need_variation=need.variation,
                need_negative=need.negative,
                feature_similarity=need.similarity,
            )

    def _add(self, **values: float) -> None:
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def means(self) -> dict[str, float]:
        """The mean over updates of all that was added, and over episodes of their returns."""
        means = {name: total / self.updates for name, total in self.sums.items()}
        if self.episodes:
            means["train_return"] = self.returns / self.episodes
        return means

    def plain(self) -> dict[str, Any]:
        """As plain values, for a checkpoint."""
        return asdict(self)

    @classmethod
    def of_plain(cls, plain: dict[str, Any]) -> Tally:
        """What ``plain`` gave, read back from JSON, where "nan" is a text."""
        sums = {name: float(value) for name, value in plain["sums"].items()}
        return cls(plain["episodes"], float(plain["returns"]), plain["updates"], sums)


class MetricsFile:
    """A CSV that grows by whole rows."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, rows_kept: int) -> None:
        """Keep the first ``rows_kept`` rows: those after the checkpoint are made anew."""
        lines = [",".join(COLUMNS)]
        if rows_kept:
            try:
                lines = self.path.read_text(encoding="utf-8").splitlines()[: rows_kept + 1]
            except OSError:
                lines = []
            if len(lines) != rows_kept + 1 or lines[0] != ",".join(COLUMNS):
                raise NeedReplayError(
                    f"{str(self.path)!r} does not hold the {rows_kept} rows that the checkpoint "
                    "says were written; remove the run's folder to begin anew."
                )
        write_text(self.path, "".join(line + "\n" for line in lines))

    def append(self, row: dict[str, Any]) -> None:
        """Write one row through to the disk."""
        line = ",".join(_cell(row.get(name)) for name in COLUMNS) + "\n"
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise NeedReplayError(
                f"{str(self.path)!r} cannot be written: {error.strerror}. The run stands at its "
                "last checkpoint; the same command goes on from there."
            ) from error


def _cell(value: Any) -> str:
    """Nothing for what is unknown; floats so that they read back exactly."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(value) if isinstance(value, float) else str(value)

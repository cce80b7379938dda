"""What a run measures: the rows of ``metrics.csv``, their summary, and TensorBoard's curves."""

from __future__ import annotations

import csv
import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from needlab.core.tables import check_file, write_bytes
from needlab.core.types import JsonObject
from needlab.runs.run_folder import RESUME
from needreplay._core.checks import AT_LEAST_ONE, COUNT, check_number
from needreplay._core.errors import NeedReplayError, not_installed

if TYPE_CHECKING:
    from needlab.deep import UpdateStats

COLUMNS = {
    "iteration": "from 1; an episode longer than an iteration skips numbers",
    "steps": "of the world, so far",
    "updates": "of the Q network, so far",
    "train_episodes": "episodes (on Atari: games) that ended in this iteration",
    "train_return": "their mean sum of rewards, unclipped, with exploration",
    "train_return_by_step": "the same, each episode counted once for each of its steps",
    "eval_episodes": "complete episodes played after it, without learning",
    "eval_return": "their mean sum of rewards, unclipped",
    "epsilon": "the probability of a random action at the end of the iteration",
    "loss": "the Q loss, with weights and need",
    "td_error": (
        "the priorities that are set: the absolute TD error, or what the preset makes of it"
    ),
    "sampling_entropy": (
        "mean −log P of a batch / log N: 1 for uniform sampling, less if few transitions are "
        "preferred; empty for samplers by need that reject, which know P up to a factor"
    ),
    "need_mean": "need in the batch, before negatives are removed and need is rescaled",
    "need_variation": "its standard deviation / its mean; 0: need does not distinguish transitions",
    "need_negative": "the share of negative need",
    "feature_similarity": (
        "mean cosine between the features of two transitions in the batch; 1: all states look alike"
    ),
    "feature_age": "batches since the oldest features in the buffer were set (`per-sr-sampling`)",
    "need_auc": (
        "how well need tells the next 10 states from states of other episodes that are as old, on "
        "withheld episodes: 0.5 is chance, 1 perfect; every 10,000 steps, or every iteration if "
        "that is longer, and at the end"
    ),
    "need_auc_baseline": (
        "the same of the best trivial score: recency, similarity, an untrained model, another query"
    ),
    "need_accurate": (
        "1 if need_auc is at least 0.8 and clearly above the baseline, else 0: conclude nothing "
        "about need"
    ),
    "need_auc_past": "against earlier states of the same episode",
    "need_auc_time": "against other episodes at the same time",
    "need_effective": (
        "how many transitions of the buffer need selects: 1 / Σ p². Over the buffer the variation "
        "of need is about √(N / need_effective − 1)"
    ),
    "need_effective_recent": "the same of need seen from recent states, taken together",
    "need_nearness": (
        "how near transitions sampled by need are to the true next ones: 0 as uniform samples, 1 "
        "as the nearest"
    ),
}
"""The columns of metrics.csv, and what each means."""
OF_ACTORS = {
    "steps_per_second": "that arrived from the actors, since the row before",
    "updates_per_second": "of the learner, since the row before",
    "waiting": "the share of the time that the learner waited for transitions",
    "samples_per_insert": "how often a transition is sampled, on average, since learning began",
    "sample_age": "transitions that came since those of a batch were stored, on average",
    "weights_age": "updates since the weights that the actors act by, on average",
    "lost": "transitions that were lost with a shard, so far",
    "lost_with_learner": (
        "transitions that came after a checkpoint from which the run was resumed, so far"
    ),
    "lost_actors": "actors that were started again, so far",
}
"""Further columns of a run with actors."""


@dataclass
class Sums:
    """Sums over the current iteration; saved with a checkpoint."""

    episodes: int = 0
    returns: float = 0.0
    steps: int = 0
    returns_by_step: float = 0.0
    updates: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    """values in each sum: need is not computed at every update"""

    def add_episode(self, episode_return: float, steps: int) -> None:
        """Count one episode of training."""
        self.episodes += 1
        self.returns += episode_return
        self.steps += steps
        self.returns_by_step += episode_return * steps

    def add_update(self, learned: UpdateStats) -> None:
        """Count one update."""
        self.updates += 1
        self._add(loss=learned.loss, td_error=learned.td_error, sampling_entropy=learned.entropy)
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
            self.counts[name] = self.counts.get(name, 0) + 1

    def means(self) -> dict[str, float]:
        """Means over updates, and the mean return over episodes and over their steps."""
        means = {name: total / self.counts[name] for name, total in self.sums.items()}
        if self.episodes:
            means["train_return"] = self.returns / self.episodes
            means["train_return_by_step"] = self.returns_by_step / self.steps
        return means

    @classmethod
    def from_json(cls, plain: JsonObject) -> Sums:
        """What ``write_json`` wrote, where NaN is the text "nan"."""
        for name in ("episodes", "steps", "updates"):
            check_number(name, plain[name], int, COUNT)
        sums = {str(name): float(value) for name, value in plain["sums"].items()}
        counts = {
            str(name): check_number(f"counts.{name}", value, int, AT_LEAST_ONE)
            for name, value in plain["counts"].items()
        }
        if counts.keys() != sums.keys():
            raise NeedReplayError("its sums and their counts have different names")
        returns = (plain["episodes"], float(plain["returns"]))
        by_step = (plain["steps"], float(plain["returns_by_step"]))
        return cls(*returns, *by_step, plain["updates"], sums, counts)


class MetricsFile:
    """``metrics.csv``: one row per iteration, on the disk as soon as it is written."""

    def __init__(self, path: Path, more: Mapping[str, str] = MappingProxyType({})) -> None:
        self.path = path
        self.columns = [*COLUMNS, *more]
        self._sha = hashlib.sha256()

    @property
    def digest(self) -> str:
        """Of all that is written so far."""
        return self._sha.hexdigest()

    def start(self, rows: int, digest: str | None = None) -> None:
        """Keep the first ``rows`` rows, which have ``digest``; those after it are written again."""
        kept = (",".join(self.columns) + "\n").encode()
        if digest is not None:
            check_file(self.path)
            try:
                kept = b"".join(self.path.read_bytes().splitlines(keepends=True)[: rows + 1])
            except OSError:
                kept = b""
            if hashlib.sha256(kept).hexdigest() != digest:
                raise NeedReplayError(
                    f"{str(self.path)!r} does not hold the {rows} rows that the checkpoint was "
                    "written after: it is damaged, or of another run. Put the file back, or train "
                    "in a new folder."
                )
        self._sha = hashlib.sha256(kept)
        write_bytes(self.path, kept)

    def append(self, row: JsonObject) -> None:
        """Write one row."""
        line = ",".join(_cell(row.get(name)) for name in self.columns) + "\n"
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            self._sha.update(line.encode())
        except OSError as error:
            raise NeedReplayError(
                f"{str(self.path)!r} cannot be written: {error.strerror}. {RESUME}"
            ) from error

    def summary(self) -> JsonObject:
        """Best, final and mean of the last ten returns, of training and of evaluation.

        The paper reports the best; the others show whether it lasted.
        """
        check_file(self.path)
        try:
            with self.path.open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            returns = {
                name: [(float(row[name]), int(row["iteration"])) for row in rows if row[name]]
                for name in ("train_return", "eval_return")
            }
        except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
            raise NeedReplayError(f"{str(self.path)!r} is damaged: {error}.") from error
        summary: JsonObject = {"rows": len(rows)}
        for name, found in returns.items():
            if not found:
                continue
            best, iteration = max(found, key=lambda pair: pair[0])
            last = [value for value, _ in found[-10:]]
            summary[name] = {
                "best": best,
                "best_iteration": iteration,
                "final": last[-1],
                "last_10": sum(last) / len(last),
            }
        return summary


def _cell(value: object) -> str:
    """Nothing for an unknown value; floats so that they read back exactly."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)  # numpy's floats too


class Curves:
    """Rows as TensorBoard's curves, in ``folder/tensorboard``.

    Points from ``first_step`` on are replaced.
    """

    def __init__(self, folder: Path, first_step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as missing:
            raise not_installed("Curves need the package tensorboard", "tensorboard") from missing
        try:
            self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=first_step)
        except OSError as error:
            raise _unwritten(error) from error

    def add(self, row: JsonObject) -> None:
        """Add a point to every curve that the row has a value for."""
        try:
            for name, value in row.items():
                if name not in ("iteration", "steps") and value is not None:
                    self._writer.add_scalar(name, value, row["steps"])
            self._writer.flush()
        except OSError as error:
            raise _unwritten(error) from error

    def close(self) -> None:
        """Close the files."""
        self._writer.close()


def _unwritten(error: OSError) -> NeedReplayError:
    return NeedReplayError(f"TensorBoard's curves cannot be written: {error.strerror}. {RESUME}")

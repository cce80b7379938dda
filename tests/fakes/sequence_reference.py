"""What a buffer of sequences should hold, by lists and loops alone."""

from __future__ import annotations

from typing import Any

import numpy as np

Row = dict[str, Any]


class Reference:
    """Rows as they were stored, and the sequences in them by their definition."""

    def __init__(self, capacity: int, n_envs: int, n_step: int, gamma: float, **of: Any) -> None:
        self.capacity, self.n_step, self.gamma = capacity, n_step, gamma
        self.length, self.burn_in, self.stride = of["length"], of["burn_in"], of["stride"]
        self.across = of["across"]
        self.open: list[list[Row]] = [[] for _ in range(n_envs)]
        self.episodes: list[list[list[Row]]] = [[[]] for _ in range(n_envs)]
        self.ended: list[list[bool]] = [[False] for _ in range(n_envs)]
        self.count = self.oldest = 0
        self.numbered: dict[int, int] = {}
        """The first row of each sequence that there ever was, by its number."""

    def add(self, steps: list[Row]) -> None:
        """One step of each environment."""
        for env, step in enumerate(steps):
            self.open[env].append(step)
            self._close(env, step["terminated"], step["terminated"] or step["truncated"])

    def cut(self, env: int) -> None:
        """The episode of an environment ends with its last step."""
        self._close(env, False, True)

    def _close(self, env: int, terminated: bool, ended: bool) -> None:
        window = self.open[env]
        while len(window) == self.n_step or (ended and window):
            row = {name: window[0][name] for name in ("obs", "action", "hidden")}
            row["reward"] = sum(self.gamma**k * s["reward"] for k, s in enumerate(window))
            row["next_obs"] = window[-1]["next_obs"]
            row["discount"] = 0.0 if terminated else self.gamma ** len(window)
            row |= {"id": self.count, "begins": not self.episodes[env][-1]}
            self.episodes[env][-1].append(row)
            self.count += 1
            self.oldest = max(0, self.count - self.capacity)
            window.pop(0)
        if ended and self.episodes[env][-1]:
            self.ended[env][-1] = True
            self.episodes[env].append([])
            self.ended[env].append(False)

    def sequences(self) -> dict[int, list[Row]]:
        """Every complete sequence that ever was, by its first row."""
        found = {}
        for env, episodes in enumerate(self.episodes):
            parts = list(zip(episodes, self.ended[env], strict=True))
            if self.across:
                parts = [([row for part in episodes for row in part], False)]
            for rows, ended in parts:
                for begin in range(0, len(rows), self.stride):
                    some = rows[begin : begin + self.length]
                    is_long = len(some) > self.begin(some)
                    if is_long and (len(some) == self.length or ended):
                        found[some[0]["id"]] = some
        return found

    def begin(self, rows: list[Row]) -> int:
        """The first row that is trained."""
        return 0 if rows[0]["begins"] else self.burn_in

    def new(self) -> set[int]:
        """First rows of the sequences that were completed since, and are stored."""
        known = set(self.numbered.values())
        return {first for first in self.sequences() if first not in known and first >= self.oldest}

    def live(self) -> list[int]:
        """Numbers of the sequences that can be sampled."""
        lost = [k for k, first in self.numbered.items() if first < self.oldest]
        return [k for k in self.numbered if k > max(lost, default=-1)]

    def columns(self, first: int) -> Row:
        """What a batch should have of the sequence that begins with row ``first``."""
        rows = self.sequences()[first]
        t = np.arange(self.length)
        result: Row = {"mask": (t >= self.begin(rows)) & (t < len(rows))}
        for name in ("obs", "action", "reward", "next_obs", "discount", "begins"):
            values = np.array([row[name] for row in rows])
            result[name] = np.zeros((self.length, *values.shape[1:]), values.dtype)
            result[name][: len(rows)] = values
        return result | {"hidden": rows[0]["hidden"]}

"""What the memory is told for a draw by need: features of all it keeps, and the present's query."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from needreplay.core.types import AnyArray
from needreplay.deep.settings import DeepSettings
from needreplay.deep.successor_learner import Present, SuccessorLearner
from needreplay.deep.tensors import observed, to_device
from needreplay.replay import ReplayBuffer

_AT_A_TIME = 1024


class AskedFrom(NamedTuple):
    """The pair that need is asked from, one row each."""

    obs: Tensor
    action: Tensor | None
    """None: the greedy one"""


class Telling:
    """Tells features (successor features: backward need) of new, replayed and old transitions.

    Args:
        settings: ``direction``, ``refresh`` and ``capacity`` matter.
        replay: whose draw takes features.
        successor: where features come from.
        device: where the networks are.
    """

    def __init__(
        self,
        settings: DeepSettings,
        replay: ReplayBuffer,
        successor: SuccessorLearner,
        device: torch.device,
    ) -> None:
        self.settings = settings
        self.replay = replay
        self.successor = successor
        self.device = device
        self._unstored: deque[tuple[AnyArray, int]] = deque()
        self._untold: list[tuple[int, AnyArray, int]] = []
        self.query: AnyArray | None = None
        """What the memory was last told of the present: m, or φ for backward need."""

    def note(self, obs: AnyArray, action: int, stored: Iterable[int]) -> None:
        """One more step; ``stored`` are the ids of the transitions that it completed."""
        self._unstored.append((obs, action))
        self._untold += [(number, *self._unstored.popleft()) for number in stored]

    def present(self, asked_from: AskedFrom) -> Present:
        """φ and m of the pair that need is asked from, with all that is untold told before."""
        obs, action = asked_from
        with torch.no_grad():
            features = self.tell_untold(beside=obs)
            if action is None:
                action = self.successor.greedy(obs, features)
            now = Present(features, self.successor.online.successor(features, action))
        row = now.successor if self.settings.direction == "forward" else now.features
        self.query = row[0].cpu().numpy()
        return now

    def tell_untold(self, beside: Tensor | None = None) -> Tensor:
        """Tell the features of everything stored since the last draw.

        Answers with the features of observations ``beside`` that, which take the same pass.
        """
        # More than the memory keeps can be waiting when learning begins late.
        untold, self._untold = self._untold[-self.settings.capacity :], []
        while len(untold) > _AT_A_TIME:
            self._tell_with(untold[:_AT_A_TIME], None)
            untold = untold[_AT_A_TIME:]
        return self._tell_with(untold, beside)

    def _tell_with(self, part: list[tuple[int, AnyArray, int]], beside: Tensor | None) -> Tensor:
        passed = [] if beside is None else [beside]
        if part:
            passed.insert(0, observed(np.stack([obs for _, obs, _ in part]), self.device))
        if not passed:
            return torch.empty(0, self.successor.online.n_features, device=self.device)
        with torch.no_grad():
            features = self.successor.features(passed[0] if len(passed) == 1 else torch.cat(passed))
        if part:
            actions = torch.tensor([action for _, _, action in part], device=self.device)
            self.tell([number for number, _, _ in part], features[: len(part)], actions)
        return features[len(part) :]

    def refresh(self) -> None:
        """Tell anew the features of some old transitions, so that none is older than a round."""
        if not self.settings.refresh:
            return
        ids = self.replay.next_to_refresh(self.settings.refresh)
        columns = self.replay.read(ids)
        with torch.no_grad():
            features = self.successor.features(observed(columns["obs"], self.device))
        self.tell(ids, features, to_device(columns["action"], self.device))

    def tell(self, ids: Any, features: Tensor, action: Tensor) -> None:
        """Transitions ``ids`` began with ``features`` and ``action``."""
        told = features
        if self.settings.direction == "backward":
            with torch.no_grad():
                told = self.successor.online.successor(features, action)
        self.replay.set_features(ids, told.detach().cpu().numpy())

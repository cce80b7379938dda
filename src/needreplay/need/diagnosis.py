"""How local is an update of your agent, and what predicts its effect: gain, need, or gain x need?

Single updates are made on a copy of the network, one for each of some stored transitions, and the
values of other stored states are compared before and after. No exact values are needed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray, IntArray
from needreplay.need.buffer import NeedBuffer
from needreplay.need.model import NeedModel
from needreplay.need.protocol import Need
from needreplay.need.quality import START_AMONG, NeedsOf
from needreplay.replay import Batch, ReplayBuffer

NEAR_STEPS, NEXT_STEPS = 2, 50
"""States so many steps before and after are near; effects count on so many next states."""
NEWEST, PROBES = 20_000, 512
"""Stored states are those of so many newest transitions; so many of them are looked at."""
MOVES = 0.1
"""By so much of its TD error an update moves its own value, on average, where losses are δ² / 2."""
LEARNING = 500
"""Batches from which need is learned if none is given."""


@dataclass(frozen=True)
class Diagnosis:
    """What ``diagnose`` measured."""

    locality: float
    """the share of the change of values that falls on states within two steps of the update's own,
    among all stored states, mean over updates; 1 in a table"""
    gain: float
    """rank correlation of an update's effect on the next states of the agent with gain"""
    need: float
    """the same with need"""
    product: float
    """the same with gain x need"""
    effects: FloatArray
    """[query, update]: mean absolute change of the values of the query's next 50 states"""
    gains: FloatArray
    """[update]"""
    needs: FloatArray
    """[query, update]: need of the update's transition, seen from the query"""
    shares: FloatArray
    """[update]: the locality of each update that changed anything"""

    @property
    def advantage(self) -> float:
        """How much better gain x need predicts an update's effect than gain alone."""
        return self.product - self.gain

    def text(self) -> str:
        """Two sentences. They report; what follows for need is an open question."""
        return (
            f"Of the change that one update makes, {self.locality:.0%} falls within "
            f"{NEAR_STEPS} steps of its transition (in a table: 100%). Its effect on your next "
            f"{NEXT_STEPS} steps goes with gain ({self.gain:.2f}), need ({self.need:.2f}) and "
            f"gain x need ({self.product:.2f}; rank correlations, {len(self.gains)} updates, "
            f"{len(self.effects)} present states)."
        )


def diagnose(
    q_network: nn.Module,
    loss: Callable[[nn.Module, Batch], Tensor],
    buffer: ReplayBuffer | NeedBuffer,
    *,
    need: Need | NeedsOf | None = None,
    updates: int = 128,
    queries: int = 16,
    seed: int = 0,
) -> Diagnosis:
    """Measure how far single updates spread, and what predicts their effect.

        def loss(network, batch):  # half the squared TD errors, one for each transition
            with torch.no_grad():
                target = batch["reward"] + batch["discount"] * aim(batch["next_obs"]).amax(1)
            value = network(batch["obs"]).gather(1, batch["action"][:, None])[:, 0]
            return (target - value) ** 2 / 2

        print(diagnose(q_network, loss, buffer).text())

    ``q_network`` is copied, and neither it nor ``buffer`` is changed. If the buffer has no need,
    one is learned from it first, on the side.

    Args:
        q_network: a function of a batch of observations, such as Q; any torch module.
        loss: a function of the copied network and a batch as tensors; returns a loss for each
            transition. Its square root is the gain: |TD error| / √2 for half the squared error.
        buffer: the transitions, with episodes (``ReplayBuffer.for_env``).
        need: a ``NeedModel``, or a function as ``need_quality`` takes it; by default that of the
            buffer, or one that is learned now.
        updates: transitions whose update is made.
        queries: present states, from episodes that need did not learn from where there are any.
        seed: decides which.
    """
    for name, value, least in (("updates", updates, 8), ("queries", queries, 1)):
        check_number(name, value, int, (least, float("inf")))
    stored = buffer.buffer if isinstance(buffer, NeedBuffer) else buffer
    rng = stream(seed, "diagnosis")
    model = _need_of(buffer, need, stored, seed)
    episodes = _Episodes(stored)
    now = episodes.queries(rng, queries, getattr(model, "withholds", None))
    ids = rng.choice(episodes.ids, updates, replace=len(episodes.ids) < updates)
    found = _Updates(q_network, loss, stored, ids)
    probes, weights = episodes.probes(rng, ids, now)
    changes = found.changes(episodes.obs[probes])
    near, following = episodes.near(ids, probes), episodes.following(now, probes)
    counted = changes * weights
    moved = counted[counted.any(axis=1)], near[counted.any(axis=1)]
    shares = (moved[0] * moved[1]).sum(axis=1) / moved[0].sum(axis=1)
    effects = following @ changes.T
    columns = {**stored.read(ids), "ids": ids}
    needs_of: Any = getattr(model, "needs_of", model)
    needs = np.asarray(needs_of(stored.read(now)["obs"], columns), np.float64)
    if needs.shape != effects.shape or not np.isfinite(needs).all():
        raise NeedReplayError(
            f"need returned shape {needs.shape} or numbers that are not finite; it must return "
            f"[query, transition], here {effects.shape}."
        )
    alike = [np.broadcast_to(found.gains, needs.shape), needs, found.gains * needs]
    gain, need_alone, product = (float(_rank_correlations(effects, own).mean()) for own in alike)
    return Diagnosis(
        locality=float(shares.mean()),
        gain=gain,
        need=need_alone,
        product=product,
        effects=effects,
        gains=found.gains,
        needs=needs,
        shares=shares,
    )


def _need_of(
    buffer: ReplayBuffer | NeedBuffer, need: Any, stored: ReplayBuffer, seed: int
) -> Need | NeedsOf:
    if need is None and isinstance(buffer, NeedBuffer):
        need = buffer.model
    if need is not None:
        found: Need | NeedsOf = need
        return found
    from gymnasium import spaces

    obs = stored.read(np.array([stored.oldest_id]))["obs"][0]
    whole = obs.dtype == np.uint8
    low, high = (0, 255) if whole else (-np.inf, np.inf)
    model = NeedModel(spaces.Box(low, high, obs.shape, obs.dtype), seed=seed)
    for _ in range(LEARNING):
        model.learn(stored)
    return model


class _Episodes:
    """The newest stored states, each distinct one once, and which of them follow each other."""

    def __init__(self, buffer: ReplayBuffer) -> None:
        if len(buffer) < 2 * NEXT_STEPS:
            raise NeedReplayError(
                f"buffer has {len(buffer)} transitions; diagnose takes at least {2 * NEXT_STEPS}."
            )
        first = max(buffer.oldest_id, buffer.next_id - NEWEST)
        self._buffer, self.ids = buffer, np.arange(first, buffer.next_id)
        columns = buffer.read(self.ids)
        if isinstance(columns.get("obs"), dict) or "obs" not in columns:
            raise NeedReplayError("diagnose takes a buffer with one array of observations, 'obs'.")
        rows = np.ascontiguousarray(columns["obs"].reshape(len(self.ids), -1))
        alike = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
        _, first_rows, states = np.unique(alike, return_index=True, return_inverse=True)
        self._state = states.reshape(-1)
        self.obs: AnyArray = columns["obs"][first_rows]
        """of each distinct state"""
        episode, step = buffer.episodes(self.ids)
        places = zip(episode.tolist(), step.tolist(), strict=True)
        self._place = {place: row for row, place in enumerate(places)}
        self._episode, self._step = episode, step

    def queries(self, rng: np.random.Generator, count: int, withholds: Any) -> IntArray:
        """Ids of withheld episodes, if there are enough, or else of the newest transitions."""
        rows = np.arange(max(0, len(self.ids) - START_AMONG), len(self.ids) - 1)
        if withholds is not None:
            own = np.arange(len(self.ids) - 1)
            held = own[withholds(self._episode[own])]
            rows = held if len(held) >= count else rows
        drawn: IntArray = self.ids[rng.choice(rows, count, replace=len(rows) < count)]
        return drawn

    def _states(self, number: int, shifts: range) -> list[int]:
        row = number - int(self.ids[0])
        places = ((int(self._episode[row]), int(self._step[row]) + shift) for shift in shifts)
        return [int(self._state[self._place[place]]) for place in places if place in self._place]

    def _near(self, number: int) -> list[int]:
        return self._states(number, range(-NEAR_STEPS, NEAR_STEPS + 1))

    def _next(self, number: int) -> list[int]:
        return self._states(number, range(NEXT_STEPS))

    def probes(
        self, rng: np.random.Generator, ids: IntArray, now: IntArray
    ) -> tuple[IntArray, FloatArray]:
        """Which distinct states are looked at, and for how many stored ones each stands."""
        wanted = {state for number in ids for state in self._near(int(number))}
        wanted |= {state for number in now for state in self._next(int(number))}
        own = np.array(sorted(wanted))
        others = np.setdiff1d(np.arange(len(self.obs)), own)
        drawn = rng.choice(others, min(PROBES, len(others)), replace=False)
        weight = len(others) / max(1, len(drawn))
        return np.concatenate([own, drawn]), np.repeat([1.0, weight], [len(own), len(drawn)])

    def near(self, ids: IntArray, probes: IntArray) -> FloatArray:
        """[update, probe]: 1 where the probe is near the update's transition."""
        marks = self._marks([self._near(int(number)) for number in ids], probes)
        return np.minimum(marks, 1.0)

    def following(self, now: IntArray, probes: IntArray) -> FloatArray:
        """[query, probe]: the share of the next steps that are in the probe."""
        marks = self._marks([self._next(int(number)) for number in now], probes)
        found: FloatArray = marks / marks.sum(axis=1, keepdims=True)
        return found

    @staticmethod
    def _marks(states: list[list[int]], probes: IntArray) -> FloatArray:
        place = {int(state): at for at, state in enumerate(probes)}
        found = np.zeros((len(states), len(probes)))
        for row, own in enumerate(states):
            for state in own:
                found[row, place[state]] += 1.0
        return found


class _Updates:
    """Single updates on a copy of the network, one for each of ``ids``."""

    def __init__(
        self, q_network: nn.Module, loss: Any, buffer: ReplayBuffer, ids: IntArray
    ) -> None:
        self._network = copy.deepcopy(q_network).eval()
        self._parameters = [each for each in self._network.parameters() if each.requires_grad]
        self._loss = loss
        if not self._parameters:
            raise NeedReplayError("q_network has no parameters to update.")
        self._device = self._parameters[0].device
        self._batches = [self._batch(buffer, ids[at : at + 1]) for at in range(len(ids))]
        losses = [self._loss_of(batch) for batch in self._batches]
        values = np.array([float(each.detach()) for each in losses])
        squares = [sum(float((g * g).sum()) for g in self._gradient(each)) for each in losses]
        if not (np.isfinite(values).all() and values.min() >= 0.0 and sum(squares) > 0.0):
            raise NeedReplayError(
                "The losses are negative, not finite, or do not depend on the network that is "
                "passed; loss(network, batch) must return a loss of that network for each row."
            )
        self.gains: FloatArray = np.sqrt(values)
        # δ ∂Q moves the own value by step · δ |∂Q|², and |gradient|² = δ² |∂Q|² = 2 loss |∂Q|².
        self._step = MOVES * 2.0 * float(values.mean()) / float(np.mean(squares))

    def _batch(self, buffer: ReplayBuffer, ids: IntArray) -> Batch:
        one = np.ones(len(ids))
        return Batch(ids, one, one, buffer.read(ids)).torch(self._device)

    def _loss_of(self, batch: Batch) -> Tensor:
        found = self._loss(self._network, batch)
        if not isinstance(found, Tensor) or found.numel() != 1:
            raise NeedReplayError(
                "loss(network, batch) must return a tensor with one loss for each transition."
            )
        return found.reshape(())

    def _gradient(self, loss: Tensor) -> list[Tensor]:
        if not loss.requires_grad:
            return [torch.zeros_like(each) for each in self._parameters]
        found = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        pairs = zip(found, self._parameters, strict=True)
        return [torch.zeros_like(own) if g is None else g for g, own in pairs]

    def changes(self, obs: AnyArray) -> FloatArray:
        """[update, state]: the absolute change of the values of each state, summed over actions."""
        seen = torch.from_numpy(np.ascontiguousarray(obs)).to(self._device)
        found = []
        with torch.no_grad():
            before = self._network(seen).double()
            start = [each.clone() for each in self._parameters]
        for batch in self._batches:
            gradient = self._gradient(self._loss_of(batch))
            with torch.no_grad():
                for own, g in zip(self._parameters, gradient, strict=True):
                    own.sub_(self._step * g)
                change = (self._network(seen).double() - before).abs()
                found.append(change.reshape(len(obs), -1).sum(1).cpu().numpy())
                for own, value in zip(self._parameters, start, strict=True):
                    own.copy_(value)
        made: FloatArray = np.stack(found)
        return made


def _rank_correlations(first: FloatArray, second: FloatArray) -> FloatArray:
    """Spearman's correlation of each row with the other's; 0 where all entries of one are equal."""
    ranks = [_ranks(values) for values in (first, second)]
    lengths = [np.sqrt((each**2).sum(axis=1)) for each in ranks]
    products = (ranks[0] * ranks[1]).sum(axis=1)
    both = lengths[0] * lengths[1]
    found: FloatArray = np.divide(products, both, out=np.zeros_like(products), where=both > 0.0)
    return found


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks along each row, ties shared, less their mean."""
    found = np.empty(values.shape)
    for row, own in enumerate(values):
        _, place, count = np.unique(own, return_inverse=True, return_counts=True)
        ends = np.cumsum(count)
        found[row] = (ends - (count - 1) / 2.0)[place.reshape(-1)]
    found -= found.mean(axis=1, keepdims=True)
    return found

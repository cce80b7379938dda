"""``PaperNeed``: need from the deep successor representation (the other half of Algorithm 3)."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from needlab.deep.dqn import QPass, Transitions, obs_tensor, to_tensor, to_transitions
from needlab.deep.need import projected
from needlab.deep.networks import QNetwork, SuccessorNetwork, scaled
from needlab.deep.settings import DeepSettings
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.need import NeedQuality, need_quality, withholds
from needreplay.replay import ReplayBuffer
from needreplay.replay.samplers import FeatureNeedSampler


def decoder_loss(decoded: Tensor, obs: Tensor, kind: Literal["squared", "huber"]) -> Tensor:
    """l_g = |s − g(φ)|² (equation 9); ``huber``: the mean Huber loss on 0..255, as released."""
    if kind == "huber":
        return functional.huber_loss(decoded * 255.0, obs * 255.0)
    return (decoded - obs).square().sum() / len(obs)


def successor_target(
    features: Tensor,
    next_features: Tensor,
    next_successor: Tensor,
    discount: Tensor,
    gamma: float | Tensor,
    terminal: Literal["masked", "last", "unmasked"],
) -> Tensor:
    """φ(s) + γ m(s', a'): φ(s) of the online network, φ(s') and m of the target network.

    At a terminal: φ(s) if ``masked``; φ(s) + γ φ(s') if ``last``, because s' is visited once; no
    exception if ``unmasked``. With n-step returns γ is γ^k, one for each transition: k is n, or the
    steps that were left in the episode.
    """
    if isinstance(gamma, Tensor):
        gamma = gamma.unsqueeze(1)
    if terminal == "unmasked":
        return features + gamma * next_successor
    bootstrap = discount.unsqueeze(1) * next_successor
    if terminal == "last":
        terminated = (discount == 0.0).unsqueeze(1)
        bootstrap = torch.where(terminated, gamma * next_features, bootstrap)
    return features + bootstrap


def successor_loss(predicted: Tensor, target: Tensor, reduction: Literal["sum", "mean"]) -> Tensor:
    """l_u = |φ + γ m' − m|² (equation 10): summed over features, or their mean as released."""
    squares = (target - predicted).square()
    return squares.mean() if reduction == "mean" else squares.sum() / len(predicted)


class Pair(NamedTuple):
    """A state and the action that was taken in it."""

    obs: AnyArray
    action: int


Views: TypeAlias = AnyArray | Pair
"""An observation, a batch of these, or the pair that need is seen from."""
Columns: TypeAlias = Mapping[str, AnyArray]
"""Of stored transitions."""


class PaperNeed:
    """The paper's need: successor features m(s, a), projected on the features φ of other states.

    Need(s, s') = m(s, a) · φ(s') / |φ(s')|² (section 3.2). As an inner product of a query and a
    stored vector: m of the present pair and φ(s') / |φ(s')|². Backward need, of states that lead to
    the present one, is φ of the present state / |φ|² and m(s', a'). With ``encoder`` "shared" φ is
    the Q network's last hidden layer. It implements ``needreplay.need.Need``.

    Args:
        settings: see ``DeepSettings`` and its ``paper``.
        network: f, u and g.
        q: the Q network, for greedy actions and a shared encoder.
        optimizer: of the learner; gets the parameters of ``network``.
    """

    def __init__(
        self,
        settings: DeepSettings,
        network: SuccessorNetwork,
        q: QNetwork,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self.settings, self.paper = settings, settings.paper
        self.online, self.q, self.optimizer = network, q, optimizer
        self.has_target = self.paper.successor_target_period > 0
        self.target = copy.deepcopy(network).requires_grad_(False) if self.has_target else network
        self.updates = 0
        """losses computed so far, for ``decoder_period``"""
        self._query: FloatArray | None = None
        optimizer.add_param_group(
            {"params": list(network.parameters()), "lr": settings.learning_rate}
        )

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return self.q.head.weight.device

    # Need as an inner product ---------------------------------------------------------------------

    def sampler(
        self, *, alpha: float, need_alpha: float, correct_for: Any, uniform_mix: float
    ) -> FeatureNeedSampler:
        """A sampler by gain and this need."""
        return FeatureNeedSampler(
            self.online.n_features,
            raw=True,
            alpha=alpha,
            need_alpha=need_alpha,
            correct_for=correct_for,
            uniform_mix=uniform_mix,
        )

    def views(self, buffer: ReplayBuffer, size: int, obs: AnyArray) -> Views:  # noqa: ARG002
        """The present observation, or with ``need_row`` "previous" the newest stored pair."""
        if self.paper.need_row == "greedy" or not len(buffer):
            return obs
        newest = buffer.read([buffer.next_id - 1])
        return Pair(newest["obs"][0], int(newest["action"][0]))

    def queries(self, views: Views) -> FloatArray:
        """The query of a pair, of an observation and its greedy action, or of each of a batch."""
        rows = self._rows(views)
        with torch.no_grad():
            self._query = self._queries(views, rows, self.features(rows))
        return self._query

    @torch.no_grad()
    def vectors(self, columns: Columns) -> FloatArray:
        """The stored vectors of transitions with these columns."""
        return self._vectors(columns, self.features(obs_tensor(columns["obs"], self.device)))

    @torch.no_grad()
    def vectors_and_queries(self, columns: Columns, views: Views) -> tuple[FloatArray, FloatArray]:
        """``vectors`` and ``queries``, in one pass through the encoder."""
        obs, rows = obs_tensor(columns["obs"], self.device), self._rows(views)
        features = self.features(torch.cat((obs, rows)))
        self._query = self._queries(views, rows, features[len(obs) :])
        return self._vectors(columns, features[: len(obs)]), self._query

    def need_of(self, products: FloatArray) -> FloatArray:
        """The products themselves: of any sign."""
        return products

    def needs_of(self, views: Views, columns: Columns) -> FloatArray:
        """Need of transitions with these columns, seen from a view: [i, j], or [j] from one."""
        needs: FloatArray = self.queries(views) @ self.vectors(columns).T
        return needs

    def features(self, obs: Tensor) -> Tensor:
        """φ(s); a shared encoder's features carry no gradient."""
        if self.online.encoder is not None:
            return self.online.features(obs)
        with torch.no_grad():
            return self.q.hidden(obs)

    def _rows(self, views: Views) -> Tensor:
        obs = np.asarray(views.obs if isinstance(views, Pair) else views)
        rows = obs if obs.ndim > len(self.q.shape) else obs[None]
        return obs_tensor(np.ascontiguousarray(rows), self.device)

    @torch.no_grad()
    def _queries(self, views: Views, rows: Tensor, features: Tensor) -> FloatArray:
        if self.settings.direction == "backward":
            found = projected(features)
        else:
            if isinstance(views, Pair):
                action = torch.tensor([views.action], device=self.device)
            else:
                hidden = features if self.online.encoder is None else self.q.hidden(rows)
                action = self.q.head(hidden).argmax(1)
            found = self.online.successor(features, action)
        queries: FloatArray = found.cpu().numpy()
        one = isinstance(views, Pair) or np.ndim(views) == len(self.q.shape)
        return queries[0] if one else queries

    def _vectors(self, columns: Columns, features: Tensor) -> FloatArray:
        if self.settings.direction == "backward":
            action = to_tensor(columns["action"], self.device)
            found = self.online.successor(features, action)
        else:
            found = projected(features)
        vectors: FloatArray = found.cpu().numpy()
        return vectors

    def moving(self, need: Tensor, batch: Transitions, views: Views) -> Tensor:
        """The same need, with the gradient of its 1 / |φ|² if ``need_moves_features``.

        The product m · φ carries none, as in the released code.
        """
        if not self.paper.need_moves_features:
            return need
        backward = self.settings.direction == "backward"
        squared = self.features(self._rows(views) if backward else batch.obs).square().sum(1)
        squared = squared.clamp(min=torch.finfo(squared.dtype).tiny)
        return need * (squared.detach() / squared)

    # Learning ------------------------------------------------------------------------------------

    def loss(self, batch: Transitions, passed: QPass | None = None) -> Tensor | None:
        """l_u + l_g of the learner's batch; None if the network learns from another one."""
        return self._loss(batch, passed) if self.paper.successor_batch == "same" else None

    def learn(self, buffer: ReplayBuffer) -> float:
        """A step on a second batch, sampled as the learner's, if ``successor_batch`` says so."""
        if self.paper.successor_batch == "same":
            return math.nan
        need = self._query if self.settings.samples_by_need else None
        sampled = buffer.sample(self.settings.batch_size, need=need)
        loss = self._loss(to_transitions(sampled, buffer, self.settings, self.device), None)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return float(loss.detach())

    def _loss(self, batch: Transitions, passed: QPass | None) -> Tensor:
        """l_u + l_g. Without ``successor_moves_features``, l_u trains u only and l_g alone f."""
        paper, shared = self.paper, self.online.encoder is None
        features = passed.hidden if shared and passed else self.features(batch.obs)
        phi = features if paper.successor_moves_features else features.detach()
        with torch.set_grad_enabled(paper.successor_moves_features and not self.has_target):
            if self.target.encoder is not None:
                next_features = self.target.features(batch.next_obs)
            elif passed and passed.next_hidden is not None:
                next_features = passed.next_hidden
            else:
                next_features = self.features(batch.next_obs)
            action = self._next_action(batch, passed)
            next_successor = self.target.successor(next_features, action)
        target = successor_target(
            phi,
            next_features,
            next_successor,
            batch.discount,
            self.settings.discount if batch.power is None else batch.power,
            paper.successor_terminal,
        )
        reduction: Literal["sum", "mean"] = "mean" if paper.pixel_loss == "huber" else "sum"
        loss = successor_loss(self.online.successor(phi, batch.action), target, reduction)
        if self.online.decoder is not None and self.updates % paper.decoder_period == 0:
            pixels = scaled(batch.obs, self.online.input_scale)
            loss = loss + decoder_loss(self.online.decoder(features), pixels, paper.pixel_loss)
        self.updates += 1
        return loss

    @torch.no_grad()
    def _next_action(self, batch: Transitions, passed: QPass | None) -> Tensor:
        """The action a' that the successor target is computed for."""
        if self.paper.successor_action == "stored":
            assert batch.next_action is not None
            return batch.next_action
        if passed and passed.next_greedy is not None:
            return passed.next_greedy
        values: Tensor = self.q(batch.next_obs)
        return values.argmax(1)

    def update_target(self) -> None:
        """Copy the online network to the target network."""
        self.target.load_state_dict(self.online.state_dict())

    # Quality and saving --------------------------------------------------------------------------

    def quality(
        self,
        buffer: ReplayBuffer,
        *,
        queries: int = 32,
        seed: int | np.random.Generator = 0,
        new: bool = False,
        needs_of: Any = None,
    ) -> NeedQuality:
        """How accurate need is on the episodes that a need model would not learn from.

        This need has learned from these, too, if they are not ``new``.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            q = self.q.untrained().to(self.device)
            fresh = SuccessorNetwork(self.settings, q.shape, q.head.out_features, q.n_hidden)
        optimizer = torch.optim.SGD(q.parameters())
        untrained = PaperNeed(self.settings, fresh.to(self.device), q, optimizer)
        return need_quality(
            buffer,
            needs_of or self.needs_of,
            stream(seed, "need quality") if isinstance(seed, int) else seed,
            withheld=_all if new else withholds,
            untrained=untrained.needs_of,
            direction=self.settings.direction,
            queries=queries,
        )

    def state_dict(self) -> dict[str, Any]:
        """Both networks and the count of losses; the optimizer's state is the learner's."""
        target = self.target.state_dict() if self.has_target else None
        return {"online": self.online.state_dict(), "target": target, "updates": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what ``state_dict`` of one with the same settings returned."""
        self.online.load_state_dict(state["online"])
        if self.has_target:
            self.target.load_state_dict(state["target"])
        self.updates = int(state["updates"])


def _all(episodes: IntArray) -> BoolArray:
    return np.ones(len(episodes), dtype=np.bool_)

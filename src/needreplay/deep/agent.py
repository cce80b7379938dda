"""The deep agent: networks, memory and the updates of ``algorithm.py`` put together.

``act``, ``observe`` and ``learn`` are called by whoever walks the world; the draw is a part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from needreplay.core.rng import stream
from needreplay.core.types import AnyArray
from needreplay.deep.algorithm import Algorithm, Learned
from needreplay.deep.dqn import QLearner
from needreplay.deep.networks import QNetwork
from needreplay.deep.optimizers import make_optimizer
from needreplay.deep.samplers import make_sampler
from needreplay.deep.settings import DeepSettings
from needreplay.deep.successor import SuccessorNetwork
from needreplay.deep.successor_learner import SuccessorLearner
from needreplay.deep.telling import AskedFrom, Telling
from needreplay.deep.tensors import observed, to_device
from needreplay.replay import ReplayBuffer
from needreplay.rules.priority import annealed


class DeepAgent:
    """DQN or double DQN, with any draw, and with need if the draw uses it.

    Args:
        settings: see ``DeepSettings``.
        observation_space: a Box, of images (channels first) or of a row of numbers.
        n_actions: how many actions there are.
        steps: how long the run will be: β reaches its end then.
        seed: networks, actions and draws follow from it.
        device: where the networks are.
    """

    def __init__(
        self,
        settings: DeepSettings,
        observation_space: Any,
        n_actions: int,
        *,
        steps: int,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.settings = settings
        self.n_actions = n_actions
        self.device = torch.device(device)
        self.steps_planned = steps
        self.steps = 0
        self.updates = 0
        shape = tuple(observation_space.shape)
        # Networks are made on the CPU, so that a seed means the same on every device.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(stream(seed, "networks").integers(2**62)))
            q = QNetwork(settings.network, shape, n_actions)
            successor = SuccessorNetwork(settings, shape, n_actions, q.n_hidden)
        self.q = QLearner(settings.base, q.to(self.device))
        self.successor = (
            SuccessorLearner(settings, successor.to(self.device), self.q.online)
            if settings.uses_need
            else None
        )
        self.optimizer = make_optimizer(
            settings, q.parameters(), successor.parameters() if settings.uses_need else ()
        )
        self.stores_next_action = settings.uses_need and settings.successor_action == "stored"
        self.replay = ReplayBuffer.for_spaces(
            observation_space,
            np.int64,
            capacity=settings.capacity,
            n_step=settings.n_step,
            discount=settings.discount,
            frame_stack=settings.frame_stack,
            extra_columns={"next_action": np.int64} if self.stores_next_action else None,
            sampler=make_sampler(settings, successor.n_features),
            seed=seed,
        )
        self._choices = stream(seed, "actions")
        telling = (
            Telling(settings, self.replay, self.successor, self.device)
            if self.successor is not None and settings.sampler == "per-sr-sampling"
            else None
        )
        self.algorithm = Algorithm(
            settings, self.replay, self.q, self.optimizer, self.successor, telling, self.device
        )
        self._previous: tuple[AnyArray, int] | None = None

    @property
    def epsilon(self) -> float:
        """The share of random actions in training now."""
        begun = self.steps - self.settings.min_history
        return annealed(1.0, self.settings.epsilon_end, begun / max(1, self.settings.epsilon_steps))

    @property
    def beta(self) -> float:
        """β of the importance weights now."""
        return annealed(
            self.settings.beta_start, self.settings.beta_end, self.steps / self.steps_planned
        )

    def act(self, obs: AnyArray) -> int:
        """An action in training: random with probability ``epsilon``, else greedy."""
        return self._epsilon_greedy(obs, self.epsilon, self._choices)

    def act_in_evaluation(self, obs: AnyArray, choices: np.random.Generator) -> int:
        """An action in evaluation, which changes nothing in the agent."""
        return self._epsilon_greedy(obs, self.settings.eval_epsilon, choices)

    def _epsilon_greedy(self, obs: AnyArray, epsilon: float, choices: np.random.Generator) -> int:
        if choices.random() < epsilon:
            return int(choices.integers(self.n_actions))
        return int(self.q.greedy(self._one(obs)))

    def _one(self, obs: AnyArray) -> Tensor:
        return observed(np.ascontiguousarray(obs)[None], self.device)

    def observe(
        self,
        obs: AnyArray,
        action: int,
        reward: float,
        next_obs: AnyArray,
        terminated: bool,
        truncated: bool,
        next_action: int = 0,
    ) -> None:
        """One step in the world; ``next_action`` matters only where ``stores_next_action``."""
        if self.settings.reward_clip:
            reward = min(1.0, max(-1.0, reward))
        extra = {"next_action": next_action} if self.stores_next_action else {}
        ids = self.replay.add(
            obs=obs,
            action=action,
            reward=reward,
            next_obs=next_obs,
            terminated=terminated,
            truncated=truncated,
            **extra,
        )
        self._previous = obs, action
        self.steps += 1
        if self.algorithm.telling is not None:
            self.algorithm.telling.note(obs, action, ids)

    def learn(self, present: AnyArray) -> Learned | None:
        """One update if one is due after this step; ``present`` is what the agent sees now."""
        settings = self.settings
        if self.steps < settings.min_history or self.steps % settings.update_period:
            return None
        if not len(self.replay):
            return None
        learned = self._update(present)
        self.updates += 1
        if self.steps % settings.target_period < settings.update_period:
            self.q.copy_to_target()
        period = settings.successor_target_period
        if self.successor is not None and period and self.steps % period < settings.update_period:
            self.successor.copy_to_target()
        return learned

    def _update(self, present: AnyArray) -> Learned:
        asked_from = None if self.successor is None else self._asked_from(present)
        return self.algorithm.update(asked_from, self.beta)

    def _asked_from(self, present: AnyArray) -> AskedFrom:
        """Where need is asked from: the present state and its greedy action, or the pair before."""
        if self.settings.need_row == "previous" and self._previous is not None:
            obs, action = self._previous
            return AskedFrom(self._one(obs), torch.tensor([action], device=self.device))
        return AskedFrom(self._one(present), None)

    def query(self, present: AnyArray) -> AnyArray | None:
        """What the memory is told of the present before a draw; None if it takes no need.

        It is told the features of everything stored since the last draw, too.
        """
        telling = self.algorithm.telling
        if telling is None:
            return None
        telling.present(self._asked_from(present))
        return telling.query

    def tell_untold(self) -> None:
        """Tell the memory the features of everything stored since the last draw."""
        if self.algorithm.telling is not None:
            self.algorithm.telling.tell_untold()

    def networks(self) -> dict[str, torch.nn.Module]:
        """Every network by name, targets too."""
        named: dict[str, torch.nn.Module] = {"q": self.q.online, "q_target": self.q.target}
        if self.successor is not None:
            named["successor"] = self.successor.online
            if self.successor.has_target:
                named["successor_target"] = self.successor.target
        return named

    @property
    def choices(self) -> np.random.Generator:
        """Where actions in training get their chance from."""
        return self._choices

    def need_of(self, present: AnyArray, obs: AnyArray, actions: AnyArray) -> AnyArray:
        """The raw need of many observations, asked from ``present`` and its greedy action."""
        assert self.successor is not None
        with torch.no_grad():
            here = self._one(present)
            seen = self.q.seen(here)
            now = self.successor.present(here, seen.action, seen.hidden)
            features = self.successor.features(observed(np.ascontiguousarray(obs), self.device))
            need = self.successor.need(now, features, to_device(actions, self.device))
        values: AnyArray = need.cpu().numpy()
        return values

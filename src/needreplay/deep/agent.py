"""The deep agent: double DQN with prioritised replay and need, the paper's Algorithm 3.

``act``, ``observe`` and ``learn`` are called by whoever walks the world; the draw is a part.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from needreplay.deep.dqn import Errors, QLearner, Seen
from needreplay.deep.draws import make_draw
from needreplay.deep.losses import Losses, gain_of, q_loss
from needreplay.deep.need import NeedFacts, facts_of, rescaled, without_negatives
from needreplay.deep.networks import QNetwork
from needreplay.deep.optimizers import clear_gradients, make_optimizer
from needreplay.deep.settings import DeepSettings
from needreplay.deep.successor import SuccessorNetwork
from needreplay.deep.successor_learner import Present, SuccessorLearner
from needreplay.deep.telling import AskedFrom, Telling
from needreplay.deep.tensors import Transitions, observed, to_device, transitions
from needreplay.memory import Replay
from needreplay.memory.batch import Batch
from needreplay.rng import stream
from needreplay.rules.priority import annealed
from needreplay.types import AnyArray


class Learned(NamedTuple):
    """What an update did."""

    loss: float
    error: float
    """the mean gain told to the memory: absolute TD-errors, or what the preset makes of them"""
    entropy: float
    """of the draw, as estimated from this batch, over that of a uniform one; NaN where unknown"""
    need: NeedFacts | None


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
        self.replay = Replay.for_spaces(
            observation_space,
            np.int64,
            capacity=settings.capacity,
            n_step=settings.n_step,
            discount=settings.discount,
            frame_stack=shape[0] if settings.network == "nature" else 0,
            extra_columns={"next_action": np.int64} if self.stores_next_action else None,
            draw=make_draw(settings, successor.n_features),
            seed=seed,
        )
        self._choices = stream(seed, "actions")
        self._telling = (
            Telling(settings, self.replay, self.successor, self.device)
            if self.successor is not None and settings.draw == "per-sr-sampling"
            else None
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
        if self._telling is not None:
            self._telling.note(obs, action, ids)

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
        """Algorithm 3's inner loop, over a batch at once."""
        settings, successor = self.settings, self.successor
        asked_from = None if successor is None else self._asked_from(present)
        # Where need is part of the probability it is asked for before the draw; where it scales
        # the update, afterwards, in the pass that the batch takes through the Q network.
        now = self._telling.present(asked_from) if asked_from and self._telling else None
        drawn = self._drawn()
        batch = transitions(drawn, self.device)
        if successor is None or asked_from is None:
            errors = self.q.errors(batch, with_next_action=False)
            loss, facts = q_loss(errors.delta, batch.weight, None), None
            self._step(Losses(loss))
        else:
            errors = self.q.errors(batch, beside=asked_from.obs if now is None else None)
            if errors.beside is not None:
                now = self._present(asked_from, errors.beside)
            assert now is not None
            loss, facts, features = self._learn_with_need(successor, now, batch, errors)
            if self._telling is not None:
                self._telling.tell(drawn.ids, features, batch.action)
                self._telling.refresh()
        gain = gain_of(errors.delta.detach(), settings.gain, settings.gain_floor).cpu().numpy()
        self.replay.update(drawn.ids, gain)
        entropy = (
            -np.log(drawn.probabilities).mean() / np.log(max(2, len(self.replay)))
            if drawn.normalised
            else np.nan
        )
        return Learned(float(loss.detach()), float(gain.mean()), float(entropy), facts)

    def _learn_with_need(
        self, successor: SuccessorLearner, now: Present, batch: Transitions, errors: Errors
    ) -> tuple[Tensor, NeedFacts, Tensor]:
        """A step of both networks; answers with the Q-loss, need's facts and the features."""
        settings = self.settings
        shared = settings.encoder == "shared"
        features = errors.hidden if shared else successor.features(batch.obs)
        with torch.set_grad_enabled(settings.need_moves_features):
            raw = successor.need(now, features, batch.action)
        facts = facts_of(raw.detach().cpu().numpy(), features.detach().cpu().numpy())
        need = None
        if settings.draw == "per-sr":
            need = rescaled(without_negatives(raw, settings.negative), settings.scale)
        loss = q_loss(errors.delta, batch.weight, need)
        if settings.successor_batch == "same" and not settings.need_moves_features:
            # Losses on parameters that have nothing in common: one pass back serves both.
            next_action = batch.next_action if self.stores_next_action else errors.next_action
            assert next_action is not None
            next_shared = errors.next_hidden if shared else None
            self._step(successor.losses(batch, features, next_action, next_shared).plus(loss))
        else:
            self._step(Losses(loss))
            self._learn_successor_apart(successor, batch)
        return loss, facts, features.detach()

    def _learn_successor_apart(self, successor: SuccessorLearner, batch: Transitions) -> None:
        """A step of the successor network alone, after the Q network's."""
        if self.settings.successor_batch == "another":
            batch = transitions(self._drawn(), self.device)
        next_action = (
            batch.next_action if self.stores_next_action else self.q.greedy(batch.next_obs)
        )
        assert next_action is not None
        self._step(successor.losses(batch, successor.features(batch.obs), next_action))

    def _drawn(self) -> Batch:
        """A batch, by the need that was last asked for where the draw takes it."""
        query = None if self._telling is None else self._telling.query
        return self.replay.sample(self.settings.batch_size, need=query, beta=self.beta)

    def _step(self, losses: Losses) -> None:
        clear_gradients(self.optimizer)
        losses.backward()
        self.optimizer.step()

    def _asked_from(self, present: AnyArray) -> AskedFrom:
        """Where need is asked from: the present state and its greedy action, or the pair before."""
        if self.settings.need_row == "previous" and self._previous is not None:
            obs, action = self._previous
            return AskedFrom(self._one(obs), torch.tensor([action], device=self.device))
        return AskedFrom(self._one(present), None)

    def _present(self, asked_from: AskedFrom, seen: Seen) -> Present:
        """φ and m there; ``seen`` is what the Q network makes of it."""
        assert self.successor is not None
        action = seen.action if asked_from.action is None else asked_from.action
        with torch.set_grad_enabled(self.settings.need_moves_features):
            return self.successor.present(asked_from.obs, action, seen.hidden)

    def query(self, present: AnyArray) -> AnyArray | None:
        """What the memory is told of the present before a draw; None if it takes no need.

        It is told the features of everything stored since the last draw, too.
        """
        if self._telling is None:
            return None
        self._telling.present(self._asked_from(present))
        return self._telling.query

    def tell_untold(self) -> None:
        """Tell the memory the features of everything stored since the last draw."""
        if self._telling is not None:
            self._telling.tell_untold()

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
            obs_now = self._one(present)
            now = self._present(AskedFrom(obs_now, None), self.q.seen(obs_now))
            features = self.successor.features(observed(np.ascontiguousarray(obs), self.device))
            need = self.successor.need(now, features, to_device(actions, self.device))
        values: AnyArray = need.cpu().numpy()
        return values

"""The paper's Algorithm 3: what one update is, over a batch at once.

Sampler, TD-errors, need, a step of both networks, gains set. The sampler belongs to the buffer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from needreplay.deep.dqn import Errors, QLearner, Seen
from needreplay.deep.losses import Losses, gain_of, q_loss
from needreplay.deep.need import NeedFacts, facts_of, rescaled, without_negatives
from needreplay.deep.optimizers import clear_gradients
from needreplay.deep.settings import DeepSettings
from needreplay.deep.successor_learner import Present, SuccessorLearner
from needreplay.deep.telling import AskedFrom, Telling
from needreplay.deep.tensors import Transitions, transitions
from needreplay.replay import Batch, ReplayBuffer


class Learned(NamedTuple):
    """What an update did."""

    loss: float
    error: float
    """the mean gain told to the memory: absolute TD-errors, or what the preset makes of them"""
    entropy: float
    """of the draw, as estimated from this batch, over that of a uniform one; NaN where unknown"""
    need: NeedFacts | None


class Algorithm(NamedTuple):
    """DQN or double DQN from a memory, and with need where there is a successor network.

    ``telling`` is there where need is part of the probability; else need scales the update.
    """

    settings: DeepSettings
    replay: ReplayBuffer
    q: QLearner
    optimizer: torch.optim.Optimizer
    successor: SuccessorLearner | None
    telling: Telling | None
    device: torch.device

    def update(self, asked_from: AskedFrom | None, beta: float) -> Learned:
        """One update; ``asked_from`` is the pair that need is asked from, if there is need."""
        settings, successor, telling = self.settings, self.successor, self.telling
        # Where need is part of the probability it is asked for before the draw; where it scales
        # the update, afterwards, in the pass that the batch takes through the Q network.
        now = telling.present(asked_from) if telling is not None and asked_from else None
        drawn = self._drawn(beta)
        batch = transitions(drawn, self.device)
        if successor is None or asked_from is None:
            errors = self.q.errors(batch, with_next_action=False)
            loss, facts = q_loss(errors.delta, batch.weight, None), None
            self._step(Losses(loss))
        else:
            errors = self.q.errors(batch, beside=asked_from.obs if now is None else None)
            if errors.beside is not None:
                now = self.present(successor, asked_from, errors.beside)
            assert now is not None
            loss, facts, features = self._learn_with_need(successor, now, batch, errors, beta)
            if telling is not None:
                telling.tell(drawn.ids, features, batch.action)
                telling.refresh()
        gain = gain_of(errors.delta.detach(), settings.gain, settings.gain_floor).cpu().numpy()
        self.replay.update_priorities(drawn.ids, gain)
        entropy = (
            -np.log(drawn.probabilities).mean() / np.log(max(2, len(self.replay)))
            if drawn.normalized
            else np.nan
        )
        return Learned(float(loss.detach()), float(gain.mean()), float(entropy), facts)

    def present(self, successor: SuccessorLearner, asked_from: AskedFrom, seen: Seen) -> Present:
        """φ and m of the pair; ``seen`` is what the Q network makes of its observation."""
        action = seen.action if asked_from.action is None else asked_from.action
        with torch.set_grad_enabled(self.settings.need_moves_features):
            return successor.present(asked_from.obs, action, seen.hidden)

    def _learn_with_need(
        self,
        successor: SuccessorLearner,
        now: Present,
        batch: Transitions,
        errors: Errors,
        beta: float,
    ) -> tuple[Tensor, NeedFacts, Tensor]:
        """A step of both networks; answers with the Q-loss, need's facts and the features."""
        settings = self.settings
        shared = settings.encoder == "shared"
        features = errors.hidden if shared else successor.features(batch.obs)
        with torch.set_grad_enabled(settings.need_moves_features):
            raw = successor.need(now, features, batch.action)
        facts = facts_of(raw.detach().cpu().numpy(), features.detach().cpu().numpy())
        need = None
        if settings.sampler == "per-sr":
            need = rescaled(without_negatives(raw, settings.negative), settings.scale)
        loss = q_loss(errors.delta, batch.weight, need)
        if settings.successor_batch == "same" and not settings.need_moves_features:
            # Losses on parameters that have nothing in common: one pass back serves both.
            stored = settings.successor_action == "stored"
            next_action = batch.next_action if stored else errors.next_action
            assert next_action is not None
            next_shared = errors.next_hidden if shared else None
            self._step(successor.losses(batch, features, next_action, next_shared).plus(loss))
        else:
            self._step(Losses(loss))
            another = settings.successor_batch == "another"
            own = transitions(self._drawn(beta), self.device) if another else batch
            self._learn_successor_apart(successor, own)
        return loss, facts, features.detach()

    def _learn_successor_apart(self, successor: SuccessorLearner, batch: Transitions) -> None:
        """A step of the successor network alone, after the Q network's."""
        stored = self.settings.successor_action == "stored"
        next_action = batch.next_action if stored else self.q.greedy(batch.next_obs)
        assert next_action is not None
        self._step(successor.losses(batch, successor.features(batch.obs), next_action))

    def _drawn(self, beta: float) -> Batch:
        """A batch, by the need that was last asked for where the draw takes it."""
        query = None if self.telling is None else self.telling.query
        return self.replay.sample(self.settings.batch_size, need=query, beta=beta)

    def _step(self, losses: Losses) -> None:
        clear_gradients(self.optimizer)
        losses.backward()
        self.optimizer.step()

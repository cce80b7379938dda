"""The value of a backup: what one update is worth to the policy, exactly, in a known world.

This is Mattar & Daw's expected value of a backup for any Q. The policy is the softmax of Q, so
that its value V changes smoothly. To first order a step of −g in θ changes V(q), the value seen
from a state q, by

    −g · ∇_θ V(q),   ∇_θ V(q) = Σ_{s, a} dV(q) / dQ(s, a) ∇_θ Q(s, a)
    dV(q) / dQ(s, a) = M(q, s) π(a | s) [Q^π(s, a) − V^π(s)] / temperature

with M the discounted visits under the policy. So one solve and one pass through the network give
the worth of every update, and another step size only scales it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array, csc_array, eye_array
from scipy.sparse.linalg import splu
from torch import Tensor
from torch.func import functional_call, vjp, vmap

from needlab.tabular.successor import final_states
from needlab.worlds.tabular import TabularWorld
from needreplay._core.types import BoolArray, FloatArray, IntArray

NEAR_STEPS = 2
"""States so many steps away, either way, are near."""


def softmax_policy(values: FloatArray, temperature: float) -> FloatArray:
    """π(a | s) ∝ exp(Q(s, a) / temperature), [state, action]."""
    raised = np.exp((values - values.max(axis=1, keepdims=True)) / temperature)
    policy: FloatArray = raised / raised.sum(axis=1, keepdims=True)
    return policy


def counted_steps(world: TabularWorld) -> BoolArray:
    """[state, action]: whether anything is counted after a step, as in ``transition_matrix``."""
    final = final_states(world.next_state, world.ends)
    found: BoolArray = (~world.ends | final[world.next_state]) & ~final[:, None]
    return found


class PolicyValue:
    """V of a policy in a known world, and how it depends on the policy.

    Args:
        world: the table.
        policy: [state, action].
        discount: γ.
    """

    def __init__(self, world: TabularWorld, policy: FloatArray, discount: float) -> None:
        n_states, counted = world.n_states, counted_steps(world)
        states = np.repeat(np.arange(n_states), world.n_actions)
        moves = ((policy * counted).ravel(), (states, world.next_state.ravel()))
        T = coo_array(moves, shape=(n_states, n_states))
        self._solver = splu(csc_array(eye_array(n_states) - discount * T))
        self._policy = policy
        self.V: FloatArray = self._solver.solve((policy * world.reward_mean).sum(axis=1))
        after = np.where(counted, self.V[world.next_state], 0.0)
        self.Q: FloatArray = world.reward_mean + discount * after

    def gradient(self, seen_from: FloatArray, temperature: float) -> FloatArray:
        """dV / dQ(s, a) of the softmax policy, [state, action].

        ``seen_from`` has a weight for each state: V is the weighted sum.
        """
        visits = self._solver.solve(seen_from, trans="T")
        advantage = self._policy * (self.Q - self.V[:, None])
        found: FloatArray = visits[:, None] * advantage / temperature
        return found


class Function:
    """Q of all states as a function of its parameters, in double precision.

    Args:
        network: Q.
        obs: [state, feature].
    """

    def __init__(self, network: torch.nn.Module, obs: Tensor) -> None:
        self._network, self._obs = network, obs.double()
        self.parameters: dict[str, Tensor] = {
            name: value.detach().double() for name, value in network.named_parameters()
        }

    def __call__(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Q for these parameters, [state, action]."""
        found: Tensor = functional_call(self._network, dict(parameters), (self._obs,))
        return found

    def values(self) -> FloatArray:
        """Q as it is, [state, action]."""
        with torch.no_grad():
            return self(self.parameters).numpy()

    def spread(self, directions: FloatArray) -> FloatArray:
        """⟨∇_θ Q(s, b), ∇_θ Σ directions · Q⟩ for all pairs: [direction, state, action].

        A gradient step for Q(s', a'), a direction with a 1 there, changes Q(s, b) by so much.
        """
        values, back = vjp(self, self.parameters)[:2]
        # ``back`` is linear, and the transpose of a transpose is the forward derivative.
        forward = vjp(lambda direction: back(direction)[0], torch.zeros_like(values))[1]

        def moved(direction: Tensor) -> Tensor:
            (found,) = forward(back(direction)[0])
            change: Tensor = found
            return change

        with torch.no_grad():
            made = vmap(moved, chunk_size=16)(torch.from_numpy(directions))
        found: FloatArray = made.numpy()
        return found

    def gradient_of(self, state: int, action: int) -> dict[str, Tensor]:
        """∇_θ Q(state, action)."""
        direction = torch.zeros(len(self._obs), self.values().shape[1], dtype=torch.float64)
        direction[state, action] = 1.0
        (found,) = vjp(self, self.parameters)[1](direction)
        gradient: dict[str, Tensor] = found
        return gradient


def unit_directions(states: IntArray, actions: IntArray, shape: tuple[int, int]) -> FloatArray:
    """A 1 at each pair: [pair, state, action]."""
    found = np.zeros((len(states), *shape))
    found[np.arange(len(states)), states, actions] = 1.0
    return found


def near_states(world: TabularWorld, steps: int = NEAR_STEPS) -> BoolArray:
    """[state, state]: at most so many steps apart, along the arrows or against them."""
    near: Any = np.eye(world.n_states)
    moves = np.zeros_like(near)
    states = np.repeat(np.arange(world.n_states), world.n_actions)
    goes_on = ~world.ends.ravel()
    moves[states[goes_on], world.next_state.ravel()[goes_on]] = 1.0
    moves = csc_array(np.minimum(moves + moves.T + near, 1.0))
    near = csc_array(near)
    for _ in range(steps):
        near = moves @ near
    found: BoolArray = near.toarray() > 0.0
    return found


def locality(spread: FloatArray, states: IntArray, near: BoolArray, stored: BoolArray) -> float:
    """The share of |change of Q| over stored states that falls on states near the update's own.

    Args:
        spread: [update, state, action], the changes, up to a factor for each update.
        states: where each update's transition began.
        near: [state, state].
        stored: which states count.
    """
    change = np.abs(spread).sum(axis=2) * stored
    return float(np.mean((change * near[states]).sum(axis=1) / change.sum(axis=1)))

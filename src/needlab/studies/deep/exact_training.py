"""One run of the exact-need study: a double DQN in a small known world, and its policy's value.

``docs/preregistration.md`` fixed the agent and the metric before the runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from needlab.deep.dqn import QLearner, Transitions, priority_of, q_loss
from needlab.deep.networks import QNetwork
from needlab.studies.deep.exact_arms import ARMS, Memory
from needlab.studies.deep.exact_tasks import ExactTask, exact_task
from needlab.tabular.successor import transition_matrix
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray, IntArray
from needreplay.equations import annealed, closed_form
from needreplay.replay import Batch

DISCOUNT = 0.99
CHECKPOINTS = 20
START, TARGET_PERIOD, POLICY_PERIOD = 500, 100, 100
EPSILON_END, EPSILON_STEPS = 0.1, 4_000


class Case(NamedTuple):
    """One run."""

    task: str
    period: int
    arm: str
    seed: int
    steps: int


def policy_value(task: ExactTask, policy: FloatArray) -> float:
    """The mean discounted return of a policy, [state, action], over the task's starts."""
    world = task.world
    T = transition_matrix(world.next_state, world.ends, policy)
    expected = (policy * world.reward_mean).sum(axis=1)
    values = closed_form(T, DISCOUNT) @ expected
    return float(np.mean([values[starts].mean() for starts in task.starts]))


def epsilon_greedy(values: FloatArray, epsilon: float = EPSILON_END) -> FloatArray:
    """The policy, [state, action], that takes the first best action or a random one."""
    n_actions = values.shape[1]
    best = np.eye(n_actions)[values.argmax(axis=1)]
    policy: FloatArray = (1.0 - epsilon) * best + epsilon / n_actions
    return policy


def best_policy(task: ExactTask) -> FloatArray:
    """The policy of value iteration, with the same random actions."""
    world, reward = task.world, task.world.reward_mean
    Q = np.zeros(reward.shape)
    for _ in range(3_000):
        Q = reward + DISCOUNT * np.where(world.ends, 0.0, Q.max(axis=1)[world.next_state])
    return epsilon_greedy(Q)


def train(case: Case) -> FloatArray:
    """The value of the policy with ε = 0.1 at each checkpoint: 0 the random policy, 1 the best."""
    task, arm = exact_task(case.task), ARMS[case.arm]
    reward, n_actions = task.world.reward_mean, task.world.n_actions
    random_value = policy_value(task, np.full(reward.shape, 1.0 / n_actions))
    best_value = policy_value(task, best_policy(task))
    rng = stream(case.seed, "exact need", case.task, case.period)
    seed = int(rng.integers(2**62))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = QNetwork("vector", task.obs.shape[1:], n_actions)
    agent, memory = TableDQN(task.obs, network), Memory(task, arm, case.seed)
    curve = []
    for step, _ in played(task, agent, memory, rng, case.steps, case.period):
        if (step + 1) % (case.steps // CHECKPOINTS) == 0:
            value = policy_value(task, epsilon_greedy(agent.values()))
            curve.append((value - random_value) / (best_value - random_value))
    return np.array(curve)


def played(
    task: ExactTask,
    agent: TableDQN,
    memory: Memory,
    rng: np.random.Generator,
    steps: int,
    period: int,
) -> Iterator[tuple[int, int]]:
    """Let the agent act and learn; after each step, its number and the state it led to.

    Args:
        task: the known world.
        agent: acts and learns.
        memory: stores and samples.
        rng: of starts and random actions.
        steps: how many.
        period: steps between updates.
    """
    world, n_actions = task.world, task.world.n_actions

    def starts(step: int) -> IntArray:
        return task.starts[step // task.phase_steps % len(task.starts)]

    state, age, updates = int(rng.choice(starts(0))), 0, 0
    for step in range(steps):
        epsilon = annealed(1.0, EPSILON_END, (step - START) / EPSILON_STEPS)
        explores = rng.random() < epsilon
        action = int(rng.integers(n_actions)) if explores else agent.best_action(state)
        next_state, ends = int(world.next_state[state, action]), bool(world.ends[state, action])
        memory.add(
            state, action=action, reward=world.reward_mean[state, action], next_s=next_state,
            discount=0.0 if ends else DISCOUNT,
        )  # fmt: skip
        age += 1
        state = next_state
        if ends or age >= task.episode_steps:
            state, age = int(rng.choice(starts(step + 1))), 0
        if step >= START and step % period == 0:
            if memory.by_need and updates % POLICY_PERIOD == 0:
                memory.follow(epsilon_greedy(agent.values(), epsilon))
            batch = memory.sample(state, starts(step + 1), annealed(0.4, 1.0, step / steps))
            memory.update_priorities(batch.ids, agent.update(batch))
            updates += 1
        if step % agent.target_period == 0:
            agent.learner.update_target()
        yield step, state


class TableDQN:
    """A double DQN for the states of a table.

    Args:
        obs: [state, feature], what its network sees, float32.
        network: Q.
        learning_rate: of Adam.
        target_period: steps between copies to the target network.
    """

    def __init__(
        self,
        obs: FloatArray,
        network: QNetwork,
        learning_rate: float = 1e-3,
        target_period: int = TARGET_PERIOD,
    ) -> None:
        self.network, self.target_period = network, target_period
        self.learner = QLearner("double-dqn", network)
        self.optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
        self.obs = torch.from_numpy(obs)

    def values(self) -> FloatArray:
        """Q of all states: [state, action]."""
        with torch.no_grad():
            found: FloatArray = self.network(self.obs).numpy().astype(np.float64)
        return found

    def best_action(self, state: int) -> int:
        """The action with the largest Q."""
        with torch.no_grad():
            return int(self.network(self.obs[state : state + 1]).argmax())

    def td_errors(self, batch: Batch) -> Tensor:
        """δ of each transition, with its gradient."""
        columns = {name: torch.from_numpy(batch[name]) for name in ("s", "next_s", "action")}
        transitions = Transitions(
            obs=self.obs[columns["s"]],
            action=columns["action"],
            reward=torch.from_numpy(batch["reward"]),
            next_obs=self.obs[columns["next_s"]],
            discount=torch.from_numpy(batch["discount"]),
            weight=torch.from_numpy(batch.weights.astype(np.float32)),
            next_action=None,
        )
        return self.learner.td_errors(transitions).error

    def update(self, batch: Batch) -> FloatArray:
        """One step of Adam; returns the new priorities."""
        error = self.td_errors(batch)
        self.optimizer.zero_grad()
        weight = torch.from_numpy(batch.weights.astype(np.float32))
        q_loss(error, weight, None).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        priorities: FloatArray = priority_of(error.detach(), "abs", 1e-6).numpy()
        return priorities

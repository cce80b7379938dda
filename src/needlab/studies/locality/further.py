"""What an update is worth beyond first order: finite steps, Adam's steps, and later on.

Each update is made on a copy of the parameters. Nothing here changes the agent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from needlab.deep.dqn import huber, select, td_error
from needlab.studies.deep.exact_training import TableDQN
from needreplay.replay import Batch

Parameters = dict[str, Tensor]
BETAS, EPS = (0.9, 0.999), 1e-8
"""Adam's own defaults."""


class Moments(NamedTuple):
    """What Adam remembers: its means of gradients and of their squares, and its steps so far."""

    first: Parameters
    second: Parameters
    steps: int


def moments_of(agent: TableDQN) -> Moments:
    """The moments of the agent's optimizer."""
    named = dict(agent.network.named_parameters())
    state: Any = agent.optimizer.state
    first = {name: state[value]["exp_avg"] for name, value in named.items()}
    second = {name: state[value]["exp_avg_sq"] for name, value in named.items()}
    return Moments(first, second, int(state[next(iter(named.values()))]["step"]))


def adam_step(
    parameters: Parameters, gradient: Parameters, moments: Moments, rate: float
) -> tuple[Parameters, Moments]:
    """One step of Adam; returns the new parameters and moments."""
    steps, first, second, moved = moments.steps + 1, {}, {}, {}
    for name, g in gradient.items():
        first[name] = BETAS[0] * moments.first[name] + (1.0 - BETAS[0]) * g
        second[name] = BETAS[1] * moments.second[name] + (1.0 - BETAS[1]) * g * g
        mean = first[name] / (1.0 - BETAS[0] ** steps)
        root = (second[name] / (1.0 - BETAS[1] ** steps)).sqrt()
        moved[name] = parameters[name] - rate * mean / (root + EPS)
    return moved, Moments(first, second, steps)


def trained_on(
    agent: TableDQN, copies: Parameters, batches: list[Batch], target_period: int
) -> Parameters:
    """Copies of the parameters, [copy, ...], after more updates, all from the same batches.

    Args:
        agent: has the network, the observations, Adam's moments and the target network.
        copies: where each begins.
        batches: one for each update.
        target_period: updates between copies to the target network.
    """
    network, rate = agent.network, agent.optimizer.param_groups[0]["lr"]
    n_copies = len(next(iter(copies.values())))
    start = moments_of(agent)

    def repeated(one: Parameters) -> Parameters:
        return {name: torch.stack([value] * n_copies) for name, value in one.items()}

    moments = Moments(repeated(start.first), repeated(start.second), start.steps)
    target = repeated(
        {name: value.detach() for name, value in agent.learner.target.named_parameters()}
    )

    def loss(own: Parameters, target: Parameters, batch: dict[str, Tensor]) -> Tensor:
        next_obs = agent.obs[batch["next_s"]]
        greedy = functional_call(network, own, (next_obs,)).argmax(1)
        after = select(functional_call(network, target, (next_obs,)), greedy)
        value = select(functional_call(network, own, (agent.obs[batch["s"]],)), batch["action"])
        error = td_error(batch["reward"], batch["discount"], after.detach(), value)
        return huber(error).mean()

    gradients = vmap(grad(loss), in_dims=(0, 0, None))
    with torch.no_grad():
        for number, batch in enumerate(batches):
            if number % target_period == 0 and number:
                target = copies
            columns = {name: torch.from_numpy(value) for name, value in batch.columns.items()}
            copies, moments = adam_step(copies, gradients(copies, target, columns), moments, rate)
    return copies

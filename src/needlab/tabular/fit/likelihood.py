"""The log-likelihood of what was replayed and chosen, given all that happened before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from needlab.core.jit import jit
from needlab.tabular.evb.backups import Agent, Records, softmax
from needlab.tabular.evb.episodes import move_row
from needlab.tabular.evb.settings import EVB, EVBSettings
from needlab.tabular.fit.data import ReplayData
from needlab.tabular.rivals import kernels
from needlab.tabular.rivals.mind import Mind, Moment
from needlab.tabular.rivals.parameters import EVB_MODEL, Values
from needlab.tabular.rivals.simulation import new_mind
from needreplay._core.types import FloatArray

IMPOSSIBLE = 1e-300
"""The chance that stands for 0, so that its logarithm is a number."""


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log-likelihoods under one model with given parameters."""

    pairs: FloatArray
    """The log-likelihood of every replayed pair."""
    uniform: FloatArray
    """The same if all remembered moves were as likely."""
    choices: FloatArray
    """The log-likelihood of every action taken."""


@jit
def pair_chance(moment: Moment, values: Values, pair: int) -> float:
    """The chance of a pair, one-step or at the end of a chain."""
    lapse = values.lapse / moment.candidate.sum()
    return float((1.0 - values.lapse) * moment.parts[:, pair].sum() + lapse)


@jit
def learn_steps(mind: Mind, steps: Records, first: int, end: int, choices: FloatArray) -> None:
    """Learn from steps ``first`` to ``end``; the log-likelihood of their actions."""
    agent, rule, lapse = mind.agent, mind.rule, mind.values.lapse
    chances = np.empty(agent.Q.shape[1])
    for i in range(first, end):
        s, a, after = steps[i]["state"], steps[i]["action"], steps[i]["next_state"]
        new = i == 0 or steps[i - 1]["episode"] != steps[i]["episode"]
        if new and i > 0 and mind.goal[steps[i - 1]["next_state"]] >= 0:
            move_row(agent.T, steps[i - 1]["next_state"], s, rule.transition_rate)
        softmax(agent.Q[s], rule.inverse_temperature, chances)
        chance = (1.0 - lapse) * chances[a] + lapse / chances.size
        choices[i] = np.log(max(chance, IMPOSSIBLE))
        kernels.experience(mind, s, a, steps[i]["reward"], after, new)


@jit
def walk(
    mind: Mind,
    steps: Records,
    events: Records,
    pairs: Records,
    replayed: FloatArray,
    uniform: FloatArray,
    choices: FloatArray,
    taught: bool,
) -> None:
    """Go through behavior and replay in order; write log-likelihoods.

    The chance is that of the pair, whether alone or at the end of a chain, so that models with and
    without chains are scored on the same. The agent learns from the chain that was recorded. Where
    an action or a chain is not known, the chance is the sum over what it could have been, and the
    agent learns from the likeliest.
    """
    actions, moment, done = mind.agent.Q.shape[1], mind.moment, 0
    for e in range(events.size):
        event = events[e]
        learn_steps(mind, steps, done, event["steps"], choices)
        done = event["steps"]
        kernels.begin_replay(mind, event["agent_state"])
        for i in range(event["first"], event["first"] + event["count"]):
            s, a, length = pairs[i]["state"], pairs[i]["action"], pairs[i]["length"]
            found = kernels.find_chances(mind)
            moves = moment.candidate.sum()
            if found == 0.0:
                for pair in range(moment.candidate.size):
                    moment.parts[0, pair] = moment.candidate[pair] / moves
            total, best, chosen, could = 0.0, -1.0, s * actions + max(a, 0), 0
            for action in range(actions):
                pair = s * actions + action
                if moment.candidate[pair] and (a < 0 or action == a):
                    chance = pair_chance(moment, mind.values, pair)
                    total += chance
                    could += 1
                    if chance > best:
                        best, chosen = chance, pair
            replayed[i] = np.log(max(total, IMPOSSIBLE))
            uniform[i] = np.log(max(could / moves, IMPOSSIBLE))
            if taught:
                part = -1
                if mind.model == EVB_MODEL and length > 0:
                    part = 1 if length > 1 and length == moment.length[0] + 1 else 0
                kernels.run_chosen(mind, chosen, part)
    learn_steps(mind, steps, done, steps.size, choices)


def likelihood(
    data: ReplayData,
    model: str = "evb",
    values: Mapping[str, float] | None = None,
    *,
    settings: EVBSettings = EVB["published"],
    taught: bool = True,
) -> Likelihood:
    """The log-likelihoods of replay and choices under a model.

    Args:
        data: behavior and replay.
        model: a name of ``MODELS``.
        values: of its parameters; the others have their defaults.
        settings: of learning: the kinds of gain and need.
        taught: whether replay changes what the agent knows, as it does in all models.
    """
    return relived(data, model, values, settings, taught)[0]


def relived(
    data: ReplayData,
    model: str,
    values: Mapping[str, float] | None,
    settings: EVBSettings,
    taught: bool,
) -> tuple[Likelihood, Agent]:
    """The log-likelihoods, and what the agent knows at the end."""
    mind = new_mind(model, data.world, values or {}, settings)
    found = Likelihood(*(np.zeros(len(part)) for part in (data.pairs, data.pairs, data.steps)))
    walk(
        mind, data.steps, data.events, data.pairs, found.pairs, found.uniform, found.choices, taught
    )
    return found, mind.agent

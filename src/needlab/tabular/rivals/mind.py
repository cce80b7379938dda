"""What a model of replay knows: the agent, its memory, and the moment within a replay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needlab.tabular.evb.backups import Agent, Rule
from needlab.tabular.rivals.parameters import Values
from needreplay._core.types import BoolArray, FloatArray, IntArray


class Memory(NamedTuple):
    """What the models remember beside the agent. Writing into the arrays teaches it."""

    seen: IntArray
    """[pair]: when a pair was last experienced, in steps from 1; 0: never"""
    clock: IntArray
    """[1]: steps"""
    strength: FloatArray
    """[pair]: SFMA's C"""
    similarity: FloatArray
    """[state, state]: SFMA's D"""
    errors: FloatArray
    """[1]: the sum of the trial's TD errors"""
    goals: IntArray
    """[goal]: the states of the candidate goals"""
    visits: FloatArray
    """[goal]: how often it was entered, plus 1"""
    values_of_goal: FloatArray
    """[goal, state, action]: values if this goal alone gives a reward of 1"""
    goal_reward: FloatArray
    """[goal, state, action]"""


class Moment(NamedTuple):
    """What changes within one replay."""

    candidate: BoolArray
    """[pair]: remembered moves that lead elsewhere"""
    parts: FloatArray
    """[part, pair]: they add up to the chances"""
    hidden: FloatArray
    """[part]: how likely it is, given the replay so far"""
    need: FloatArray
    """[goal, state]; one row for EVB"""
    gains: FloatArray
    """[goal, pair]; one row for EVB"""
    changed: BoolArray
    """[state]: whether Q changed since the gains were computed"""
    chain: IntArray
    """[place, (state, action)]: the last backup"""
    length: IntArray
    """[1]: of the chain; 0: nothing was replayed yet"""
    inhibition: FloatArray
    """[state]: SFMA's I"""
    present: IntArray
    """[2]: the state and the next state of SFMA's present experience"""
    order: IntArray
    """[rank]: experienced candidates, the latest first"""
    rank: IntArray
    """[pair]: the place in ``order``; -1: not in it"""


class Mind(NamedTuple):
    """A model of replay and all that it has learned."""

    model: int
    agent: Agent
    rule: Rule
    memory: Memory
    values: Values
    moment: Moment
    goal: IntArray
    """[state]: the number of the goal; -1: none"""


def new_moment(parts: int, pairs: int, states: int, goals: int) -> Moment:
    """Arrays for the replays of one agent."""
    return Moment(
        candidate=np.zeros(pairs, np.bool_),
        parts=np.zeros((parts, pairs)),
        hidden=np.zeros(parts),
        need=np.zeros((goals, states)),
        gains=np.zeros((goals, pairs)),
        changed=np.ones(states, np.bool_),
        chain=np.zeros((64, 2), np.int64),
        length=np.zeros(1, np.int64),
        inhibition=np.zeros(states),
        present=np.zeros(2, np.int64),
        order=np.zeros(pairs, np.int64),
        rank=np.full(pairs, -1, np.int64),
    )

"""One agent for every rung between prioritized sweeping and DQN, compiled.

Planning is a queue with predecessors or stored transitions, by the largest gain x need or by
sampling in proportion to it; Q is linear, as the matrix of inner products of features, or a network
of two layers. M is learned by TD(λ) as PS-SR does, whatever Q is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needlab.core.equations import absolute_gain, combine, td_error, uniform_index
from needlab.core.jit import jit
from needlab.studies.locality import ladder_network as network
from needlab.tabular.sweeping import SMALLEST_TRACE, clear_trace, td_lambda
from needlab.worlds.tabular import TabularWorld
from needreplay._core.types import FloatArray, IntArray

q_values, gradient_step = jit(network.q_values), jit(network.gradient_step)
adam = jit(network.adam)

DISCOUNT, EPSILON, STEP_SIZE, UPDATES, THRESHOLD, TRACE_DECAY = 0.95, 0.1, 0.1, 5, 1e-4, 0.5
"""The paper's, of PS-SR as printed."""
CAPACITY, UNIFORM_SHARE = 10_000, 0.25
TARGET_PERIOD = 100
"""Steps between copies to the target network."""


class Plan(NamedTuple):
    """How a rung replays, and what its Q is."""

    sampled: bool = False
    """in proportion to gain x need, in place of the largest"""
    stored: bool = False
    """stored transitions, in place of a queue with predecessors"""
    hidden: int = 0
    """units in each of two layers; 0: Q is linear"""
    target: bool = False
    """whether the network has a target network"""
    batch: int = 1
    """transitions of one update"""
    every: int = 1
    """steps between updates; at each step that has any, ``UPDATES`` / ``batch`` are made, or one"""


class Agent(NamedTuple):
    """The arrays of an agent."""

    Q: FloatArray
    """[state, action], where Q is linear"""
    kernel: FloatArray
    """[state, state]: inner products of features; empty: the identity"""
    theta: FloatArray
    """[part, parameter]: of the network, its target, Adam's two means, and the gradient"""
    inputs: IntArray
    """[state, 2]: the two inputs of a network that are 1"""
    layers: FloatArray
    """[layer, unit]: work space"""
    reward: FloatArray
    """[state, action]: what the world pays"""
    M: FloatArray
    places: IntArray
    """[state]: the need of a state is that of this one"""
    uses_need: bool


@jit
def values_of(agent: Agent, plan: Plan, state: int, part: int, out: FloatArray) -> None:
    """Q(state, ·) into ``out``; ``part`` 1 is the target network."""
    if plan.hidden == 0:
        out[:] = agent.Q[state]
    else:
        q_values(agent.theta[part], agent.inputs[state], agent.layers, out)


@jit
def _chosen(values: FloatArray, u: float) -> int:
    """A random action with probability ε, else a random one of the best."""
    n_actions = values.shape[0]
    if u < EPSILON:
        return uniform_index(u / EPSILON, n_actions)
    best = values.max()
    wanted = uniform_index((u - EPSILON) / (1.0 - EPSILON), int((values == best).sum()))
    for action in range(n_actions):
        if values[action] == best:
            if wanted == 0:
                return action
            wanted -= 1
    return 0


@jit
def _error_of(
    agent: Agent, plan: Plan, world: TabularWorld, pair: int, own: FloatArray, after: FloatArray
) -> float:
    """The TD error of a pair, with what the world does."""
    n_actions = own.shape[0]
    state, action = pair // n_actions, pair % n_actions
    ends = world.ends[state, action]
    next_value = 0.0
    if not ends:
        # The target's network is the online one, unless the plan has a target.
        part = 1 if plan.target else 0
        values_of(agent, plan, world.next_state[state, action], part, after)
        next_value = after.max()
    values_of(agent, plan, state, 0, own)
    return td_error(agent.reward[state, action], 0.0 if ends else DISCOUNT, next_value, own[action])


@jit
def _move(agent: Agent, pair: int, n_actions: int, change: float) -> None:
    """Q of the pair, and of all states that share its features, moves. Changes ``agent``."""
    state, action = pair // n_actions, pair % n_actions
    if agent.kernel.shape[0] == 0:
        agent.Q[state, action] += change
    else:
        for other in range(agent.kernel.shape[0]):
            agent.Q[other, action] += change * agent.kernel[state, other]


@jit
def _queue(gain: FloatArray, queued_at: IntArray, inserted: int, pair: int, found: float) -> int:
    """Queue a pair if its gain is large; one that is queued keeps the larger gain."""
    if found > THRESHOLD and found > gain[pair]:
        if gain[pair] == 0.0:
            queued_at[pair] = inserted
            inserted += 1
        gain[pair] = found
    return inserted


@jit
def _popped(
    gain: FloatArray, queued_at: IntArray, need: FloatArray, n_actions: int, sampled: bool,
    rng: np.random.Generator,
) -> int:  # fmt: skip
    """The queued pair with the largest gain x need, or one in proportion to it; −1: none."""
    found, top, total = -1, -np.inf, 0.0
    for pair in range(gain.shape[0]):
        if gain[pair] > 0.0:
            product = combine(gain[pair], need[pair // n_actions])
            total += max(product, 0.0)
            if product > top or (product == top and queued_at[pair] < queued_at[found]):
                found, top = pair, product
    if not sampled or total == 0.0:
        return found
    left = rng.random() * total
    for pair in range(gain.shape[0]):
        if gain[pair] > 0.0:
            left -= max(combine(gain[pair], need[pair // n_actions]), 0.0)
            if left < 0.0:
                return pair
    return found


@jit
def _drawn(cumulative: FloatArray, count: int, total: float, rng: np.random.Generator) -> int:
    """A stored transition: a share uniformly, the others in proportion to gain x need."""
    if total == 0.0 or rng.random() < UNIFORM_SHARE:
        return uniform_index(rng.random(), count)
    return min(int(np.searchsorted(cumulative[:count], rng.random() * total, "right")), count - 1)


@jit
def run_kernel(
    agent: Agent, plan: Plan, world: TabularWorld, steps: IntArray, episode_steps: int,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Let the agent act and learn, one episode for each entry of ``steps``. Changes both."""
    n_states, n_actions = world.next_state.shape
    n_pairs = n_states * n_actions
    trace, active = np.zeros(n_states), np.zeros(n_states + 1, np.int64)
    error, need = np.zeros(n_states), np.ones(n_states)
    own, after = np.zeros(n_actions), np.zeros(n_actions)
    # The queue: a gain for each pair (0: not queued), and which came first.
    gain, queued_at, inserted = np.zeros(n_pairs), np.zeros(n_pairs, np.int64), 0
    known, leads = np.zeros(n_pairs, np.bool_), np.zeros((n_states, n_pairs), np.int64)
    n_leads = np.zeros(n_states, np.int64)
    size = CAPACITY if plan.stored else n_pairs
    pair_of, gains = np.zeros(size, np.int64), np.zeros(size)
    cumulative, count, total_steps, n_adam = np.zeros(size), 0, 0, 0
    for episode in range(steps.shape[0]):
        clear_trace(trace, active)
        state, step, ends = world.starts[0], 0, False
        while not ends and step < episode_steps:
            values_of(agent, plan, state, 0, own)
            action = _chosen(own, rng.random())
            pair = state * n_actions + action
            next_state, ends = world.next_state[state, action], world.ends[state, action]
            step += 1
            total_steps += 1
            final = ends and not known[next_state * n_actions : (next_state + 1) * n_actions].any()
            td_lambda(
                agent.M, trace, active, error, state, next_state, ends, final,
                DISCOUNT, TRACE_DECAY, STEP_SIZE, SMALLEST_TRACE,
            )  # fmt: skip
            if not known[pair]:
                known[pair] = True
                leads[next_state, n_leads[next_state]] = pair
                n_leads[next_state] += 1
            if agent.uses_need:
                for other in range(n_states):
                    need[other] = agent.M[state, agent.places[other]]
            found = absolute_gain(_error_of(agent, plan, world, pair, own, after))
            if not plan.stored:
                inserted = _queue(gain, queued_at, inserted, pair, found)
                for _ in range(UPDATES):
                    popped = _popped(gain, queued_at, need, n_actions, plan.sampled, rng)
                    if popped < 0:
                        break
                    gain[popped] = 0.0
                    _move(agent, popped, n_actions, STEP_SIZE * _error_of(
                        agent, plan, world, popped, own, after))  # fmt: skip
                    origin = popped // n_actions
                    for place in range(n_leads[origin]):
                        before = leads[origin, place]
                        found = absolute_gain(_error_of(agent, plan, world, before, own, after))
                        inserted = _queue(gain, queued_at, inserted, before, found)
            else:
                slot = (total_steps - 1) % CAPACITY
                pair_of[slot], gains[slot] = pair, found
                count = min(total_steps, CAPACITY)
                if total_steps % plan.every == 0:
                    total = 0.0
                    for row in range(count):
                        total += combine(gains[row], max(need[pair_of[row] // n_actions], 0.0))
                        cumulative[row] = total
                    for _ in range(max(1, UPDATES // plan.batch)):
                        for _ in range(plan.batch):
                            row = _drawn(cumulative, count, total, rng)
                            wrong = _error_of(agent, plan, world, pair_of[row], own, after)
                            gains[row] = absolute_gain(wrong)
                            if plan.hidden == 0:
                                _move(agent, pair_of[row], n_actions, STEP_SIZE * wrong)
                            else:
                                gradient_step(
                                    agent.theta, agent.inputs[pair_of[row] // n_actions],
                                    pair_of[row] % n_actions, n_actions, wrong,
                                    1.0 / plan.batch, agent.layers,
                                )  # fmt: skip
                        if plan.hidden > 0:
                            n_adam += 1
                            adam(agent.theta, n_adam)
                if plan.hidden > 0 and (not plan.target or total_steps % TARGET_PERIOD == 0):
                    agent.theta[1] = agent.theta[0]
            state = next_state
        steps[episode] = step


def new_agent(
    world: TabularWorld,
    plan: Plan,
    M: FloatArray,
    *,
    kernel: FloatArray | None = None,
    places: IntArray | None = None,
    uses_need: bool = True,
    rng: np.random.Generator,
) -> Agent:
    """An agent that has seen nothing.

    Args:
        world: a board.
        plan: its rung.
        M: the initial successor matrix.
        kernel: [state, state], inner products of features; none: one-hot features.
        places: whose need each state has; none: its own.
        uses_need: whether need counts.
        rng: of the network's first weights.
    """
    n_states, n_actions = world.next_state.shape
    cells = np.arange(n_states)
    rows = n_states // world.columns
    inputs = np.column_stack([cells // world.columns, rows + cells % world.columns])
    n_inputs = rows + world.columns if plan.hidden else 0
    return Agent(
        Q=np.zeros((n_states, n_actions)),
        kernel=np.zeros((0, 0)) if kernel is None else np.ascontiguousarray(kernel),
        theta=network.first_parameters(n_inputs, plan.hidden, n_actions, rng),
        inputs=inputs,
        layers=np.zeros((4, max(1, plan.hidden))),
        reward=world.reward_mean,
        M=M.copy(),
        places=cells if places is None else places,
        uses_need=uses_need,
    )

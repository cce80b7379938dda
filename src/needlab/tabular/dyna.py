"""Q-learning and Dyna-Q as compiled kernels (Sutton & Barto, section 8.2).

Prioritized sweeping acts, models and updates Q with the same kernels and plans in another way.
"""

from __future__ import annotations

import numpy as np

from needlab.core.equations import moved_towards, td_error, uniform_index
from needlab.core.jit import compiled_in_place
from needlab.tabular.arrays import N_ACTIONS, SEEN, UPDATES, AgentArrays
from needlab.tabular.settings import Parameters
from needreplay._core.types import AnyArray


@compiled_in_place
def largest_q(pairs: AnyArray, n_actions: int, state: int) -> float:
    """max_a Q(s, a)."""
    best = -np.inf
    for pair in range(state * n_actions, (state + 1) * n_actions):
        q = pairs[pair]["q"]
        best = q if q > best else best
    return best


@compiled_in_place
def epsilon_greedy(
    pairs: AnyArray, n_actions: int, state: int, value: float, epsilon: float, u: float
) -> int:
    """A random action with probability ε, else a random one of the best.

    ``value`` is max_a Q(s, a). ``u``, uniform in [0, 1), decides both: what is left of it after the
    first decision is uniform again.
    """
    if u < epsilon:
        return uniform_index(u / epsilon, n_actions)
    first = state * n_actions
    ties = 0
    for pair in range(first, first + n_actions):
        ties += pairs[pair]["q"] == value
    wanted = uniform_index((u - epsilon) / (1.0 - epsilon), ties)
    chosen = 0
    for pair in range(first, first + n_actions):
        if pairs[pair]["q"] == value:
            if wanted == 0:
                chosen = pair - first
                break
            wanted -= 1
    return chosen


@compiled_in_place
def update_model(
    agent: AgentArrays, pair: int, reward: float, next_state: int, discount: float
) -> None:
    """Model(s, a) ← r, s'. Changes the model, and the list of pairs that lead to each state."""
    pairs, states = agent.pairs, agent.states
    pairs[pair]["reward"] = reward
    pairs[pair]["discount"] = discount
    known = pairs[pair]["next_state"]
    if known == next_state:
        return
    if known < 0:
        pairs[agent.counts[SEEN]]["seen"] = pair
        agent.counts[SEEN] += 1
    else:
        _remove_predecessor(agent, pair, known)
    pairs[pair]["next_state"] = next_state
    last = states[next_state]["last"]
    pairs[pair]["before"] = last
    pairs[pair]["after"] = -1
    if last < 0:
        states[next_state]["first"] = pair
    else:
        pairs[last]["after"] = pair
    states[next_state]["last"] = pair


@compiled_in_place
def _remove_predecessor(agent: AgentArrays, pair: int, state: int) -> None:
    """Remove ``pair`` from the list of those that lead to ``state``."""
    pairs, states = agent.pairs, agent.states
    before, after = pairs[pair]["before"], pairs[pair]["after"]
    if before < 0:
        states[state]["first"] = after
    else:
        pairs[before]["after"] = after
    if after < 0:
        states[state]["last"] = before
    else:
        pairs[after]["before"] = before


@compiled_in_place
def td_error_of(agent: AgentArrays, pair: int) -> float:
    """R + γ max_a Q(S', a) − Q(S, A), with R and S' from the model."""
    pairs = agent.pairs
    next_value = agent.states[pairs[pair]["next_state"]]["value"]
    return td_error(pairs[pair]["reward"], pairs[pair]["discount"], next_value, pairs[pair]["q"])


@compiled_in_place
def update_q(agent: AgentArrays, step_size: float, pair: int) -> None:
    """Q(S, A) ← Q(S, A) + α [R + γ max_a Q(S', a) − Q(S, A)]. Changes Q and its state's value."""
    pairs = agent.pairs
    error = td_error_of(agent, pair)
    pairs[pair]["q"] = moved_towards(pairs[pair]["q"], step_size, error)
    state = pairs[pair]["state"]
    agent.states[state]["value"] = largest_q(pairs, agent.counts[N_ACTIONS], state)
    agent.counts[UPDATES] += 1


@compiled_in_place
def dyna_step(
    agent: AgentArrays,
    parameters: Parameters,
    state: int,
    action: int,
    reward: float,
    next_state: int,
    ends: bool,
    rng: np.random.Generator,
) -> None:
    """Learn from one step: update its pair, then n random pairs of the model. Changes ``agent``."""
    pair = state * agent.counts[N_ACTIONS] + action
    update_model(agent, pair, reward, next_state, 0.0 if ends else parameters.discount)
    update_q(agent, parameters.step_size, pair)
    for _ in range(parameters.planning_updates):
        index = uniform_index(rng.random(), agent.counts[SEEN])
        update_q(agent, parameters.step_size, agent.pairs[index]["seen"])

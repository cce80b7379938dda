"""The agent's model of its world: the last outcome of each pair, and who leads where."""

from __future__ import annotations

from needreplay.core.jit import compiled_in_place
from needreplay.tabular.layout import N_ACTIONS, SEEN, Knowledge


@compiled_in_place
def record(agent: Knowledge, pair: int, reward: float, next_state: int, discount: float) -> None:
    """Model(s, a) ← r, s'. Writes the model, and the chains of pairs that lead to a state.

    A pair that leads elsewhere than it did before changes chains.
    """
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
        _unlink(agent, pair, known)
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
def _unlink(agent: Knowledge, pair: int, state: int) -> None:
    """Take ``pair`` out of the chain of those that lead to ``state``. Writes the chain."""
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
def never_left(agent: Knowledge, state: int) -> bool:
    """Whether no action was ever taken in ``state``: where an episode ends, it is then final."""
    n_actions = agent.counts[N_ACTIONS]
    for pair in range(state * n_actions, (state + 1) * n_actions):
        if agent.pairs[pair]["next_state"] >= 0:
            return False
    return True

"""Simulations of an agent whose replay follows one of the models."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from needlab.core.jit import jit
from needlab.tabular.evb.backups import (
    AFTER_FIRST_STEP,
    AT_GOAL,
    BACKUP,
    BEFORE_FIRST_STEP,
    NOT_AT_END,
    Records,
    Rng,
    rule_of,
)
from needlab.tabular.evb.episodes import END, PAUSE, START, STEP, choose, move_row
from needlab.tabular.evb.settings import EVB, EVBSettings
from needlab.tabular.evb.simulation import STEP_CAP, Simulation, new_agent
from needlab.tabular.rivals import kernels
from needlab.tabular.rivals.mind import Memory, Mind, new_moment
from needlab.tabular.rivals.parameters import (
    EVB_MODEL,
    MODELS,
    PARAMETERS,
    SFMA_MODEL,
    check_values,
    default_values,
    parse_model,
    settings_with,
    values_of,
)
from needlab.tabular.trial import sampled_reward, start_after
from needlab.worlds.tabular import TabularWorld
from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray


def new_mind(
    model: str, world: TabularWorld, given: Mapping[str, float], settings: EVBSettings
) -> Mind:
    """An agent that knows nothing yet, and whose replay follows a model.

    Args:
        model: a name of ``MODELS``.
        world: the world.
        given: values of the model's parameters; the others have their defaults.
        settings: of learning, behavior and pauses.
    """
    values = default_values(model, settings) | check_values(model, given)
    discount = values.get("similarity_discount", PARAMETERS["similarity_discount"].default)
    kind, memory = MODELS[model].kind, new_memory(world, discount)
    parts = 4 if kind == SFMA_MODEL else 2
    shape = (parts, world.next_state.size, world.n_states, memory.goals.size)
    return Mind(
        kind,
        new_agent(world, settings),
        rule_of(settings_with(settings, values)),
        memory,
        values_of(model, values),
        new_moment(*shape),
        world.goal,
    )


def new_memory(world: TabularWorld, similarity_discount: float) -> Memory:
    """What the models know at the start: the world, and where the candidate goals are."""
    shape, goals = world.next_state.shape, world.goals
    entered = world.next_state[np.newaxis] == goals[:, np.newaxis, np.newaxis]
    return Memory(
        seen=np.zeros(world.next_state.size, np.int64),
        clock=np.zeros(1, np.int64),
        strength=np.zeros(world.next_state.size),
        similarity=similarity_of(world, similarity_discount),
        errors=np.zeros(1),
        goals=goals.astype(np.int64),
        visits=np.ones(goals.size),
        values_of_goal=np.zeros((goals.size, *shape)),
        goal_reward=(entered & world.acts[:, np.newaxis]).astype(np.float64),
    )


def similarity_of(world: TabularWorld, discount: float) -> FloatArray:
    """SFMA's D: inverse(I - γT) of the random policy in the world as it is.

    A goal that no move leaves is left as it is entered, since the similarity is one of places.
    """
    T = np.zeros((world.n_states, world.n_states))
    for s in np.flatnonzero(world.free):
        for after in world.next_state[s]:
            T[s, after] += 1.0 / world.n_actions
    for goal in world.goals[T[world.goals, world.goals] == 1.0]:
        T[goal] = T[:, goal]
        T[goal, goal] = 0.0
        T[goal, goal] = 1.0 - T[goal].sum()
    D = np.linalg.inv(np.eye(world.n_states) - discount * T).astype(np.float64)
    return np.ascontiguousarray(np.maximum(D, 0.0))


@jit
def replay_drawn(mind: Mind, state: int, log: Records, rng: Rng) -> int:
    """Draw and run as many backups as ``log`` has rows; how many there were to draw."""
    moment, actions = mind.moment, mind.agent.Q.shape[1]
    kernels.begin_replay(mind, state)
    candidates, pairs = moment.candidate.sum(), moment.candidate.size
    for order in range(log.size):
        if kernels.find_chances(mind) == 0.0:
            return order
        moment.parts[:] *= 1.0 - mind.values.lapse
        left, part, pair = rng.random(), 0, -1
        for place in range(moment.parts.size):
            chance = moment.parts[place // pairs, place % pairs]
            if place < pairs and moment.candidate[place]:
                chance += mind.values.lapse / candidates
            if chance > 0.0:
                part, pair = place // pairs, place % pairs
                left -= chance
                if left < 0.0:
                    break
        kernels.run_chosen(mind, pair, part)
        entry = log[order]
        entry["order"], entry["state"], entry["action"] = order, pair // actions, pair % actions
        entry["gain"], entry["need"], entry["length"] = np.nan, np.nan, moment.length[0]
        if mind.model == EVB_MODEL:
            entry["need"] = moment.need[0, pair // actions]
    return int(log.size)


def simulate_model(
    model: str,
    world: TabularWorld,
    *,
    settings: EVBSettings = EVB["published"],
    episodes: int = 50,
    seed: int = 0,
    simulation: int = 0,
) -> Simulation:
    """Let a new agent live for some episodes; its replay follows a model.

    It learns, acts and pauses as the EVB agent with these settings; only what it replays differs.
    The result has the same tables, so ``simulation_table``, ``evb_log`` and ``fit_events`` take it.

    >>> from needlab.worlds.boards import linear_track
    >>> found = simulate_model("sfma-dynamic", linear_track(), episodes=3)
    >>> len(found.backups) > 0
    True

    Args:
        model: a name of ``MODELS``, also with values: "evb,gain_exponent=3,lapse=0.1".
        world: the world.
        settings: of learning, behavior and pauses; ``backups`` is the length of a replay.
        episodes: how many.
        seed: of all simulations.
        simulation: its number.
    """
    check_number("episodes", episodes, int, (1, float("inf")))
    name, given = parse_model(model)
    mind, rng = new_mind(name, world, given, settings), stream(seed, "rivals", simulation)
    agent, rule = mind.agent, mind.rule
    lengths = np.zeros(episodes, np.int64)
    steps: list[tuple[int, int, int, int, float]] = []
    pauses: list[tuple[int, int, int, int, int, int, float]] = []
    backups: list[Records] = []
    last_reward, written = float("nan"), 0

    def pause(episode: int, kind_of_pause: int, state: int) -> None:
        nonlocal written
        log = np.zeros(settings.backups, BACKUP)
        ran = replay_drawn(mind, state, log, rng)
        log["pause"] = len(pauses)
        pauses.append((episode, len(steps) - made, kind_of_pause, state, written, ran, last_reward))
        backups.append(log[:ran])
        written += ran

    s = int(world.starts[int(rng.random() * world.starts.size) if world.random_start else 0])
    for episode in range(episodes):
        made, later, goal = 0, episode > 0, -1
        if rule.start_replay == BEFORE_FIRST_STEP and later and settings.backups > 0:
            pause(episode, START, s)
        for step in range(STEP_CAP):
            a = choose(agent, rule, s, rng)
            after = int(world.next_state[s, a])
            reward, goal = float(sampled_reward(world, s, a, rng)), int(world.goal[after])
            kernels.experience(mind, s, a, reward, after, step == 0)
            last_reward = reward if goal >= 0 else last_reward
            steps.append((episode, s, a, after, reward))
            made = 1
            at_end = rule.end_replay != NOT_AT_END and goal >= 0
            at_start = rule.start_replay == AFTER_FIRST_STEP and later and step == 0
            known = later or reward != 0.0
            if (at_end or at_start or rule.replay_every_step) and known and settings.backups > 0:
                where = after if goal >= 0 and rule.end_replay == AT_GOAL else s
                pause(episode, END if goal >= 0 else START if at_start else END + 1, where)
            if goal >= 0:
                lengths[episode] = step + 1
                s = int(start_after(world, goal, episode + 1, rng))
                move_row(agent.T, after, s, rule.transition_rate)
                break
            s = after
        if goal < 0:
            raise NeedReplayError(
                f"An episode did not end within {STEP_CAP:,} steps; check the world and the policy."
            )
    return Simulation(
        lengths,
        np.concatenate(backups) if backups else np.zeros(0, BACKUP),
        np.array(pauses, PAUSE),
        np.array(steps, STEP),
        agent,
    )

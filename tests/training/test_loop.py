"""The walk: what the learner gets, when the world is reset, what a return is."""

from __future__ import annotations

from itertools import islice
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from needlab.runs.evaluation import evaluate
from needlab.runs.train_loop import reset_seed, train


class Lives(gymnasium.Env[Any, Any]):
    """Six steps of reward 2; a life is lost at the third."""

    observation_space = spaces.Box(0, 10, (1,), np.int64)
    action_space = spaces.Discrete(9)

    def __init__(self) -> None:
        self.seeds: list[int | None] = []
        self.actions: list[int] = []
        self.at = 0

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.seeds.append(seed)
        self.at = 0
        return np.array([0]), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        self.at += 1
        return np.array([self.at]), 2.0, self.at == 6, False, {"life_lost": self.at == 3}


class Listener:
    """An agent that records what it gets; its actions count up."""

    def __init__(self, *, stores_next_action: bool = False) -> None:
        self.stores_next_action = stores_next_action
        self.got: list[tuple[Any, ...]] = []
        self.presents: list[int] = []
        self.chosen = 0

    def act(self, _: Any) -> int:
        self.chosen += 1
        return self.chosen

    def act_in_evaluation(self, _: Any, choices: np.random.Generator) -> int:
        return int(choices.integers(9))

    def observe(self, obs: Any, action: int, reward: float, next_obs: Any, *ends: Any) -> None:
        self.got.append((int(obs[0]), action, reward, int(next_obs[0]), *ends))

    def learn(self, present: Any) -> str:
        self.presents.append(int(present[0]))
        return "learned"


def episodes_of(env: Lives, agent: Listener, count: int, first: int = 0) -> list[Any]:
    walk = train(
        env,
        agent,  # type: ignore[arg-type]
        seed=7,
        first_episode=first,
        on_update=lambda _: None,
        on_step=lambda: None,
    )
    return list(islice(walk, count))


def test_a_lost_life_ends_the_learners_episode_and_not_the_game() -> None:
    env, agent = Lives(), Listener()
    (episode,) = episodes_of(env, agent, 1)
    assert episode.total == 12.0, "the return is of the complete game"
    assert [row[4] for row in agent.got] == [False, False, True, False, False, True]
    assert [row[3] for row in agent.got] == [1, 2, 3, 4, 5, 6], "the true next observation"
    assert agent.presents == [1, 2, 3, 4, 5, 0], "need is asked where the agent is: at a new start"
    assert len(env.seeds) == 2, "reset at the game's end only"


def test_every_reset_is_seeded_by_the_episodes_number() -> None:
    env = Lives()
    episodes_of(env, Listener(), 2, first=5)
    assert env.seeds == [reset_seed(7, "train", number) for number in (5, 6, 7)]
    assert len(set(env.seeds)) == 3


def test_the_stored_next_action_is_the_one_taken_next_across_a_lost_life_too() -> None:
    env, agent = Lives(), Listener(stores_next_action=True)
    episodes_of(env, agent, 1)
    stored = [row[6] for row in agent.got]
    assert stored[:-1] == env.actions[1:], "what is stored is what is done"


@pytest.mark.parametrize(("steps", "episodes"), [(1, 1), (6, 1), (7, 2), (12, 2)])
def test_evaluation_fills_its_steps_with_whole_games(steps: int, episodes: int) -> None:
    env = Lives()
    seen: list[int] = []
    returns = evaluate(
        env,
        Listener(),  # type: ignore[arg-type]
        seed=1,
        iteration=3,
        steps=steps,
        on_step=seen.append,
    )
    assert returns == [12.0] * episodes
    assert seen[-1] == 6 * episodes
    assert env.seeds == [reset_seed(1, "eval", 3, number) for number in range(episodes)]

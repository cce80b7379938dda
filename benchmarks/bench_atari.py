"""Atari DQN in steps per second: ours, Stable-Baselines3's and a loop in CleanRL's manner.

Pong, frame skip 4, batch 32, an update every 4 steps, the Nature network, uniform replay, plain
DQN, one thread. Then what need costs on Atari, and what the paper's experiment would take. In an
environment with the peers: .venv-peers/bin/python benchmarks/bench_atari.py [--rounds 9]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
import torch

from atari_peers import (
    BATCH,
    CAPACITY,
    EPSILON,
    LEARNING_RATE,
    PERIOD,
    START,
    cleanrl_loop,
    sb3_loop,
)
from needlab.deep import DeepAgent, deep_preset
from needlab.runs.train_loop import train
from needlab.worlds.named import WorldSettings, make_world
from needreplay._core.types import FloatArray
from timing import alternate, arguments, print_table, print_versions, ratio, write_json

STEPS = 120
"""Of a round of the DQNs: 30 updates."""
NEED_STEPS = 24
"""Of a round of agents with need: 6 updates."""
DECODERS: dict[str, dict[str, Any]] = {
    "PER-SR, the released decoder": {},
    "PER-SR, decoder_period=4": {"decoder_period": 4},
    "PER-SR, decoder=small": {"decoder": "small"},
    "PER-SR, decoder=small, decoder_period=4": {"decoder": "small", "decoder_period": 4},
    "PER-SR, encoder=shared": {"encoder": "shared"},
}
GAMES, SEEDS, LENGTH = 15, 5, 50_000_000
DAY = 86_400.0
CORES, MACHINES = 2, 100


class Rounds(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Ends an episode after so many steps, while the game itself continues."""

    def __init__(self, env: gymnasium.Env[Any, Any], steps: int) -> None:
        super().__init__(env)
        self._steps, self._done, self._obs = steps, 0, None

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin a game only where there is none."""
        if self._obs is None:
            self._obs, _ = self.env.reset(**options)
        return self._obs, {}

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._done += 1
        self._obs = None if terminated or truncated else obs
        return obs, reward, terminated, truncated or self._done % self._steps == 0, info


def our_loop(agent_name: str, steps: int, **overrides: Any) -> Callable[[], None]:
    """The library's loop with an agent that has begun to learn; each call walks ``steps`` steps.

    The loop hands back control when an episode ends, so the game is cut into episodes of a round.
    """
    settings = deep_preset(
        "corrected",
        "nature",
        agent_name,
        capacity=CAPACITY,
        min_history=START,
        batch_size=BATCH,
        update_period=PERIOD,
        learning_rate=LEARNING_RATE,
        epsilon_end=EPSILON,
        epsilon_steps=0,
        **overrides,
    )
    env = Rounds(make_world("atari/Pong", WorldSettings(sticky=0.0)), steps)
    agent = DeepAgent(
        settings,
        env.observation_space,
        int(env.action_space.n),  # type: ignore[attr-defined]
        steps=1_000_000,
    )
    episodes = train(
        env,
        agent,
        seed=0,
        first_episode=0,
        on_update=lambda _: None,
        on_step=lambda: None,
    )

    def work() -> None:
        goal = max(agent.steps, START) + steps
        while agent.steps < goal:
            next(episodes)

    return work


def speed(seconds: FloatArray, steps: int) -> float:
    """Steps per second, by the median round."""
    return steps / float(np.median(seconds))


def days(per: float, per_sr: float) -> float:
    """Of the paper's experiment, training only, with a run on each core of one machine."""
    runs = GAMES * SEEDS * LENGTH
    return (runs / per + runs / per_sr) / CORES / DAY


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__.splitlines()[0] if __doc__ else "", rounds=5)
    if find_spec("stable_baselines3") is None or find_spec("ale_py") is None:
        print("Not measured: this needs stable-baselines3 and ale-py; make .venv-peers/.ready")
        return
    # What peers warn of at import is theirs, and would stand in the middle of the table.
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print_versions()
    dqn = alternate(
        {
            "needreplay": our_loop("dqn", STEPS),
            "Stable-Baselines3": sb3_loop(STEPS),
            "CleanRL's loop": cleanrl_loop(STEPS),
        },
        options.rounds,
    )
    ours = dqn["needreplay"]
    print("\nDQN on Pong (CPU seconds, one core)")
    print_table(
        ["", "steps/s", "times as long as ours [95%]"],
        [
            [name, f"{speed(each, STEPS):.1f}", "" if each is ours else ratio(each, ours)]
            for name, each in dqn.items()
        ],
    )
    need = alternate(
        {
            "PER": our_loop("per", NEED_STEPS),
            **{
                name: our_loop("per-sr", NEED_STEPS, **changed)
                for name, changed in DECODERS.items()
            },
        },
        options.rounds,
    )
    per = need["PER"]
    print("\nWhat need costs on Pong (double DQN)")
    print_table(
        ["", "steps/s", "times as long as PER [95%]", "days on one machine", f"on {MACHINES}"],
        [
            [
                name,
                f"{speed(each, NEED_STEPS):.1f}",
                "" if each is per else ratio(each, per),
                "" if each is per else f"{_days_of(per, each):,.0f}",
                "" if each is per else f"{_days_of(per, each) / MACHINES:,.1f}",
            ]
            for name, each in need.items()
        ],
    )
    print(
        f"\nDays: {GAMES} games x (PER and this agent) x {SEEDS} seeds x {LENGTH:,} steps of "
        f"training, {CORES} runs at a time on a machine of {CORES} cores; evaluation not counted."
    )
    seconds = {name: each.tolist() for name, each in {**dqn, **need}.items()}
    write_json(options.json, {"steps": STEPS, "need_steps": NEED_STEPS, "seconds": seconds})


def _days_of(per: FloatArray, per_sr: FloatArray) -> float:
    return days(speed(per, NEED_STEPS), speed(per_sr, NEED_STEPS))


if __name__ == "__main__":
    main()

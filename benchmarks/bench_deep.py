"""What need costs a deep agent on MinAtar: steps of PER-SR against steps of PER, one core.

    .venv/bin/python benchmarks/bench_deep.py

A step is timed in full: acting, the game, storing, and an update every fourth step. With
``--million`` the buffer holds a million transitions, for what sampling by need costs beyond scaling
by it. The last table is what measuring need's quality takes of a run's time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import timing
from needlab.deep import DeepAgent, deep_preset
from needlab.runs.run import QUALITY_PERIOD
from needlab.worlds.named import WorldSettings, make_world
from needreplay.need import NeedBuffer, NeedModel
from needreplay.need.quality import RECENT

STEPS = 80
"""Of a round: few, so that agents are compared while the machine is the same."""
LEARNED = 1_000
"""Updates of a need model before the first round."""
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "per": ("per", {}),
    "per-sr, own encoder and decoder": ("per-sr", {}),
    "per-sr, decoder every 4th update": ("per-sr", {"decoder_period": 4}),
    "per-sr, no decoder": ("per-sr", {"decoder": "none"}),
    "per-sr, shared encoder": ("per-sr", {"encoder": "shared"}),
    "per-sr, shared encoder, m of the state": (
        "per-sr",
        {"encoder": "shared", "successor_of": "state"},
    ),
    "per-sr-sampling": ("per-sr-sampling", {}),
    "per-sr-sampling, shared encoder": ("per-sr-sampling", {"encoder": "shared"}),
    "per-sr-sampling, cosine": ("per-sr-sampling", {"need_learner": "cosine"}),
    "per-sr-sampling, cosine, refresh=0": (
        "per-sr-sampling",
        {"need_learner": "cosine", "refresh": 0},
    ),
    "per-sr-sampling, cosine, shared encoder": (
        "per-sr-sampling",
        {"need_learner": "cosine", "encoder": "shared"},
    ),
    "per-sr, cosine": ("per-sr", {"need_learner": "cosine"}),
    "per-sr-sampling, spectral": ("per-sr-sampling", {"need_learner": "spectral"}),
    "per-sr-sampling, spectral, shared encoder": (
        "per-sr-sampling",
        {"need_learner": "spectral", "encoder": "shared"},
    ),
}


def walker(name: str, capacity: int, filled: int) -> tuple[DeepAgent, Callable[[], None]]:
    """The agent called ``name``, and a function that takes ``STEPS`` steps with it."""
    sampler, changed = AGENTS[name]
    preset = "default" if "need_learner" in changed else "corrected"
    settings = deep_preset(
        preset,
        "minatar",
        sampler,
        capacity=capacity,
        min_history=0,
        epsilon_steps=0,
        **changed,
    )
    env = make_world("minatar/breakout", WorldSettings(sticky=0.1, action_set="full"))
    agent = DeepAgent(settings, env.observation_space, 6, steps=10**7)
    _fill(agent, env, filled)
    state: dict[str, Any] = {"obs": env.reset(seed=0)[0]}

    def walk() -> None:
        for _ in range(STEPS):
            obs = state["obs"]
            action = agent.act(obs)
            next_obs, reward, terminated, truncated, _ = env.step(action)
            agent.observe(obs, action, float(reward), next_obs, bool(terminated), bool(truncated))
            state["obs"] = env.reset()[0] if terminated or truncated else next_obs
            agent.learn(state["obs"])

    return agent, walk


def _fill(agent: DeepAgent, env: Any, count: int) -> None:
    """Random play, and a need model that has learned from it.

    How its numbers are spread decides what sampling by them costs.
    """
    rng = np.random.default_rng(0)
    obs, _ = env.reset(seed=1)
    for _ in range(count):
        action = int(rng.integers(6))
        next_obs, reward, terminated, truncated, _ = env.step(action)
        agent.observe(obs, action, float(reward), next_obs, bool(terminated), bool(truncated))
        obs = env.reset()[0] if terminated or truncated else next_obs
    if isinstance(agent.need, NeedModel):
        for _ in range(LEARNED):
            agent.need.learn(agent.buffer)
    if isinstance(agent.replay, NeedBuffer):
        agent.replay.look(1, obs)


def main() -> None:
    """Print each agent's steps per second and its cost as a ratio to PER's."""
    million = "--million" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--million"]
    options: argparse.Namespace = timing.arguments(__doc__ or "")
    torch.set_num_threads(1)
    capacity = 1_000_000 if million else 100_000
    names = ["per-sr, own encoder and decoder", "per-sr-sampling"] if million else list(AGENTS)
    walkers = {name: walker(name, capacity, capacity if million else RECENT) for name in names}
    seconds = timing.alternate({name: walk for name, (_, walk) in walkers.items()}, options.rounds)
    base = names[0]
    rows = [
        (
            name,
            f"{STEPS / np.median(seconds[name]):.0f}",
            timing.ratio(seconds[name], seconds[base]),
        )
        for name in names
    ]
    timing.print_versions()
    timing.print_table(("agent", "steps/s", f"cost relative to {base}"), rows)
    quality = {} if million else quality_shares(walkers, seconds, options.rounds)
    shares = [(name, f"{share:.2%}") for name, share in quality.items()]
    if shares:
        timing.print_table(("agent", "quality of need, share of the time of training"), shares)
    measured = {name: each.tolist() for name, each in seconds.items()}
    timing.write_json(options.json, {"steps": STEPS, "seconds": measured, "quality_share": quality})


def quality_shares(
    walkers: dict[str, tuple[DeepAgent, Callable[[], None]]],
    seconds: dict[str, np.ndarray],
    rounds: int,
) -> dict[str, float]:
    """One measurement's time / that of the steps between two."""
    measured = {
        name: lambda a=agent: a.need_quality(np.random.default_rng(0))
        for name, (agent, _) in walkers.items()
        if agent.settings.uses_need
    }
    return {
        name: float(np.median(each) / (np.median(seconds[name]) / STEPS * QUALITY_PERIOD))
        for name, each in timing.alternate(measured, rounds).items()
    }


if __name__ == "__main__":
    main()

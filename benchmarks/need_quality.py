"""How accurate each learner of need is, beside one agent and beside trivial scores, and its cost.

    .venv/bin/python benchmarks/need_quality.py --out results/need-quality/breakout.csv \
        minatar/breakout

and for Atari, whose own settings ask for 20,000 steps before the first update:

    .venv/bin/python benchmarks/need_quality.py --out results/need-quality/atari.csv \
        --steps 8_000 --queries 30 --set min_history=1000 capacity=10000 decoder=small features=64 \
        --learners cosine/4,spectral/4,linear/4 -- atari/Pong

All numbers are of queries in episodes that the need models do not learn from (one in 20); the
meaning of each is in ``needreplay.need.quality``. Rows "recency", "clock", "similarity", "blurred
similarity" and "brightness" are scores that learn nothing; "cosine/4, untrained" and "cosine/4,
other query" are that learner before any update, and seen from a random transition. The agent is
PER-SR, whose successor features are the row "successor" (they learn from all episodes); its updates
are scaled by that need, as in the paper. Rows "successor, m solved" are the need model ``linear``
on the same features, from 500 batches of the buffer as it is then: with the need models' γ of 0.9,
and with the agent's. It is another need, M / p in place of M, and not the paper's with a better m.
``--preset printed`` and ``released`` are the paper's agent in other readings, and ``--learners ""``
measures it alone. The need models learn from its buffer and change nothing of it: "cosine/4" at
every fourth of its updates, as in the agents, "cosine" at each; "cosine-shared/4" is on the agent's
Q network, "successor-own" is the paper's need as a need model: with a horizon of its own (γ = 0.9),
and from twice as many transitions as the agent's. ``cost`` is a learner's time / the time of the
agent's whole update. Rows "cosine/4, age" (of the first learner) use stored vectors that are so
many updates old, as without any refresh. Rows "cosine/4, new episodes" are measured on episodes
that the agent plays at the end and nothing learns from.
"""

from __future__ import annotations

import argparse
import copy
import csv
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from needlab.core.presets import parsed_settings
from needlab.deep.successor import PaperNeed
from needlab.runs.config import RunConfig, make_agent, make_env
from needlab.runs.evaluation import play_episode
from needlab.runs.train_loop import train
from needreplay._core.rng import stream
from needreplay.need import NeedModel, NeedQuality, need_quality, withholds
from needreplay.replay import ReplayBuffer

PARTS = 4
"""Measurements of a run."""
NUMBERS = tuple(field.name for field in dataclasses.fields(NeedQuality))[:-1]
NEW_STEPS = 5_000
"""Steps of the episodes that nothing learns from."""


def measure(
    world: str,
    options: argparse.Namespace,
    learners: list[str],
    write: Callable[[dict[str, Any]], None],
) -> None:
    """Pass the rows of one run to ``write``."""
    steps, seed = options.steps, options.seed
    overrides = parsed_settings(options.set, "--set")
    config = RunConfig(
        world=world,
        agent="per-sr",
        preset=options.preset,
        steps=steps,
        seed=seed,
        overrides=overrides,
    )
    env = make_env(config)
    agent = make_agent(config, env)
    q, paper = agent.q.online, agent.need
    assert isinstance(paper, PaperNeed)
    models: dict[str, NeedModel] = {}
    periods: dict[str, int] = {}
    for name in learners:
        kind, _, period = name.partition("/")
        learner, _, shared = kind.partition("-")
        periods[name] = int(period or 1)
        models[name] = NeedModel(
            env.observation_space,
            learner=learner,
            features=q.normalized_hidden if shared == "shared" else None,
            seed=seed,
        )
    seconds = dict.fromkeys(models, 0.0)
    learning = -1e-9
    older: list[Any] = []
    written: set[tuple[str, int]] = set()
    untrained = copy.deepcopy(models)
    learn = agent.learn

    def timed(obs: Any) -> Any:
        nonlocal learning
        begun = time.perf_counter()
        stats = learn(obs)
        learning += 0.0 if stats is None else time.perf_counter() - begun
        return stats

    agent.learn = timed  # type: ignore[method-assign]

    def write_row(name: str, scores: dict[str, float], cost: float = np.nan) -> None:
        if options.preset != "corrected":
            name = f"{name} ({options.preset})"
        rounded = {key: f"{scores.get(key, np.nan):.4g}" for key in NUMBERS}
        row = {"world": world, "steps": agent.steps, "updates": agent.updates, "learner": name}
        write({**row, **rounded, "cost": f"{cost:.3g}"})

    def add(
        name: str,
        needs_of: Any,
        cost: float = np.nan,
        untrained: Any = None,
        buffer: ReplayBuffer | None = None,
    ) -> None:
        """A row of one need, and rows of its trivial scores."""
        quality = need_quality(
            buffer or agent.buffer,
            needs_of,
            stream(seed, "need quality", agent.steps),
            withheld=withholds if buffer is None else lambda n: np.ones(len(n), np.bool_),
            untrained=untrained,
            queries=options.queries,
        )
        write_row(name, {key: getattr(quality, key) for key in NUMBERS}, cost)
        for which, scores in quality.baselines.items():
            of_all = which not in ("untrained", "other query")
            of_new = ", new episodes" if buffer is not None else ""
            place = (which + of_new, agent.steps) if of_all else (f"{name}, {which}", agent.steps)
            if place not in written and (of_all or untrained is not None):
                written.add(place)
                write_row(place[0], scores._asdict())

    def on_update(_stats: Any) -> None:
        for name, model in models.items():
            begun = time.perf_counter()
            if agent.updates % periods[name] == 0:
                model.learn(agent.buffer)
            seconds[name] += time.perf_counter() - begun

    def on_step() -> None:
        if agent.steps % (steps // PARTS):
            return
        add("successor", paper.needs_of)
        for discount in (0.9, agent.settings.discount):
            solved = NeedModel(
                env.observation_space,
                learner="linear",
                discount=discount,
                features=paper.features,
                seed=seed,
            )
            for _ in range(500):
                solved.learn(agent.buffer)
            add(f"successor, m solved {discount:g}", solved.needs_of)
        for name, model in models.items():
            cost = seconds[name] / learning
            add(name, model.needs_of, cost, untrained[name].needs_of)
        if not learners:
            return
        newest = models[learners[0]]
        for updates, old in older:
            age = f"{learners[0]}, age {agent.updates - updates}"
            add(
                age,
                lambda o, c, m=old: newest.need_of(newest.queries(o) @ m.features(c["obs"]).T),
            )
        older.append((agent.updates, copy.deepcopy(newest)))

    episodes = train(env, agent, seed=seed, first_episode=0, on_update=on_update, on_step=on_step)
    while agent.steps < steps:
        next(episodes)
    played = ReplayBuffer.for_spaces(env.observation_space, np.int64, capacity=NEW_STEPS)
    episode = 0
    while len(played) < NEW_STEPS:
        play_episode(
            env, agent, seed, "new", episode, store=played, most_steps=NEW_STEPS - len(played)
        )
        episode += 1
    for name, model in models.items():
        add(f"{name}, new episodes", model.needs_of, buffer=played)


def main() -> None:
    """Measure each world and write one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="+")
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--preset", default="corrected", help="of the agent")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="of the agent")
    parser.add_argument("--queries", type=int, default=60, help="in each measurement")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--learners",
        default="cosine/4,spectral/4,linear/4,cosine-shared/4,spectral-shared/4,successor-own",
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="") as file:
        table: Any = csv.writer(file, lineterminator="\n")

        def write(row: dict[str, Any]) -> None:
            if file.tell() == 0:
                table.writerow(row)
            table.writerow(row.values())
            file.flush()
            print(*row.values(), flush=True)

        for world in options.worlds:
            measure(world, options, [n for n in options.learners.split(",") if n], write)


if __name__ == "__main__":
    main()

"""One training run in a folder: begun, or gone on with from its last checkpoint.

``config.json`` says what is run, ``metrics.csv`` has a row an iteration, ``checkpoint-<steps>`` is
the newest checkpoint, and ``done.json`` marks a run that is complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from needreplay.errors import NeedReplayError
from needreplay.records import prepare_folder, read_json, write_json
from needreplay.runs.training.config import RunConfig
from needreplay.runs.training.loop import evaluate, train
from needreplay.runs.training.metrics import MetricsFile, Tally

CONFIG, METRICS, DONE, RUN = "config.json", "metrics.csv", "done.json", "run.json"
CHECKPOINT = "checkpoint-"


def run_training(
    config: RunConfig,
    folder: str | Path,
    *,
    on_steps: Callable[[int, dict[str, Any] | None], None] | None = None,
) -> Path:
    """Train until the run is complete, and answer with the path of its metrics.

    The same call goes on after any stop, and ends with the same metrics, byte for byte (on one CPU
    thread). A folder that holds another run is refused.

    Args:
        config: what to run.
        folder: where everything of the run is kept.
        on_steps: called with the number of steps done, and with each row as it is written.
    """
    import torch

    from needreplay.deep.agent import DeepAgent
    from needreplay.deep.checkpoint import load_agent, save_agent
    from needreplay.worlds.named import make_world

    if config.device == "cpu":
        torch.set_num_threads(1)
    resolved = config.resolved()
    protocol = resolved.protocol
    folder = prepare_folder(folder)
    _claim(folder, config)
    metrics = MetricsFile(folder / METRICS)
    if (folder / DONE).exists():
        return metrics.path
    env = make_world(config.world, resolved.world)
    eval_env = make_world(config.world, resolved.world)
    agent = DeepAgent(
        resolved.agent,
        env.observation_space,
        int(env.action_space.n),  # type: ignore[attr-defined]
        steps=config.steps,
        seed=config.seed,
        device=config.device,
    )
    found = newest_checkpoint(folder)
    state: dict[str, Any] = {"episodes": 0, "iteration": 0, "rows": 0, "tally": {}}
    if found is not None:
        load_agent(agent, found)
        state = read_json(found / RUN)
    metrics.begin(state["rows"])
    tally = Tally(**state["tally"])
    report = on_steps or _quiet

    def stepped() -> None:
        if agent.steps % 100 == 0:
            report(agent.steps, None)

    next_checkpoint = _next(agent.steps, protocol.checkpoint_steps)
    episodes = train(
        env,
        agent,
        seed=config.seed,
        first_episode=state["episodes"],
        on_update=lambda learned: tally.add_update(learned),
        on_step=stepped,
    )
    while agent.steps < config.steps:
        episode = next(episodes)
        tally.add_episode(episode.total)
        state["episodes"] += 1
        ended = agent.steps >= config.steps
        if agent.steps >= (state["iteration"] + 1) * protocol.iteration_steps or ended:
            state["iteration"] = max(
                state["iteration"] + 1, agent.steps // protocol.iteration_steps
            )
            row = _row(state["iteration"], agent, tally)
            if protocol.eval_steps:
                returns = evaluate(
                    eval_env,
                    agent,
                    seed=config.seed,
                    iteration=state["iteration"],
                    steps=protocol.eval_steps,
                )
                row["eval_episodes"] = len(returns)
                row["eval_return"] = sum(returns) / len(returns)
            metrics.append(row)
            state["rows"] += 1
            tally = Tally()
            report(agent.steps, row)
        if agent.steps >= next_checkpoint or ended:
            state["tally"] = tally.plain()
            _checkpoint(folder, agent, state, save_agent)
            next_checkpoint = _next(agent.steps, protocol.checkpoint_steps)
    write_json(folder / DONE, {"steps": agent.steps, "rows": state["rows"]})
    return metrics.path


def _quiet(steps: int, row: dict[str, Any] | None) -> None:
    """Nobody watches."""


def _next(steps: int, period: int) -> int:
    return (steps // period + 1) * period


def _claim(folder: Path, config: RunConfig) -> None:
    """Write what is run, or refuse a folder where something else was."""
    plain = {**asdict(config), "overrides": dict(config.overrides)}
    path = folder / CONFIG
    if not path.exists():
        write_json(path, plain)
        return
    there = read_json(path)
    for name in plain:
        if there.get(name) != plain[name]:
            raise NeedReplayError(
                f"{str(folder)!r} holds a run with {name} {there.get(name)!r}, not {plain[name]!r};"
                " choose another folder, or give the same arguments to go on with that run."
            )


def newest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint to go on from; a half-written one has another name and does not count."""
    found = [
        path
        for path in folder.glob(f"{CHECKPOINT}*")
        if path.name.removeprefix(CHECKPOINT).isdigit()
    ]
    return max(found, key=lambda path: int(path.name.removeprefix(CHECKPOINT)), default=None)


def _checkpoint(
    folder: Path, agent: Any, state: dict[str, Any], save: Callable[[Any, Path], None]
) -> None:
    """Write a checkpoint whole, then remove the older ones."""
    part = folder / "checkpoint.part"
    shutil.rmtree(part, ignore_errors=True)
    prepare_folder(part)
    save(agent, part)
    write_json(part / RUN, state)
    older = list(folder.glob(f"{CHECKPOINT}*"))
    part.rename(folder / f"{CHECKPOINT}{agent.steps}")
    for path in older:
        shutil.rmtree(path, ignore_errors=True)


def _row(iteration: int, agent: Any, tally: Tally) -> dict[str, Any]:
    features = getattr(agent.replay.draw, "features", None)
    return {
        "iteration": iteration,
        "steps": agent.steps,
        "updates": agent.updates,
        "train_episodes": tally.episodes,
        "epsilon": agent.epsilon,
        "feature_age": None if features is None else features.oldest_age,
        **tally.means(),
    }

"""One training run in a folder: train, evaluate, write a row, save; resume after any stop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from needreplay.core.errors import NeedReplayError
from needreplay.core.rng import stream
from needreplay.core.tables import read_json, write_json
from needreplay.training.config import RunConfig, make_agent, make_env
from needreplay.training.evaluation import evaluate
from needreplay.training.folder import (
    DONE,
    METRICS,
    RUN,
    claimed,
    newest_checkpoint,
    write_checkpoint,
)
from needreplay.training.loop import train
from needreplay.training.metrics import Curves, MetricsFile, Sums

if TYPE_CHECKING:
    import gymnasium

    from needreplay.deep import DeepAgent

REPORT_PERIOD = 20
"""Steps between two calls of ``on_steps``."""
QUALITY_PERIOD = 10_000
"""Steps between measurements of need's quality, which take about as long as 100 updates."""


def run_training(
    config: RunConfig,
    folder: str | Path,
    *,
    on_steps: Callable[[int, dict[str, Any] | None], None] = lambda _steps, _row: None,
    on_evaluation: Callable[[int], None] = lambda _steps: None,
    tensorboard: bool = False,
) -> Path:
    """Train until the run is complete, and return the path of its metrics.

    The same call resumes after any stop and ends with the same metrics, byte for byte (on one CPU
    thread). A folder with another run, or in which another process trains, is refused.

    Args:
        config: what to run.
        folder: the run's folder.
        on_steps: called with the number of steps done, and with each row as it is written.
        on_evaluation: called with the steps done of an evaluation.
        tensorboard: whether to write each row as points of TensorBoard's curves, too.
    """
    # Refuse what cannot run before anything is written.
    env = make_env(config)
    with closing(env), closing(make_env(config)) as eval_env:
        agent = make_agent(config, env)
        with claimed(folder, config) as path:
            metrics = MetricsFile(path / METRICS)
            if (path / DONE).exists():
                return metrics.path
            run = _Run(config, path, agent, metrics)
            run.resume()
            curves = Curves(path, agent.steps + 1) if tensorboard else None
            with closing(curves) if curves is not None else nullcontext():

                def on_row(row: dict[str, Any]) -> None:
                    if curves is not None:
                        curves.add(row)
                    on_steps(agent.steps, row)

                run.finish(env, eval_env, on_steps, on_evaluation, on_row)
            write_json(path / DONE, {"steps": agent.steps, **metrics.summary()})
            return metrics.path


@dataclass
class _Run:
    """A run under way."""

    config: RunConfig
    folder: Path
    agent: DeepAgent
    metrics: MetricsFile
    episodes: int = 0
    iteration: int = 0
    rows: int = 0
    sums: Sums = field(default_factory=Sums)

    def resume(self) -> None:
        """Load the newest checkpoint, if there is one, and remove the rows after it."""
        from needreplay.deep.checkpoint import load_agent

        found = newest_checkpoint(self.folder)
        if found is not None:
            try:
                load_agent(self.agent, found)
                state = read_json(found / RUN)
            except NeedReplayError as error:
                raise NeedReplayError(
                    f"{str(error).rstrip('.')}; remove {str(found)!r} to resume from the "
                    "checkpoint before it, or from the start if there is none."
                ) from error
            self.episodes, self.iteration = state["episodes"], state["iteration"]
            self.rows, self.sums = state["rows"], Sums.from_json(state["sums"])
        self.metrics.start(self.rows)

    def finish(
        self,
        env: gymnasium.Env[Any, Any],
        eval_env: gymnasium.Env[Any, Any],
        on_steps: Callable[[int, dict[str, Any] | None], None],
        on_evaluation: Callable[[int], None],
        on_row: Callable[[dict[str, Any]], None],
    ) -> None:
        """Train, evaluate and save until the planned steps are done."""
        agent, config, protocol = self.agent, self.config, self.config.resolved().protocol
        on_steps(agent.steps, None)

        def stepped() -> None:
            if agent.steps % REPORT_PERIOD == 0:
                on_steps(agent.steps, None)

        episodes = train(
            env,
            agent,
            seed=config.seed,
            first_episode=self.episodes,
            on_update=lambda learned: self.sums.add_update(learned),
            on_step=stepped,
        )
        next_checkpoint = _next(agent.steps, protocol.checkpoint_steps)
        while agent.steps < config.steps:
            self.sums.add_episode(next(episodes))
            self.episodes += 1
            ended = agent.steps >= config.steps
            if agent.steps >= (self.iteration + 1) * protocol.iteration_steps or ended:
                # An episode may be longer than an iteration, which then has no row.
                self.iteration = max(self.iteration + 1, agent.steps // protocol.iteration_steps)
                row = self._row()
                if protocol.eval_steps:
                    returns = evaluate(
                        eval_env,
                        agent,
                        seed=config.seed,
                        iteration=self.iteration,
                        steps=protocol.eval_steps,
                        on_step=on_evaluation,
                    )
                    row["eval_episodes"] = len(returns)
                    row["eval_return"] = sum(returns) / len(returns)
                self.metrics.append(row)
                self.rows += 1
                self.sums = Sums()
                on_row(row)
            if agent.steps >= next_checkpoint or ended:
                write_checkpoint(self.folder, agent.steps, self._save)
                next_checkpoint = _next(agent.steps, protocol.checkpoint_steps)

    def _row(self) -> dict[str, Any]:
        agent = self.agent
        features = getattr(agent.replay.sampler, "features", None)
        return {
            "iteration": self.iteration,
            "steps": agent.steps,
            "updates": agent.updates,
            "train_episodes": self.sums.episodes,
            "epsilon": agent.epsilon,
            "feature_age": None if features is None else features.oldest_age,
            **self.sums.means(),
            **self._need_quality(),
        }

    def _need_quality(self) -> dict[str, float]:
        """The quality of need, in some rows: whether it knows the states that come next."""
        period = -(-QUALITY_PERIOD // self.config.resolved().protocol.iteration_steps)
        if self.iteration % period and self.agent.steps < self.config.steps:
            return {}
        rng = stream(self.config.seed, "need quality", self.iteration)
        quality = self.agent.need_quality(rng)
        if quality is None:
            return {}
        names = ("auc", "auc_hard", "effective", "nearness")
        return {f"need_{name}": getattr(quality, name) for name in names}

    def _save(self, folder: Path) -> None:
        from needreplay.deep.checkpoint import save_agent

        save_agent(self.agent, folder)
        state = {"episodes": self.episodes, "iteration": self.iteration, "rows": self.rows}
        write_json(folder / RUN, {**state, "sums": self.sums.to_json()})


def _next(steps: int, period: int) -> int:
    return (steps // period + 1) * period

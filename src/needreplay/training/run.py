"""One training run in a folder: begun, or gone on with from its last checkpoint.

``config.json`` says what is run, ``metrics.csv`` has a row an iteration, ``checkpoint-<steps>`` is
the newest checkpoint, and ``done.json`` marks a run that is complete and says what it came to.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from needreplay.core.errors import NeedReplayError
from needreplay.core.tables import read_json, write_json
from needreplay.training.config import RunConfig
from needreplay.training.folder import (
    DONE,
    METRICS,
    RUN,
    claimed,
    newest_checkpoint,
    write_checkpoint,
)
from needreplay.training.loop import evaluate, train
from needreplay.training.make import made_agent, made_world
from needreplay.training.metrics import MetricsFile, Tally
from needreplay.training.summary import summary_of
from needreplay.training.tensorboard import Curves

if TYPE_CHECKING:
    import gymnasium

    from needreplay.deep import DeepAgent

REPORT_PERIOD = 20
"""Steps between two calls of ``on_steps``."""


def run_training(
    config: RunConfig,
    folder: str | Path,
    *,
    on_steps: Callable[[int, dict[str, Any] | None], None] | None = None,
    on_evaluation: Callable[[int, int], None] | None = None,
    tensorboard: bool = False,
) -> Path:
    """Train until the run is complete, and answer with the path of its metrics.

    The same call goes on after any stop, and ends with the same metrics, byte for byte (on one CPU
    thread). A folder that holds another run, or that another process trains in, is refused.

    Args:
        config: what to run.
        folder: where everything of the run is kept.
        on_steps: called with the number of steps done, and with each row as it is written.
        on_evaluation: called with the steps done of an evaluation, and how many it has at least.
        tensorboard: whether each row is also a point on TensorBoard's curves.
    """
    # What cannot be run is refused before anything is written.
    env = made_world(config)
    with closing(env), closing(made_world(config)) as eval_env:
        agent = made_agent(config, env)
        with claimed(folder, config) as path:
            metrics = MetricsFile(path / METRICS)
            if (path / DONE).exists():
                return metrics.path
            run = _Run(config, path, agent, metrics)
            run.go_on()
            curves = Curves(path, agent.steps + 1) if tensorboard else None
            with closing(curves) if curves is not None else nullcontext():
                run.finish(
                    env,
                    eval_env,
                    on_steps=on_steps or _quiet,
                    on_evaluation=on_evaluation or _quiet,
                    on_row=_quiet if curves is None else curves.add,
                )
            write_json(path / DONE, {"steps": agent.steps, **summary_of(metrics.path)})
            return metrics.path


def _quiet(*_: object) -> None:
    """Nobody watches."""


@dataclass
class _Run:
    """A run under way: the agent, where it stands, and what is written of it."""

    config: RunConfig
    folder: Path
    agent: DeepAgent
    metrics: MetricsFile
    episodes: int = 0
    iteration: int = 0
    rows: int = 0
    tally: Tally = field(default_factory=Tally)

    def go_on(self) -> None:
        """Take up the newest checkpoint, if there is one, and cut off the rows after it."""
        from needreplay.deep.checkpoint import load_agent

        found = newest_checkpoint(self.folder)
        if found is not None:
            try:
                load_agent(self.agent, found)
                state = read_json(found / RUN)
            except NeedReplayError as error:
                raise NeedReplayError(
                    f"{str(error).rstrip('.')}; remove {str(found)!r} to go on from the checkpoint "
                    "before it, or from the beginning if there is none."
                ) from error
            self.episodes, self.iteration = state["episodes"], state["iteration"]
            self.rows, self.tally = state["rows"], Tally.of_plain(state["tally"])
        self.metrics.begin(self.rows)

    def finish(
        self,
        env: gymnasium.Env[Any, Any],
        eval_env: gymnasium.Env[Any, Any],
        *,
        on_steps: Callable[[int, dict[str, Any] | None], None],
        on_evaluation: Callable[[int, int], None],
        on_row: Callable[[dict[str, Any]], None],
    ) -> None:
        """Train, evaluate and write until the planned steps are done."""
        agent, protocol = self.agent, self.config.resolved().protocol
        on_steps(agent.steps, None)

        def stepped() -> None:
            if agent.steps % REPORT_PERIOD == 0:
                on_steps(agent.steps, None)

        episodes = train(
            env,
            agent,
            seed=self.config.seed,
            first_episode=self.episodes,
            on_update=lambda learned: self.tally.add_update(learned),
            on_step=stepped,
        )
        next_checkpoint = _next(agent.steps, protocol.checkpoint_steps)
        while agent.steps < self.config.steps:
            self.tally.add_episode(next(episodes).total)
            self.episodes += 1
            ended = agent.steps >= self.config.steps
            if agent.steps >= (self.iteration + 1) * protocol.iteration_steps or ended:
                # An episode may be longer than an iteration, which then has no row of its own.
                self.iteration = max(self.iteration + 1, agent.steps // protocol.iteration_steps)
                row = self._row()
                if protocol.eval_steps:
                    returns = evaluate(
                        eval_env,
                        agent,
                        seed=self.config.seed,
                        iteration=self.iteration,
                        steps=protocol.eval_steps,
                        on_step=on_evaluation,
                    )
                    row["eval_episodes"] = len(returns)
                    row["eval_return"] = sum(returns) / len(returns)
                self.metrics.append(row)
                on_row(row)
                self.rows += 1
                self.tally = Tally()
                on_steps(agent.steps, row)
            if agent.steps >= next_checkpoint or ended:
                write_checkpoint(self.folder, agent.steps, self._save)
                next_checkpoint = _next(agent.steps, protocol.checkpoint_steps)

    def _save(self, folder: Path) -> None:
        from needreplay.deep.checkpoint import save_agent

        save_agent(self.agent, folder)
        state = {"episodes": self.episodes, "iteration": self.iteration, "rows": self.rows}
        write_json(folder / RUN, {**state, "tally": self.tally.plain()})

    def _row(self) -> dict[str, Any]:
        agent = self.agent
        features = getattr(agent.replay.sampler, "features", None)
        return {
            "iteration": self.iteration,
            "steps": agent.steps,
            "updates": agent.updates,
            "train_episodes": self.tally.episodes,
            "epsilon": agent.epsilon,
            "feature_age": None if features is None else features.oldest_age,
            **self.tally.means(),
        }


def _next(steps: int, period: int) -> int:
    return (steps // period + 1) * period

"""One training run in a folder: train, evaluate, write a row, save; resume after any stop."""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from needlab.core.machine import record_machine
from needlab.core.tables import plain, read_json, write_json
from needlab.core.types import Env, JsonObject
from needlab.runs.config import RunConfig, check_learns, make_agent, make_env
from needlab.runs.evaluation import evaluate
from needlab.runs.metrics import OF_ACTORS, Curves, MetricsFile, Sums
from needlab.runs.run_folder import (
    DONE,
    METRICS,
    RUN,
    checked_digests,
    claimed,
    done_of,
    newest_checkpoint,
    steps_of,
    write_checkpoint,
)
from needlab.runs.stopping import Stop, Stopped
from needlab.runs.train_loop import train
from needreplay._core.checks import COUNT, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream

if TYPE_CHECKING:
    from needlab.deep import DeepAgent, UpdateStats
    from needlab.runs.actors import Fleet

REPORT_PERIOD = 20
"""Steps between two calls of ``on_steps``."""
CHECKPOINT_SECONDS = 300.0
"""Longest time between checkpoints, if episodes are shorter and ..."""
CHECKPOINT_COST = 0.05
"""... writing them takes no larger share of the time."""
QUALITY_PERIOD = 10_000
"""Steps between measurements of need's quality, which then take less than 2% of the time."""


def run_training(
    config: RunConfig,
    folder: str | Path,
    *,
    on_steps: Callable[[int, JsonObject | None], None] = lambda _steps, _row: None,
    on_evaluation: Callable[[int], None] = lambda _steps: None,
    on_warning: Callable[[str], object] = warnings.warn,
    tensorboard: bool = False,
    address: str | None = None,
    gpus_per_actor: float = 0.0,
) -> Path:
    """Train until the run is complete, and return the path of its metrics.

    The same call resumes after any stop. Without actors it ends with the same metrics, byte for
    byte (on one CPU thread of the same type of CPU, with the same versions). Ctrl-C and SIGTERM
    stop it at the end of an episode, with a checkpoint; a second one stops at once. A complete run
    with fewer ``steps`` is extended. A folder with another run, or in which another process
    trains, raises.

    Args:
        config: what to run.
        folder: the run's folder.
        on_steps: called with the number of steps done, and with each row as it is written.
        on_evaluation: called with the steps done of an evaluation.
        on_warning: called with what the user should know.
        tensorboard: whether to write each row as points of TensorBoard's curves, too.
        address: of a Ray cluster, for a run with actors; None starts Ray here.
        gpus_per_actor: GPUs that each actor reserves, or a share of one.
    """
    # Raise for what cannot run before anything is written.
    env = make_env(config)
    with closing(env), closing(make_env(config)) as eval_env, ExitStack() as stack:
        check_learns(config)
        fleet: Fleet | None = None
        if config.resolved().actors.actors:
            from needlab.runs import actors

            fleet = actors.Fleet(
                config, env, address=address, gpus_per_actor=gpus_per_actor, on_warning=on_warning
            )
            stack.callback(fleet.close)
            agent = make_agent(config, env, make_buffer=fleet.make_buffer)
        else:
            agent = make_agent(config, env)
        with claimed(folder, config) as path:
            metrics = MetricsFile(path / METRICS, {} if fleet is None else OF_ACTORS)
            done = done_of(path)
            if done is not None and done["steps"] >= config.steps:
                if done != plain(_outcome(done["steps"], metrics)):
                    raise NeedReplayError(
                        f"{str(path / DONE)!r} does not fit the rows of {METRICS}: one of them is "
                        "damaged or of another run."
                    )
                return metrics.path
            if warning := record_machine(path):
                on_warning(warning)
            run = _Run(config, path, agent, metrics, fleet)
            run.resume()
            if fleet is not None:
                fleet.resume(path, agent.steps)
            (path / DONE).unlink(missing_ok=True)
            curves = Curves(path, agent.steps + 1) if tensorboard else None
            with closing(curves) if curves is not None else nullcontext(), run.stop.listening():

                def on_row(row: JsonObject) -> None:
                    if curves is not None:
                        curves.add(row)
                    on_steps(agent.steps, row)

                run.finish(env, eval_env, on_steps, on_evaluation, on_row)
            write_json(path / DONE, _outcome(agent.steps, metrics))
            return metrics.path


@dataclass
class _Run:
    """A run under way."""

    config: RunConfig
    folder: Path
    agent: DeepAgent
    metrics: MetricsFile
    fleet: Fleet | None = None
    episodes: int = 0
    iteration: int = 0
    rows: int = 0
    next_checkpoint: int = 0
    sums: Sums = field(default_factory=Sums)
    stop: Stop = field(default_factory=Stop)

    def __post_init__(self) -> None:
        self.protocol = self.config.resolved().protocol
        self.next_checkpoint = self.protocol.checkpoint_steps
        self.saved = 0, 0
        self.saved_at = time.monotonic()
        self.save_seconds = 0.0

    def resume(self) -> None:
        """Load the newest checkpoint, if there is one, and remove the rows after it."""
        found = newest_checkpoint(self.folder)
        if found is None:
            if (self.folder / DONE).exists():
                raise NeedReplayError(
                    f"The run in {str(self.folder)!r} is complete, but its checkpoint is missing; "
                    "it cannot be extended."
                )
            self.metrics.start(0)
            return
        try:
            digests = checked_digests(found)
            self._load(found)
        except NeedReplayError as error:
            raise NeedReplayError(
                f"{str(error).rstrip('.')}; remove {str(found)!r} to resume from the "
                "checkpoint before it, or from the start if there is none."
            ) from error
        self.metrics.start(self.rows, digests.get(METRICS, ""))

    def _load(self, checkpoint: Path) -> None:
        from needlab.deep.checkpoint import load_agent

        load_agent(self.agent, checkpoint)
        path = checkpoint / RUN
        state = read_json(path)
        try:
            for name in ("episodes", "iteration", "rows", "next_checkpoint"):
                check_number(name, state[name], int, COUNT)
                setattr(self, name, state[name])
            self.sums = Sums.from_json(state["sums"])
        except (NeedReplayError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise NeedReplayError(f"{str(path)!r} is damaged: {error}.") from error
        if self.agent.steps != steps_of(checkpoint):
            raise NeedReplayError(
                f"{str(checkpoint)!r} holds {self.agent.steps} steps, not those of its name."
            )

    def finish(
        self,
        env: Env,
        eval_env: Env,
        on_steps: Callable[[int, JsonObject | None], None],
        on_evaluation: Callable[[int], None],
        on_row: Callable[[JsonObject], None],
    ) -> None:
        """Train, evaluate and save until the planned steps are done."""
        agent, config = self.agent, self.config
        on_steps(agent.steps, None)

        def stepped() -> None:
            self.stop.check()
            if agent.steps % REPORT_PERIOD == 0:
                on_steps(agent.steps, None)

        def updated(learned: UpdateStats) -> None:
            self.sums.add_update(learned)  # those of this iteration

        if self.fleet is None:
            episodes = train(
                env,
                agent,
                seed=config.seed,
                first_episode=self.episodes,
                on_update=updated,
                on_step=stepped,
            )
        else:
            from needlab.runs.actors import train_with_actors

            episodes = train_with_actors(self.fleet, agent, on_update=updated, on_step=stepped)
        self.saved = agent.steps, self.rows
        while True:
            ended = agent.steps >= config.steps
            if agent.steps >= (self.iteration + 1) * self.protocol.iteration_steps or (
                ended and self.sums.episodes
            ):
                try:
                    on_row(self._add_row(eval_env, on_evaluation))
                except Stopped:
                    # Nothing has changed since the episode ended: the row is made on resuming.
                    self._checkpoint()
                    raise
            unsaved = (agent.steps, self.rows) != self.saved
            if agent.steps >= self.next_checkpoint or (ended and unsaved):
                period = self.protocol.checkpoint_steps
                self.next_checkpoint = (agent.steps // period + 1) * period
                self._checkpoint()
            elif unsaved and (self.stop.asked or self._is_time_to_save()):
                self._checkpoint()
            if ended:
                return
            if self.stop.asked:
                raise self.stop.stopped()
            self.sums.add_episode(*next(episodes))
            self.episodes += 1

    def _add_row(self, eval_env: Env, on_evaluation: Callable[[int], None]) -> JsonObject:
        """Evaluate, and write what this iteration measured."""

        def stepped(steps: int) -> None:
            if self.stop.asked:
                raise self.stop.stopped()
            on_evaluation(steps)

        agent, protocol = self.agent, self.protocol
        # An episode may be longer than an iteration, which then has no row.
        iteration = max(self.iteration + 1, agent.steps // protocol.iteration_steps)
        features = getattr(agent.buffer.sampler, "features", None)
        row = {
            "iteration": iteration,
            "steps": agent.steps,
            "updates": agent.updates,
            "train_episodes": self.sums.episodes,
            "epsilon": agent.epsilon,
            "feature_age": None if features is None else features.oldest_age,
            **self.sums.means(),
            **self._need_quality(iteration),
            **({} if self.fleet is None else self.fleet.facts(agent)),
        }
        if protocol.eval_steps:
            returns = evaluate(
                eval_env,
                agent,
                seed=self.config.seed,
                iteration=iteration,
                steps=protocol.eval_steps,
                on_step=stepped,
            )
            row["eval_episodes"] = len(returns)
            row["eval_return"] = sum(returns) / len(returns)
        self.metrics.append(row)
        self.iteration, self.rows, self.sums = iteration, self.rows + 1, Sums()
        return row

    def _is_time_to_save(self) -> bool:
        longest = max(CHECKPOINT_SECONDS, self.save_seconds / CHECKPOINT_COST)
        return time.monotonic() - self.saved_at > longest

    def _checkpoint(self) -> None:
        began = time.monotonic()
        write_checkpoint(self.folder, self.agent.steps, self._save, self.metrics.digest)
        self.saved = self.agent.steps, self.rows
        self.saved_at = time.monotonic()
        self.save_seconds = self.saved_at - began

    def _need_quality(self, iteration: int) -> dict[str, float]:
        """The quality of need, in some rows: whether it knows the states that come next."""
        period = -(-QUALITY_PERIOD // self.protocol.iteration_steps)
        if iteration % period and self.agent.steps < self.config.steps:
            return {}
        rng = stream(self.config.seed, "need quality", iteration)
        quality = self.agent.need_quality(rng)
        if quality is None:
            return {}
        names = ("auc", "auc_past", "auc_time", "effective", "effective_recent", "nearness")
        found = {f"need_{name}": getattr(quality, name) for name in names}
        found["need_auc_baseline"] = quality.best_baseline()
        if not math.isnan(quality.auc):
            found["need_accurate"] = int(quality.is_accurate)
        return found

    def _save(self, folder: Path) -> None:
        from needlab.deep.checkpoint import save_agent

        save_agent(self.agent, folder)
        names = ("episodes", "iteration", "rows", "next_checkpoint")
        state = {name: getattr(self, name) for name in names}
        write_json(folder / RUN, {**state, "sums": self.sums})


def _outcome(steps: int, metrics: MetricsFile) -> JsonObject:
    """What a complete run leaves: it fits no other rows."""
    summary = metrics.summary()
    digest = hashlib.sha256(metrics.path.read_bytes()).hexdigest()
    return {"steps": steps, **summary, "metrics_sha256": digest}

"""One run by many processes: actors play and write, this process learns (Ape-X's structure).

The learner is the same agent as in one process, on a ``RayReplayBuffer``. Its clock counts the
steps at which updates are due: update u is at step min_history + u * update_period. The buffer lets
it sample when about as many steps have come, and lets actors go on when it has learned from them.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from needlab.runs.config import ActorSettings, RunConfig, make_agent, make_env
from needlab.runs.train_loop import Played, train
from needreplay._core.cluster import connect, imported
from needreplay._core.errors import NeedReplayError, counted
from needreplay._core.rng import stream
from needreplay.distributed import RayReplayBuffer, Writer
from needreplay.equations import ape_x_epsilon

if TYPE_CHECKING:
    import gymnasium

    from needlab.deep import DeepAgent, UpdateStats

ARRIVED = "arrived"
"""The file in a run's folder that says how many transitions have come."""
START = 300.0
"""Seconds that an actor may take to start."""
NEWS_PERIOD = 0.2
"""Seconds between two questions to an actor."""
MOST_RESTARTS = 100


class Actor:
    """Plays with the newest weights that it got, in a process of its own.

    Args:
        config: of the run.
        number: of this actor.
        life: how often it was started before.
        steps: of the run so far, for the exploration.
        writer: where its steps go.
        spaces: of the learner's world.
        folder: the learner's, which worlds and agents of your own are looked up in.
        device: of the network.
    """

    def __init__(
        self,
        config: RunConfig,
        number: int,
        life: int,
        steps: int,
        writer: Writer,
        spaces: str,
        folder: str,
        device: str,
    ) -> None:
        if folder not in sys.path:
            sys.path.insert(0, folder)
        settings = config.resolved().actors
        self.writer, self._number = writer, number
        config = replace(config, device=device)
        self.env = make_env(config)
        if (own := spaces_of(self.env)) != spaces:
            raise NeedReplayError(
                f"its world has {own}, and the learner's has {spaces}; install the same world on "
                "every machine."
            )
        self.agent = make_agent(config, self.env, capacity=64)
        self.agent.replay = writer
        self.agent.steps = steps
        self.agent.action_rng = stream(config.seed, "actions", "actor", number, life)
        self.agent.fixed_epsilon = epsilon_of(settings, number)
        if settings.first_priorities == "td-error":
            writer.first_priorities = self.agent.priorities_of
        self._names = ("train",) if (number, life) == (0, 0) else ("train", "actor", number, life)
        self._seed = config.seed
        self._weights: tuple[dict[str, Any], int] | None = None
        self._updates = 0
        self._ended: deque[Played] = deque()
        self._steps, self._age = 0, 0
        self._newest = 0

    def set_weights(self, weights: dict[str, Any], updates: int) -> None:
        """Act by these from the next step on; ``updates`` were made before."""
        self._weights = weights, updates

    def play(self, first_episode: int) -> None:
        """Play without end."""
        episodes = train(
            self.env,
            self.agent,
            seed=self._seed,
            first_episode=first_episode,
            on_update=lambda _: None,
            on_step=self._stepped,
            names=self._names,
            learns=False,
        )
        for played in episodes:
            self._ended.append(played)

    def _stepped(self) -> None:
        self._steps += 1
        weights, self._weights = self._weights, None
        if weights is not None:
            self.agent.set_weights(weights[0])
            self._updates = weights[1]

    def news(self) -> dict[str, Any]:
        """What happened since the last call."""
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        return {
            "ended": ended,
            "steps": self._steps,
            "updates": self._updates,
            "waited": self.writer.waited,
        }


def spaces_of(env: gymnasium.Env[Any, Any]) -> str:
    """The spaces of a world, for a comparison between machines."""
    return f"observations {env.observation_space} and actions {env.action_space}"


def epsilon_of(settings: ActorSettings, number: int) -> float | None:
    """The probability of a random action in this actor; None: that of the agent's settings."""
    if settings.exploration == "same" or settings.actors == 1:
        return None
    return ape_x_epsilon(number, settings.actors)


@dataclass
class _Playing:
    """An actor as the learner knows it."""

    handle: Any
    playing: Any
    began: float
    life: int = 0
    episodes: int = 0
    news: Any = None
    asked_at: float = 0.0
    is_up: bool = False
    steps: int = 0
    updates: int = 0


class Fleet:
    """The actors of a run, and the replay that they write to.

    Args:
        config: of the run.
        env: the learner's world; those of actors must have its spaces.
        address: of a Ray cluster, "auto" for the one on this machine; None starts one here.
        gpus_per_actor: GPUs that an actor reserves, or a share of one.
        on_warning: called with what the user should know.
    """

    def __init__(
        self,
        config: RunConfig,
        env: gymnasium.Env[Any, Any],
        *,
        address: str | None = None,
        gpus_per_actor: float = 0.0,
        on_warning: Callable[[str], object],
    ) -> None:
        self.config, self.settings = config, config.resolved().actors
        self._gpus, self._warn, self._spaces = gpus_per_actor, on_warning, spaces_of(env)
        self._ray = imported("--actors")
        self._starts_ray = not self._ray.is_initialized()
        if self._starts_ray:
            cpus = max(self.settings.actors, os.cpu_count() or 1)
            connect(self._ray, address, num_cpus=cpus)
        self._check_cpus()
        self.actors: list[_Playing] = []
        self.buffer: RayReplayBuffer | None = None
        self._began = time.monotonic()
        self._before = (0.0, 0, 0, 0.0)
        self._put_at = -1

    def _check_cpus(self) -> None:
        """Ray would wait forever for resources that the cluster does not have."""
        has = self._ray.cluster_resources()
        actors, gpus = self.settings.actors, self.settings.actors * self._gpus
        if has.get("CPU", 0) < actors or has.get("GPU", 0) < gpus:
            self.close()
            raise NeedReplayError(
                f"{counted(actors, 'actor')} need {actors} CPUs and {gpus:g} GPUs, and the cluster "
                f"has {has.get('CPU', 0):g} and {has.get('GPU', 0):g}; take fewer actors, or add "
                "nodes."
            )

    def make_buffer(self, observation_space: Any, action_space: Any, **options: Any) -> Any:
        """What the agent calls in place of ``ReplayBuffer.for_spaces``."""
        agent, own = self.config.resolved().agent, self.settings
        ratio = agent.batch_size / agent.update_period
        self.buffer = RayReplayBuffer.for_spaces(
            observation_space,
            action_space,
            shards=own.shards,
            block=min(own.block, options["capacity"]),
            prefetch=own.prefetch,
            min_size=max(1, agent.min_history),
            samples_per_insert=ratio,
            tolerance=max(4 * own.block * own.actors * ratio, 4.0 * agent.batch_size),
            **options,
        )
        return self.buffer

    def resume(self, folder: Path, steps: int) -> None:
        """Count from now on, in the run's folder, what comes; say what was lost with a learner.

        Args:
            folder: of the run.
            steps: of the checkpoint that was loaded, 0 if there is none.
        """
        assert self.buffer is not None
        if lost := self.buffer.count_in(folder / ARRIVED):
            since = f"after the checkpoint at step {steps:,}" if steps else "before any checkpoint"
            self._warn(
                f"{counted(lost, 'transition')} came {since} and were lost when the learner was "
                "stopped; actors play others in their place"
            )

    def start(self, agent: DeepAgent) -> None:
        """Start all actors, with the weights that the agent has."""
        self.actors = [self._started(k, 0, 0, agent) for k in range(self.settings.actors)]
        self.put_weights(agent)

    def _started(self, number: int, life: int, first_episode: int, agent: DeepAgent) -> _Playing:
        assert self.buffer is not None
        made = self._ray.remote(
            num_cpus=1, num_gpus=self._gpus, max_concurrency=2, scheduling_strategy="SPREAD"
        )(Actor)
        device = "cuda" if self._gpus else "cpu"
        handle = made.remote(
            self.config,
            number,
            life,
            agent.steps,
            self.buffer.writer(),
            self._spaces,
            str(Path.cwd()),
            device,
        )
        playing = handle.play.remote(first_episode)
        return _Playing(handle, playing, time.monotonic(), life, first_episode)

    def put_weights(self, agent: DeepAgent) -> None:
        """Give all actors the weights of now."""
        weights = self._ray.put(agent.weights())
        for actor in self.actors:
            actor.handle.set_weights.remote(weights, agent.updates)
        self._put_at = agent.updates

    def episodes(self, agent: DeepAgent) -> Iterator[Played]:
        """The episodes that ended since the last call; starts lost actors again."""
        now = time.monotonic()
        for actor in self.actors:
            if actor.news is None and now - actor.asked_at > NEWS_PERIOD:
                actor.news, actor.asked_at = actor.handle.news.remote(), now
        asked = {actor.news: k for k, actor in enumerate(self.actors) if actor.news is not None}
        playing = {actor.playing: k for k, actor in enumerate(self.actors)}
        waiting = [*asked, *playing]
        ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        stopped = [answer for answer in ready if answer in playing]
        for answer in ready:
            if answer in asked:
                actor = self.actors[asked[answer]]
                actor.news = None
                try:
                    news = self._ray.get(answer)
                except self._ray.exceptions.RayError:
                    continue  # what happened to it, its ``play`` says
                actor.is_up = True
                actor.steps, actor.updates = news["steps"], news["updates"]
                actor.episodes += len(news["ended"])
                yield from news["ended"]
        for answer in stopped:
            self._stopped(playing[answer], answer, agent)
        for k, actor in enumerate(self.actors):
            if not actor.is_up and now - actor.began > START:
                raise self._pending(k)

    def _pending(self, k: int) -> NeedReplayError:
        """Ray waits for resources that others have."""
        has, free = self._ray.cluster_resources(), self._ray.available_resources()
        parts = [f"{free.get(n, 0):g} of its {has[n]:g} {n}s" for n in ("CPU", "GPU") if n in has]
        return NeedReplayError(
            f"Actor {k} has not started for {START:g} s; the cluster has {' and '.join(parts)} "
            "free. End other work there, add nodes, or take fewer actors."
        )

    def _stopped(self, k: int, answer: Any, agent: DeepAgent) -> None:
        """An actor raised, or its process is lost: then another takes its place."""
        actor = self.actors[k]
        try:
            self._ray.get(answer)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            said = str(cause) if isinstance(cause, NeedReplayError) else repr(cause)
            raise NeedReplayError(f"Actor {k} stopped: {said}") from error
        except self._ray.exceptions.RayError as error:
            if "creation task" in str(error) or actor.life >= MOST_RESTARTS:
                raise NeedReplayError(f"Actor {k} does not start: {_last_line(error)}") from error
            self._warn(
                f"actor {k} was lost with its process (killed, or out of memory) and is started "
                "again; its open episode is cut"
            )
            self.actors[k] = self._started(k, actor.life + 1, actor.episodes, agent)
            self.put_weights(agent)

    def facts(self, agent: DeepAgent) -> dict[str, Any]:
        """Numbers for a row of metrics, since the last one."""
        assert self.buffer is not None
        now, found = time.monotonic() - self._began, self.buffer.facts()
        seconds, steps, updates, waited = self._before
        took = max(1e-9, now - seconds)
        self._before = now, int(found["inserted"]), agent.updates, found["waited"]
        return {
            "steps_per_second": (found["inserted"] - steps) / took,
            "updates_per_second": (agent.updates - updates) / took,
            "waiting": (found["waited"] - waited) / took,
            "samples_per_insert": found["samples_per_insert"],
            "sample_age": found["age"],
            "weights_age": float(np.mean([agent.updates - a.updates for a in self.actors])),
            "lost": int(found["lost"]),
            "lost_with_learner": int(found["lost_with_learner"]),
            "lost_actors": sum(actor.life for actor in self.actors),
        }

    def close(self) -> None:
        """End actors and shards; and Ray, if it was started here."""
        for actor in getattr(self, "actors", []):
            self._ray.kill(actor.handle)
        if getattr(self, "buffer", None) is not None:
            self.buffer.close()  # type: ignore[union-attr]
        if self._starts_ray:
            self._ray.shutdown()


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if "Error" in line), lines[-1] if lines else "")
    return last.removeprefix(f"{NeedReplayError.__module__}.{NeedReplayError.__name__}: ")


def train_with_actors(
    fleet: Fleet,
    agent: DeepAgent,
    *,
    on_update: Callable[[UpdateStats], None],
    on_step: Callable[[], None],
) -> Iterator[Played]:
    """Learn from what the actors play; yield each of their episodes as it ends."""
    settings, own = agent.settings, fleet.settings
    buffer = fleet.buffer
    assert buffer is not None
    period = settings.update_period
    first = -(-max(1, settings.min_history) // period) * period
    fleet.start(agent)
    ready = partial(buffer.is_ready, settings.batch_size)
    while True:
        yield from fleet.episodes(agent)
        if not ready():
            buffer.poll()
            on_step()
            if agent.updates == 0:
                agent.steps = min(buffer.inserted, first)
            if not ready():
                time.sleep(0.001)
            continue
        agent.steps = first + agent.updates * period
        obs = np.zeros(0)
        if agent.need is not None:  # seen from the newest state that came
            obs = buffer.read([buffer.next_id - 1])["next_obs"][0]
        learned = agent.learn(obs)
        on_step()
        if learned is not None:
            on_update(learned)
        if agent.updates - fleet._put_at >= own.weights_period:
            fleet.put_weights(agent)

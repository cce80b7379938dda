"""The config of a training run: a world, an agent, a preset, a seed, and changed settings.

Two runs of equal config are equal, byte for byte.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_type_hints

from needlab.core.imports import load_object
from needlab.core.presets import changed, flat, unknown_setting
from needlab.core.types import Env, Values
from needlab.worlds.adapt import LARGE_IMAGE
from needlab.worlds.named import Kind, WorldSettings, kind_of, make_world, observation_shape
from needreplay._core.checks import AT_LEAST_ONE, COUNT, check_fields, words_of
from needreplay._core.errors import NeedReplayError

if TYPE_CHECKING:
    from needlab.deep import DeepAgent, DeepSettings


@dataclass(frozen=True)
class Protocol:
    """When a run evaluates and saves, in steps."""

    iteration_steps: int = 10_000
    """steps of training in an iteration, which ends with an episode"""
    eval_steps: int = 5_000
    """steps of evaluation after each iteration; 0: none"""
    checkpoint_steps: int = 50_000
    """steps between checkpoints, each at the end of an episode"""

    def __post_init__(self) -> None:
        """Raise for periods below one step."""
        bounds = {"iteration_steps": AT_LEAST_ONE, "checkpoint_steps": AT_LEAST_ONE}
        check_fields(self, {**bounds, "eval_steps": COUNT})


@dataclass(frozen=True)
class ActorSettings:
    """A run by many processes (see ``needlab.runs.actors``)."""

    actors: int = 0
    """processes that play, on Ray, while this one learns; 0: this one does both"""
    shards: int = 1
    """Ray actors that hold the transitions; at most as many as actors"""
    exploration: Literal["ape-x", "same"] = "ape-x"
    """ape-x: actor i of N acts at random with probability 0.4^(1 + 7 i / (N - 1)) (with one actor:
    as epsilon_end and epsilon_steps say); same: all as epsilon_end and epsilon_steps say"""
    first_priorities: Literal["largest", "td-error"] = "largest"
    """of new transitions: the largest so far, or the TD error that the actor's network has"""
    weights_period: int = 25
    """updates between two copies of the network to the actors"""
    block: int = 32
    """transitions that an actor sends at once"""
    prefetch: int = 2
    """batches that are on their way while the learner learns; priorities are late by as many"""

    def __post_init__(self) -> None:
        """Raise for what cannot run."""
        at_least_one = dict.fromkeys(("shards", "weights_period", "block"), AT_LEAST_ONE)
        check_fields(self, {**at_least_one, "actors": COUNT, "prefetch": COUNT})
        if self.actors and self.shards > self.actors:
            raise NeedReplayError(
                f"shards is {self.shards}, above actors {self.actors}: a shard would stay empty; "
                "take at most one for each actor."
            )


PROTOCOLS: dict[Kind, Protocol] = {
    "atari": Protocol(250_000, 125_000, 250_000),
    "minatar": Protocol(10_000, 5_000, 50_000),
    "image": Protocol(10_000, 5_000, 50_000),
    "vector": Protocol(2_000, 1_000, 10_000),
}
"""By kind of world; Atari's is the paper's."""


@dataclass(frozen=True)
class RunConfig:
    """One run: everything that its result depends on."""

    world: str
    agent: str = "per"
    preset: str = "default"
    steps: int = 1_000_000
    seed: int = 0
    overrides: Values = field(default_factory=dict)
    """changed settings of the agent, the world or the protocol, by name"""
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Raise for wrong types and numbers; ``resolved`` raises for wrong names."""
        check_fields(self, {"steps": AT_LEAST_ONE, "seed": COUNT})
        if not isinstance(self.overrides, Mapping):
            raise NeedReplayError(f"overrides is {self.overrides!r}; it must be a table.")

    def resolved(self) -> Resolved:
        """The settings of agent, world and protocol, with every override in its place."""
        rest, kind = dict(self.overrides), kind_of(self.world)
        resolved = Resolved(
            _overridden(agent_settings(self.world, kind, self.preset, self.agent), rest),
            _overridden(world_settings(kind, self.preset), rest),
            _overridden(PROTOCOLS[kind], rest),
            _overridden(ActorSettings(), rest),
        )
        if rest:
            raise unknown_setting(next(iter(rest)), sorted(resolved.flat()))
        return resolved


@dataclass(frozen=True)
class Resolved:
    """The complete settings of a run."""

    agent: DeepSettings
    world: WorldSettings
    protocol: Protocol
    actors: ActorSettings

    def flat(self) -> dict[str, Any]:
        """Every setting by name, those of all parts together."""
        return {**flat(self.agent), **flat(self.world), **flat(self.protocol), **flat(self.actors)}


def check_learns(config: RunConfig) -> None:
    """Raise for a run that ends before its first update, or waits for more than it stores."""
    settings = config.resolved().agent
    for name, most in (("steps", config.steps), ("capacity", settings.capacity)):
        if settings.min_history > most:
            why = "nothing would be learned" if name == "steps" else "the buffer never holds that"
            raise NeedReplayError(
                f"min_history is {settings.min_history:,}, above {name} {most:,}: {why}; give more "
                f"{name}, or set min_history to {most:,} or less."
            )


def agent_class(name: str) -> type[DeepAgent]:
    """The class of a named agent: ours, or the user's own as ``module:name``."""
    from needlab.deep import DeepAgent

    if ":" not in name:
        return DeepAgent
    found = load_object(name)
    if not isinstance(found, type) or not issubclass(found, DeepAgent):
        raise NeedReplayError(f"{name!r} is not a subclass of needlab.deep.DeepAgent.")
    return found


def agent_settings(world: str, kind: Kind, preset: str, agent: str) -> DeepSettings:
    """The agent's settings for a world; images other than Atari's get MinAtar's sizes."""
    from needlab.deep.presets import deep_preset

    if ":" in agent:
        settings = agent_settings(world, kind, preset, "per")
        return changed(settings, **agent_class(agent).changes)
    if kind != "image":
        return deep_preset(preset, "nature" if kind == "atari" else kind, agent)
    large = min(observation_shape(world)[1:]) >= LARGE_IMAGE
    settings = deep_preset(preset, "minatar", agent, reward_clip=False)
    return replace(settings, network="nature" if large else "minatar")


def world_settings(kind: Kind, preset: str) -> WorldSettings:
    """How a world of this kind is made under a preset."""
    if kind == "minatar":
        return WorldSettings(sticky=0.1, episode_cap=5_000, action_set="full")
    if kind == "atari" and preset == "printed":
        return WorldSettings(sticky=0.0, life_loss_ends=True)
    return WorldSettings()


S = TypeVar("S", "DeepSettings", WorldSettings, Protocol, ActorSettings)


def _overridden(settings: S, overrides: dict[str, object]) -> S:
    """Change the fields that ``settings`` has, and take them out of ``overrides``."""
    own = {name: overrides.pop(name) for name in flat(settings) if name in overrides}
    return changed(settings, **own)


def make_env(config: RunConfig) -> Env:
    """The config's world."""
    return make_world(config.world, config.resolved().world)


def make_agent(
    config: RunConfig,
    env: Env,
    *,
    capacity: int | None = None,
    **options: Any,
) -> DeepAgent:
    """The config's agent, untrained; one that only plays needs no large ``capacity``.

    ``options`` are further arguments of ``DeepAgent``.
    """
    import torch

    try:
        # The value has to come back: some devices (meta) hold none.
        torch.ones(1, device=config.device).item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise NeedReplayError(f"The device {config.device!r} cannot be used: {reason}.") from error
    if config.device == "cpu":
        # More threads would add in another order, and a resumed run would not be the same.
        torch.set_num_threads(1)
    settings = config.resolved().agent
    if capacity is not None:
        settings = replace(settings, capacity=capacity)
    try:
        return agent_class(config.agent)(
            settings,
            env.observation_space,
            int(env.action_space.n),  # type: ignore[attr-defined]
            steps=config.steps,
            seed=config.seed,
            device=config.device,
            **options,
        )
    except (MemoryError, OverflowError, RuntimeError, ValueError) as error:
        # numpy and torch have no type of their own for it.
        words = ("allocat", "dimension exceeded", "array is too big", "too large")
        if isinstance(error, NeedReplayError) or not (
            isinstance(error, MemoryError | OverflowError) or any(w in str(error) for w in words)
        ):
            raise
        sizes = [f"{name} {flat(settings)[name]:,}" for name in ("capacity", "features")]
        reason = str(error).splitlines()[0].rstrip(".")
        raise NeedReplayError(
            f"An agent with {' and '.join(sizes)} does not fit into memory: {reason}."
        ) from error


class Setting(NamedTuple):
    """A setting with its meaning."""

    name: str
    value: object
    choices: tuple[str, ...]
    """allowed words, if it is a choice of words"""
    meaning: str


def explained(settings: Any) -> list[Setting]:
    """Every setting of a dataclass and its parts, with the docstring below it in the source."""
    hints, found = get_type_hints(type(settings)), field_docs(type(settings))
    listed: list[Setting] = []
    for each in fields(settings):
        value = getattr(settings, each.name)
        if is_dataclass(value):
            listed += explained(value)
        else:
            listed.append(Setting(each.name, value, words_of(hints[each.name]), found[each.name]))
    return listed


def field_docs(kind: type) -> dict[str, str]:
    """The docstring below each field that ``kind`` itself declares."""
    (body,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for declared, doc in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(declared, ast.AnnAssign)
            and isinstance(declared.target, ast.Name)
            and isinstance(doc, ast.Expr)
            and isinstance(doc.value, ast.Constant)
        ):
            found[declared.target.id] = " ".join(str(doc.value.value).split())
    return found

"""What a training run is: a world, an agent, a preset, a seed, and what is changed in them.

Two runs of equal config are equal, byte for byte; a config is all that a run's folder depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from needreplay.core.checks import AT_LEAST_ONE, COUNT, check_fields, check_number
from needreplay.core.errors import unknown
from needreplay.worlds.adapt import LARGE_IMAGE
from needreplay.worlds.named import Kind, WorldSettings, kind_of, observation_shape

if TYPE_CHECKING:
    from needreplay.deep.settings import DeepSettings


@dataclass(frozen=True)
class Protocol:
    """How training, evaluation and checkpoints alternate, in steps."""

    iteration_steps: int = 10_000
    """steps of training in an iteration; it ends with the episode"""
    eval_steps: int = 5_000
    """steps of evaluation after each; 0: none"""
    checkpoint_steps: int = 50_000
    """steps between checkpoints, each at the first end of an episode"""

    def __post_init__(self) -> None:
        """Refuse periods that never come."""
        check_fields(
            self,
            {
                "iteration_steps": AT_LEAST_ONE,
                "eval_steps": COUNT,
                "checkpoint_steps": AT_LEAST_ONE,
            },
        )


PROTOCOLS: dict[Kind, Protocol] = {
    "atari": Protocol(250_000, 125_000, 250_000),
    "minatar": Protocol(10_000, 5_000, 50_000),
    "image": Protocol(10_000, 5_000, 50_000),
    "vector": Protocol(2_000, 1_000, 10_000),
}
"""By kind of world; Atari's is the paper's."""

_MINATAR = WorldSettings(sticky=0.1, episode_cap=5_000, action_set="full")


def world_settings(kind: Kind, preset: str) -> WorldSettings:
    """How a world of this kind is made under a preset."""
    if kind == "atari" and preset == "printed":
        return WorldSettings(sticky=0.0, life_loss_ends=True)
    return _MINATAR if kind == "minatar" else WorldSettings()


def agent_settings(world: str, kind: Kind, preset: str, agent: str) -> DeepSettings:
    """The agent's settings for a world; other images than Atari's get MinAtar's sizes."""
    from needreplay.deep.presets import deep_preset

    if kind != "image":
        return deep_preset(preset, "nature" if kind == "atari" else kind, agent)
    large = min(observation_shape(world)[1:]) >= LARGE_IMAGE
    settings = deep_preset(preset, "minatar", agent, reward_clip=False)
    return replace(settings, network="nature" if large else "minatar")


@dataclass(frozen=True)
class RunConfig:
    """One run: everything that its result follows from."""

    world: str
    agent: str = "per-sr"
    preset: str = "corrected"
    steps: int = 1_000_000
    seed: int = 0
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """settings that are changed, by name: of the agent, the world or the protocol"""
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Refuse what cannot be run; a wrong name is refused when settings are resolved."""
        check_number("steps", self.steps, int, AT_LEAST_ONE)
        check_number("seed", self.seed, int, COUNT)

    @property
    def kind(self) -> Kind:
        """The family of the world."""
        return kind_of(self.world)

    def resolved(self) -> Resolved:
        """The settings of agent, world and protocol, with every override in its place."""
        rest = dict(self.overrides)
        kind = self.kind
        agent = agent_settings(self.world, kind, self.preset, self.agent)
        resolved = Resolved(
            _taking(agent, rest),
            _taking(world_settings(kind, self.preset), rest),
            _taking(PROTOCOLS[kind], rest),
        )
        if rest:
            raise unknown("setting", next(iter(rest)), sorted(resolved.flat()))
        return resolved


S = TypeVar("S", "DeepSettings", WorldSettings, Protocol)


def _taking(settings: S, overrides: dict[str, Any]) -> S:
    """``settings`` with its own fields changed; these are taken out of ``overrides``."""
    own = {f.name: overrides.pop(f.name) for f in fields(settings) if f.name in overrides}
    return replace(settings, **own)


@dataclass(frozen=True)
class Resolved:
    """A config's settings, complete."""

    agent: DeepSettings
    world: WorldSettings
    protocol: Protocol

    def flat(self) -> dict[str, Any]:
        """All settings by name."""
        return {**asdict(self.agent), **asdict(self.world), **asdict(self.protocol)}

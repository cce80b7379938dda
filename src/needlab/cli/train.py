"""``needreplay train``: train a deep agent, or resume a run that was stopped."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import FlagCreatePairsOff, UseAppendAction, arg

from needlab.cli.arguments import folder_named
from needlab.core.presets import parsed_settings, parsed_value
from needreplay._core.errors import NeedReplayError

if TYPE_CHECKING:
    from needlab.runs.config import RunConfig


@dataclass(frozen=True)
class Train:
    """Train a deep agent on a world. After any stop, the same command resumes.

    Ctrl-C and SIGTERM save a checkpoint at the end of the episode; a second one stops at once. A
    complete run continues with a larger --steps.

    For example
      needreplay train --world minatar/breakout --agent per-sr-sampling --steps 2e5 --out runs/a
      needreplay train --world CartPole-v1 --agent per --steps 20000 --out runs/b
      needreplay train --world my_module:MyEnv-v0 --out runs/c
      needreplay train --world minatar/asterix --agent per-sr --set scale=raw --out runs/d
      needreplay train --world atari/Pong --agent per-sr --preset released --settings
      needreplay train --world CartPole-v1 --agent my_module:MyAgent --out runs/e

    Your own code is module:name, found where Python finds modules and in the current folder:
    --world my_module:MyEnv-v0 (which registers that id), --agent (a subclass of
    needlab.deep.DeepAgent), --set sampler=... (a function of the settings that returns a
    sampler), --set network=... (a function of the observation's shape that returns a torch module).
    """

    out: Annotated[str | None, arg(metavar="DIR", help_behavior_hint="(needed to train)")] = None
    """Folder of the run: config.json, metrics.csv, the newest checkpoint, done.json."""
    world: Annotated[str, arg(metavar="NAME")] = "minatar/breakout"
    """minatar/<game>, atari/<Game>, or a Gymnasium id with discrete actions; my_module:MyEnv-v0
    names the module that registers your own environment; it may be in the current folder."""
    agent: Annotated[str, arg(metavar="NAME")] = "per"
    """uniform, per, rank, pser, per-sr (need scales the update), per-sr-sampling (need is part of
    the probability), dqn, double-dqn, or your own module:Name."""
    preset: Annotated[str, arg(metavar="NAME")] = "default"
    """default: need, if the agent has it, is a need model's (cosine), and a quarter of the
    probability of per-sr-sampling is uniform. The other presets have the paper's need, which is not
    accurate on MinAtar: printed: the paper's text; released: its code; corrected: its code without
    its faults."""
    steps: Annotated[str, arg(metavar="N")] = "1000000"
    """Steps of training, such as 20000 or 2e4; the last episode is played to its end."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Same seed, same run."""
    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()
    """Change one setting of the preset; repeat it for more. --settings lists all of them."""
    device: Annotated[str, arg(metavar="NAME")] = "cpu"
    """cpu, cuda, cuda:1, ..."""
    actors: Annotated[int, arg(metavar="N")] = 0
    """Processes that play while this one learns, on Ray; 0: this one does both. The same as --set
    actors=N."""
    shards: Annotated[int, arg(metavar="K")] = 1
    """With --actors: Ray actors that hold the transitions."""
    address: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """With --actors: of a running Ray cluster (auto: the one on this machine); otherwise Ray starts
    here."""
    gpus_per_actor: Annotated[float, arg(metavar="N")] = 0.0
    """With --actors: GPUs that an actor reserves, or a share of one."""
    tensorboard: FlagCreatePairsOff[bool] = False
    """Also write curves for TensorBoard, in DIR/tensorboard."""
    settings: FlagCreatePairsOff[bool] = False
    """Print every setting of this run with its value and meaning, and exit."""

    def run(self, argv: Sequence[str]) -> None:
        """Run the command."""
        from needlab.runs.bar import run_with_bar
        from needlab.runs.config import RunConfig

        config = RunConfig(
            world=self.world,
            agent=self.agent,
            preset=self.preset,
            steps=parsed_value(self.steps),
            seed=self.seed,
            overrides=self._overrides(),
            device=self.device,
        )
        if self.settings:
            print(settings_text(config))
            return
        if self.out is None:
            raise NeedReplayError("Name a folder for the run: --out DIR.")
        path = run_with_bar(
            config,
            folder_named("--out", self.out),
            command=shlex.join(argv),
            tensorboard=self.tensorboard,
            address=self.address,
            gpus_per_actor=self.gpus_per_actor,
        )
        print(f"{outcome(path)} -> {path}")

    def _overrides(self) -> dict[str, Any]:
        """The settings that the command changes."""
        given = parsed_settings(self.set, "--set")
        if self.actors:
            given = {**given, "actors": self.actors, "shards": self.shards}
        elif not given.get("actors"):
            for name in ("address", "gpus_per_actor"):
                if getattr(self, name):
                    flag = name.replace("_", "-")
                    raise NeedReplayError(f"--{flag} is for a run with --actors; add --actors N.")
        return given


def outcome(metrics: Path) -> str:
    """A finished run in one line."""
    from needlab.core.tables import read_json
    from needlab.runs.run_folder import DONE

    done = read_json(metrics.parent / DONE)
    words = [f"{done['steps']:,} steps"]
    for name, word in (("train_return", "in training"), ("eval_return", "in evaluation")):
        if name in done:
            words.append(f"return {word} {done[name]['final']:.4g} (best {done[name]['best']:.4g})")
    return ", ".join(words)


def settings_text(config: RunConfig) -> str:
    """Every setting of a run: name, value, meaning, allowed words."""
    from needlab.runs.config import explained

    lines = [f"{config.agent} on {config.world}, preset {config.preset}:"]
    resolved = config.resolved()
    for heading in ("agent", "world", "protocol", "actors"):
        lines += ["", f"{heading}:"]
        for each in explained(getattr(resolved, heading)):
            mark = "*" if each.name in config.overrides else " "
            value = str(each.value).lower() if isinstance(each.value, bool) else each.value
            lines.append(f"{mark} {each.name:<26} {value!s:<12} {each.meaning}")
            if each.choices:
                lines.append(f"{'':<42}({', '.join(each.choices)})")
    return "\n".join([*lines, "", "Change any with --set NAME=VALUE; * marks those changed here."])

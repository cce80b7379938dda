"""``needreplay watch`` and ``gallery``: pages in which tabular agents replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from needlab.cli.arguments import check_least


@dataclass(frozen=True)
class Watch:
    """Write one offline HTML page that shows replay step by step: world, values, need, events.

    For example
      needreplay watch                                    EVB on the linear track
      needreplay watch ps-sr ps --world dyna-maze         with need, and without it
      needreplay watch evb evb,need=one --world open-field
      needreplay watch mine.csv --world maze.txt          your own events in your own maze

    A run is AGENT, AGENT:PRESET, either with settings (evb:text,backups=30), or a CSV table of
    replay events (columns: episode, pause, order, state, action, gain, need, chain_length,
    direction, event; where it has several runs, preset, agent and trial tell them apart). Agents:
    evb, evb-dyna, ps, ps-sr, dyna-q. docs/tutorials/replay.md shows how to make a world and a
    table.
    """

    runs: Annotated[Positional[tuple[str, ...]], arg(name="run", metavar="[RUN ...]")] = ("evb",)
    """Runs to show; two are beside each other, and more can be chosen in the page."""
    world: Annotated[str, arg(metavar="NAME")] = "linear-track"
    """linear-track, open-field, t-maze, shock-track, dyna-maze, cliffwalk, a world as text
    (FILE.txt) or a Gymnasium id with a table (FrozenLake-v1)."""
    episodes: Annotated[int, arg(metavar="N")] = 50
    """Of each agent."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Same seed, same runs."""
    trial: Annotated[int, arg(metavar="K")] = 0
    """Which trial of the seed; in the Dyna maze those of fig2."""
    out: Annotated[Path, arg(metavar="FILE.html")] = Path("replay.html")
    """The page."""

    def run(self, argv: Sequence[str]) -> None:
        """Run the command."""
        import shlex

        from needlab.report.viewer import write_viewer
        from needlab.report.watched import watched_runs, world_named

        check_least(1, episodes=self.episodes)
        check_least(0, seed=self.seed, trial=self.trial)
        world = world_named(self.world)
        logs = [
            log
            for name in dict.fromkeys(self.runs)
            for log in watched_runs(
                name, world, episodes=self.episodes, seed=self.seed, trial=self.trial
            )
        ]
        write_viewer(
            self.out,
            logs,
            title=f"Replay: {', '.join(log.name for log in logs)} in {world.board.name}",
            note=f"Made by: {shlex.join(argv)}",
        )
        backups = sum(len(log.backups) for log in logs)
        print(f"{backups:,} backups, {self.out.stat().st_size / 1e6:.1f} MB -> {self.out}")


@dataclass(frozen=True)
class Gallery:
    """Write one offline HTML page with five moments of replay worth seeing.

    Reverse replay after the first reward, forward replay before a run, what need changes in a maze,
    a shock, and the cliffwalk.
    """

    out: Annotated[Path, arg(metavar="FILE.html")] = Path("gallery.html")
    """The page."""

    def run(self, argv: Sequence[str]) -> None:  # noqa: ARG002
        """Run the command."""
        from needlab.report.gallery import write_gallery

        print(f"The page: {write_gallery(self.out)}")

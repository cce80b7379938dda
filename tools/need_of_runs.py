"""How true need is in the runs of a sweep, from their checkpoints: one row for each run with need.

    python tools/need_of_runs.py results/minatar-need results/need-quality/seeds/minatar-need.csv

Runs with shuffled need are left out: their learner is the same.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from needreplay.core.tables import read_json
from needreplay.deep.quality import NeedQuality
from needreplay.training.evaluation import load_player


def main(sweep: Path, out: Path) -> None:
    """Write the table."""
    rows = []
    for folder in sorted((sweep / "runs").iterdir()):
        config = read_json(folder / "config.json")
        changed = config["overrides"]
        if changed.get("shuffle_need") or not (folder / "done.json").exists():
            continue
        player = load_player(folder, with_buffer=True)
        quality = player.need_quality(player.agent.replay, config["seed"])
        if quality is not None:
            head = [
                config["world"],
                config["agent"],
                changed.get("uniform_mix", ""),
                config["seed"],
            ]
            rows.append([*map(str, head), *(f"{value:.4g}" for value in quality)])
    with out.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("world", "agent", "uniform_mix", "seed", *NeedQuality._fields))
        table.writerows(sorted(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""How true need is in the runs of a sweep, from their checkpoints: one row for each run with need.

    python tools/need_of_runs.py results/minatar-need results/need-quality/seeds/minatar-need.csv

Runs without a checkpoint and runs with shuffled need are left out.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from needreplay.core.tables import read_json
from needreplay.training.evaluation import load_player


def main(sweep: Path, out: Path) -> None:
    """Write the table."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        for folder in sorted((sweep / "runs").iterdir()):
            config = read_json(folder / "config.json")
            shuffled = config["overrides"].get("shuffle_need")
            if shuffled or not (folder / "done.json").exists() or not any(folder.glob("check*")):
                continue
            player = load_player(folder, with_buffer=True)
            quality = player.need_quality(player.agent.replay, config["seed"])
            if quality is None:
                continue
            if file.tell() == 0:
                rows.writerow(("world", "agent", "uniform_mix", "seed", *quality._fields))
            head = [config["world"], config["agent"], config["overrides"].get("uniform_mix", 0.0)]
            rows.writerow([*head, config["seed"], *(f"{value:.4g}" for value in quality)])
            file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

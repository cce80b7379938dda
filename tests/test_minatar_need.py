"""tools/minatar_need.py: its arms, complete rounds, ratios, verdicts, and how accurate need was."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from needreplay.core.tables import Table
from needreplay.report.claims import claim_from
from needreplay.sweeps import load_sweep

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))

import minatar_need  # noqa: E402

HEIGHT = {"uniform replay": 1.0, "PER": 2.0, minatar_need.SCALED: 2.0}


def write_runs(folder: Path, seeds: int, lowest: str = "0.9") -> dict[str, int]:
    """The sweep's own runs with made-up returns; need doubles what shuffled need has.

    Evaluation returns are twice those of training, for PER four times. The AUC of need is 0.9, and
    in one run of gain x need with uniform mixing ``lowest``; its variation ends at 3.
    """
    counts: dict[str, int] = {}
    for spec in load_sweep("minatar-need").runs:
        config = dict(spec.config)
        seed = int(config["seed"])
        if seed >= seeds:
            continue
        arm = minatar_need.arm_of(config)
        counts[arm] = counts.get(arm, 0) + 1
        height = HEIGHT.get(arm, 4.0 if "shuffled" in arm else 8.0)
        run = folder / "runs" / spec.name
        run.mkdir(parents=True)
        (run / "config.json").write_text(json.dumps(config))
        auc = "" if arm in ("uniform replay", "PER") else "0.9"
        if (arm, config["world"], seed) == ("gain x need, .25 uniform", "minatar/breakout", 1):
            auc = lowest
        middle, factor = height + 0.1 * seed, 4.0 if arm == "PER" else 2.0
        rows = [
            f"{middle - 0.5},{factor * middle + 1.0},,1.0",
            f"{middle + 0.5},{factor * middle - 1.0},{auc},3.0",
        ]
        head = "train_return,eval_return,need_auc,need_variation"
        (run / "metrics.csv").write_text("\n".join([head, *rows, ""]))
        (run / "done.json").write_text("{}")
    return counts


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_planned_comparisons(tmp_path: Path) -> None:
    counts = write_runs(tmp_path, seeds=4)
    assert counts == dict.fromkeys(minatar_need.ARMS, 4 * 4)
    # A round that lacks one run does not count.
    last = load_sweep("minatar-need").runs
    cut = next(spec.name for spec in last if spec.config["seed"] == 3)
    (tmp_path / "runs" / cut / "done.json").unlink()
    minatar_need.main(tmp_path)
    shuffled, per, uniform, scaled = read(tmp_path / "tests.csv")
    assert {row["seeds"] for row in (shuffled, per, uniform, scaled)} == {"3"}
    assert float(shuffled["ratio"]) == pytest.approx(8.1 / 4.1)
    assert float(per["ratio"]) == pytest.approx(8.1 / 2.1)
    assert float(uniform["ratio"]) == pytest.approx(8.1 / 1.1)
    assert [row["ahead"] for row in (shuffled, per, uniform)] == ["4", "4", "4"]
    # All runs of one arm above all of the other in four games: p = 2 / 20^4, below what is drawn.
    assert float(shuffled["p"]) < 0.001 < float(scaled["p"])
    assert float(shuffled["p_holm"]) == pytest.approx(4 * float(shuffled["p"]))
    assert float(scaled["p"]) == float(scaled["p_holm"]) == 1.0
    areas = {(row["game"], row["arm"]): row for row in read(tmp_path / "areas.csv")}
    own = areas["minatar/asterix", "gain x need"]
    assert float(own["area"]) == pytest.approx(8.1)
    assert float(own["need_auc_lowest"]) == pytest.approx(0.9)
    assert areas["minatar/asterix", "PER"]["need_auc"] == "nan"
    assert float(own["eval_area"]) == pytest.approx(16.2)
    assert len(read(tmp_path / "data.csv")) == 3 * 4 * len(minatar_need.ARMS)


def test_every_comparison_has_an_interval_for_both_returns(tmp_path: Path) -> None:
    write_runs(tmp_path, seeds=3)
    minatar_need.main(tmp_path)
    rows = {(row["metric"], row["arm"], row["rival"]): row for row in read(tmp_path / "ratios.csv")}
    assert len(rows) == 2 * 9
    planned = {key[1:] for key, row in rows.items() if row["planned"] == "true"}
    assert planned == set(minatar_need.TESTS)
    assert {key[0] for key, row in rows.items() if row["planned"] == "true"} == {"training"}
    # The means of 8, 8.1, 8.2 and of 2, 2.1, 2.2; PER evaluates at twice the others' factor.
    own = rows["training", "gain x need, .25 uniform", "PER"]
    assert float(own["ratio"]) == pytest.approx(8.1 / 2.1)
    other = rows["evaluation", "gain x need, .25 uniform", "PER"]
    assert float(other["ratio"]) == pytest.approx(8.1 / 4.2)
    assert float(rows["evaluation", "PER", "uniform replay"]["ratio"]) == pytest.approx(4.2 / 1.1)
    for row in rows.values():
        assert float(row["low"]) < float(row["ratio"]) < float(row["high"])
    # Every draw of three seeds has a mean from the smallest to the largest.
    assert 8.0 / 2.2 < float(own["low"]) < float(own["high"]) < 8.2 / 2.0


def test_how_many_transitions_a_scaled_update_has_left(tmp_path: Path) -> None:
    """A variation of 3 leaves 32 / (1 + 9) of 32 transitions."""
    write_runs(tmp_path, seeds=2)
    minatar_need.main(tmp_path)
    rows = read(tmp_path / "need.csv")
    assert [float(row["variation"]) for row in rows] == [3.0] * 4
    assert [float(row["effective"]) for row in rows] == pytest.approx([3.2] * 4)


def test_everything_is_written_and_committed(tmp_path: Path) -> None:
    write_runs(tmp_path, seeds=1)
    minatar_need.main(tmp_path)
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {
        "areas.csv", "claims.json", "data.csv", "figure.png", "figure.svg", "meta.json",
        "need.csv", "ratios.csv", "runs", "tests.csv",
    }  # fmt: skip
    assert made <= {path.name for path in (ROOT / "results/minatar-need").iterdir()}
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert meta["command"].endswith(f"tools/minatar_need.py {tmp_path}")
    assert meta["config"]["seeds"] == [0]
    assert (ROOT / meta["documentation"]).exists()


def test_the_old_measure_of_need_concludes_nothing(tmp_path: Path) -> None:
    """These runs measured need by an AUC that recency alone passes."""
    write_runs(tmp_path, seeds=3, lowest="0.99")
    minatar_need.main(tmp_path)
    said = "holds, but whether need was accurate was not measured"
    claims = [claim_from(one) for one in json.loads((tmp_path / "claims.json").read_text())]
    assert [claim.full_verdict for claim in claims[:3]] == [said] * 3
    assert {claim.preset for claim in claims} == {
        run.config["preset"] for run in load_sweep("minatar-need").runs
    }


@pytest.mark.parametrize(
    ("ratio", "p", "verdict"),
    [
        (1.1, 0.016, "holds"),
        (0.9, 0.016, "does not hold"),
        (1.1, 0.017, "undecided"),
    ],
)
def test_three_looks_at_the_data_count(ratio: float, p: float, verdict: str) -> None:
    """3 x 0.016 is below 0.05, 3 x 0.017 is not."""
    row = {"seeds": 3, "games": 4, "ahead": 2, "ratio": ratio, "low": 0.8, "high": 1.2, "p_holm": p}
    row["need_auc_lowest"] = 0.9
    tests = Table({name: [value] for name, value in {"arm": "a", "rival": "b", **row}.items()})
    (claim,) = minatar_need.claims_of(tests)
    assert claim.verdict == verdict


def test_the_figure_has_every_arm_in_every_game(tmp_path: Path) -> None:
    write_runs(tmp_path, seeds=3)
    panels = minatar_need.draw(minatar_need.read(tmp_path)).axes
    assert [panel.get_title(loc="left") for panel in panels] == [
        "asterix", "breakout", "space invaders", "seaquest",
    ]  # fmt: skip
    heights = [HEIGHT.get(arm, 4.0 if "shuffled" in arm else 8.0) for arm in minatar_need.ARMS]
    for panel in panels:
        means = [
            np.asarray(line.get_xdata())[0] for line in panel.lines if line.get_marker() == "o"
        ]
        assert means == pytest.approx([height + 0.1 for height in heights])


def test_the_committed_tables_are_those_of_the_committed_runs(tmp_path: Path) -> None:
    committed = ROOT / "results/minatar-need"
    folder = tmp_path / "minatar-need"
    shutil.copytree(committed, folder)
    minatar_need.main(folder)
    assert (folder / "claims.json").read_text() == (committed / "claims.json").read_text()
    for name in ("data.csv", "tests.csv", "areas.csv", "ratios.csv", "need.csv"):
        for made, kept in zip(read(folder / name), read(committed / name), strict=True):
            for column, text in kept.items():
                try:
                    assert float(made[column]) == pytest.approx(float(text), nan_ok=True), column
                except ValueError:
                    assert made[column] == text


def test_no_complete_round(tmp_path: Path) -> None:
    """A round is one of all four games, also if no run of one of them has begun."""
    write_runs(tmp_path, seeds=2)
    for spec in load_sweep("minatar-need").runs:
        if spec.config["world"] == "minatar/seaquest" and int(spec.config["seed"]) < 2:
            shutil.rmtree(tmp_path / "runs" / spec.name)
    with pytest.raises(SystemExit, match="no complete round"):
        minatar_need.main(tmp_path)

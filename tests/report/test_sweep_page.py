"""The page of a sweep: read from folders that may come from anybody, tried in a real browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.core.tables import read_table
from needlab.report.comparison import agent_labels, cells_of, normalized
from needlab.report.series import EPISODE_STEPS, RETURN, Series, Trial
from needlab.report.sweep_folder import read_sweep
from needlab.report.sweep_page import write_sweep_page
from needreplay._core.errors import NeedReplayError

NASTY = "<script>alert(1)</script> $\\frac{1$"


def write_run(sweep: Path, name: str, metrics: str | None, **config: Any) -> Path:
    folder = sweep / "runs" / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"kind": "deep", **config}))
    (folder / "command.txt").write_text(f"needreplay train {name}\n")
    if metrics is not None:
        (folder / "metrics.csv").write_text(metrics)
        (folder / "done.json").write_text("{}")
    return folder


def curve(*returns: float) -> str:
    rows = "".join(f"{i},{1000 * i + i % 3},{y}\n" for i, y in enumerate(returns, start=1))
    return "iteration,steps,eval_return\n" + rows


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Two agents, two worlds, three seeds."""
    for agent, height in (("per", 1.0), ("per-sr", 2.0)):
        for world in ("minatar/breakout", "minatar/asterix"):
            for seed in range(3):
                ys = [height * i + seed for i in range(10)]
                name = f"{agent}-{world[8:]}-{seed}"
                write_run(tmp_path, name, curve(*ys), world=world, agent=agent, seed=seed)
    (tmp_path / "sweep.json").write_text(json.dumps({"name": "small", "about": "Two agents."}))
    return tmp_path


def test_best_final_and_area_by_hand() -> None:
    y = np.array([[0.0, 2.0, 4.0, 4.0, 2.0]])
    up = Series("a", RETURN, (Trial(0),), np.array([0.0, 1, 2, 3, 4]), y)
    # Trapezoids 1 + 3 + 4 + 3 over a width of 4.
    assert up.scores() == {"best": [4.0], "final": [2.0], "area": [11 / 4]}
    twenty = Series("a", EPISODE_STEPS, (Trial(0),), np.arange(20.0), np.arange(20.0)[np.newaxis])
    assert twenty.scores()["final"] == [18.5], "the mean of the last tenth"
    assert twenty.scores()["best"] == [0.0], "fewer steps are better"


def test_runs_are_put_together_by_agent_and_task(sweep: Path) -> None:
    runs = read_sweep(sweep).runs
    cells, _ = cells_of(runs, agent_labels(runs))
    assert len(cells) == 4
    breakout = next(c for c in cells if c.task == "minatar/breakout" and c.agent == "per-sr")
    assert breakout.trials == (Trial(0), Trial(1), Trial(2))
    assert breakout.scores["best"].tolist() == [18.0, 19.0, 20.0]
    shared = normalized(cells)
    assert shared.tasks == ("minatar/asterix", "minatar/breakout")
    # The range of best is 9 (per, seed 0) to 20 (per-sr, seed 2).
    assert shared.scores["best"]["per"][0] == pytest.approx([0.0, 1 / 11, 2 / 11])


def test_a_task_that_an_agent_lacks_is_named(sweep: Path) -> None:
    write_run(sweep, "more", curve(1.0, 2.0), world="minatar/freeway", agent="per", seed=0)
    write_sweep_page(sweep)
    assert "minatar/freeway.</p>" in (sweep / "report.html").read_text()


def test_atari_is_normalized_by_human_scores(tmp_path: Path) -> None:
    for game, score in (("Pong", 14.6), ("Pooyan", 100.0)):
        write_run(tmp_path, game, curve(score), world=f"atari/{game}", agent="per", seed=0)
    runs = read_sweep(tmp_path).runs
    shared = normalized(cells_of(runs, agent_labels(runs))[0])
    assert shared.how == "human-normalized"
    assert shared.scores["final"]["per"][0] == pytest.approx([1.0])
    assert shared.left_out == ("atari/Pooyan",)


def test_what_differs_names_an_agent(sweep: Path) -> None:
    write_run(
        sweep, "raw", curve(1.0), world="minatar/breakout", agent="per-sr", seed=0,
        overrides={"scale": "raw"},
    )  # fmt: skip
    labels = agent_labels(read_sweep(sweep).runs)
    assert labels["raw"] == "per-sr scale=raw"
    assert labels["per-sr-breakout-0"] == "per-sr"


def test_the_page_and_its_numbers(sweep: Path) -> None:
    page = write_sweep_page(sweep).read_text()
    assert "http" not in page.replace("http://www.w3.org", ""), "nothing is fetched"
    assert page.count("data:image/svg+xml") == 3
    assert "needreplay train per-breakout-0" in page
    aggregates = read_table(sweep / "report" / "aggregates.csv")
    assert set(aggregates["score"]) == {"best", "final", "area"}
    assert set(aggregates["aggregate"]) == {
        "interquartile mean", "median", "mean", "optimality gap",
    }  # fmt: skip
    improvement = read_table(sweep / "report" / "improvement.csv")
    assert improvement["estimate"].tolist() == [0.0, 0.0, 0.0], "per-sr beats per in every run"
    assert len(read_table(sweep / "report" / "scores.csv")) == 12
    again = {p.name: p.read_bytes() for p in (sweep / "report").iterdir()}
    write_sweep_page(sweep)
    assert again == {p.name: p.read_bytes() for p in (sweep / "report").iterdir()}


def test_trials_are_compared_seed_by_seed(tmp_path: Path) -> None:
    for agent, more in (("ps", 3), ("ps-sr", 0)):
        for first in (0, 10):
            rows = [
                f"{trial},{episode},{20 - episode + more + trial % 4}"
                for trial in range(first, first + 10)
                for episode in range(5)
            ]
            metrics = "\n".join(["trial,episode,steps", *rows]) + "\n"
            write_run(
                tmp_path, f"{agent}-{first}", metrics, kind="maze", world="dyna-maze", agent=agent,
                first_trial=first,
            )  # fmt: skip
    write_sweep_page(tmp_path)
    paired = read_table(tmp_path / "report" / "paired.csv")
    assert paired["pairs"].tolist() == [20, 20, 20]
    assert paired["difference"].tolist() == pytest.approx([3.0] * 3)
    assert (paired["p_holm"] < 0.001).all()


def test_names_from_users_are_escaped(sweep: Path) -> None:
    run = write_run(sweep, "nasty", curve(1.0, 2.0), world=NASTY, agent=NASTY, seed=0)
    (run / "command.txt").write_text(NASTY)
    failed = write_run(sweep, "failed", None, world=NASTY, agent=NASTY, seed=1)
    (failed / "failed.json").write_text(json.dumps({"lines": [NASTY]}))
    (sweep / "sweep.json").write_text(json.dumps({"name": NASTY, "about": NASTY}))
    page = write_sweep_page(sweep).read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 6


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t=", "\r=", " ="])
def test_no_cell_of_a_report_is_a_formula(sweep: Path, begin: str) -> None:
    nasty = f'{begin}HYPERLINK("file:///etc/passwd")'
    run = write_run(sweep, f"{begin}run", curve(1.0, 2.0), world=nasty, agent=nasty, seed=nasty)
    (run / "command.txt").write_bytes(f"{nasty}\n".encode())
    write_sweep_page(sweep)
    found = 0
    for path in (sweep / "report").glob("*.csv"):
        table = read_table(path)
        for name in table.names:
            if table[name].dtype.kind == "U":
                cells = table[name].tolist()
                assert not re.search(r"(^|[\r\n])\s*[=+@-]", "\n".join(cells)), (path.name, name)
                found += sum("HYPERLINK" in cell for cell in cells)
    assert found > 3


def test_a_long_page_lists_its_sections(sweep: Path) -> None:
    for number in range(30):
        world = f"minatar/own-{number}"
        write_run(sweep, f"more-{number}", curve(1.0, 2.0), world=world, agent="per", seed=0)
    text = write_sweep_page(sweep).read_text()
    addresses = re.findall(r'<li><a href="#([^"]+)">', text)
    assert len(addresses) > 5
    for name in addresses:
        assert text.count(f'<section id="{name}">') == 1
    alone = sweep / "alone"
    write_run(alone, "one", curve(1.0, 2.0), world="w", agent="per", seed=0)
    assert 'class="contents' not in write_sweep_page(alone).read_text()


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("iteration,steps,eval_return\n1,2", "Row 2"),
        ("steps,eval_return\n1,x\n", "no number"),
        ("", "is empty"),
        ("steps,eval_return\n", "no rows"),
        ("a,b\n1,2\n", "no known meaning"),
        ("steps,eval_return\n2,1\n1,1\n", "do not grow"),
        ("trial,episode,steps\n0,0,1\n0,1,1\n1,0,3\n", "unequal length"),
        ("steps,eval_return\n\x00\xff,1\n", ""),
    ],
)
def test_a_corrupted_metrics_file_is_named(tmp_path: Path, metrics: str, said: str) -> None:
    write_run(tmp_path, "broken", metrics, world="minatar/breakout", agent="per", seed=9)
    results = read_sweep(tmp_path)
    assert results.runs[0].state == "damaged"
    assert results.runs[0].series == []
    assert any("broken: " in line and said in line for line in results.problems)


def test_the_quality_of_need_is_on_the_page(sweep: Path) -> None:
    assert "How accurate need was" not in write_sweep_page(sweep).read_text()
    names = "need_auc,need_auc_baseline,need_auc_past,need_auc_time,need_variation"
    names += ",need_effective,need_nearness"
    metrics = f"steps,eval_return,{names}\n1,2,.91,.66,.82,.83,3.5,1234,.25\n2,3,,,,,3.25,,\n"
    write_run(sweep, "needed", metrics, world="minatar/asterix", agent="per-sr", seed=9)
    page = write_sweep_page(sweep).read_text()
    shown = page[page.index("How accurate need was") :]
    for number in ("0.91", "0.66", "0.82", "0.83", "3.25", "1,234", "0.25"):
        assert f">{number}<" in shown
    assert names in (sweep / "report" / "runs.csv").read_text()
    assert "concluded" not in page


@pytest.mark.parametrize(("auc", "baseline"), [("0.79", "0.50"), ("0.90", "0.85")])
def test_a_need_that_is_not_accurate_is_named_before_the_results(
    sweep: Path, auc: str, baseline: str
) -> None:
    metrics = f"steps,eval_return,need_auc,need_auc_baseline\n1,2,.9,.5\n2,3,{auc},{baseline}\n"
    write_run(sweep, "needed", metrics, world="minatar/asterix", agent="per-sr", seed=9)
    page = write_sweep_page(sweep).read_text()
    said = page.index(
        f"On minatar/asterix the need of per-sr was not accurate (AUC {auc}, trivial scores "
        f"{baseline}, means of 1 run)"
    )
    assert said < page.index("Learning curves")


def test_a_need_that_was_not_measured_is_said_too(sweep: Path) -> None:
    for seed in (8, 9):
        metrics = "steps,eval_return,need_variation,need_auc\n1,2,.3,\n"
        write_run(sweep, f"n{seed}", metrics, world="minatar/asterix", agent="per-sr", seed=seed)
    page = write_sweep_page(sweep).read_text()
    assert page.count("nothing can be concluded about it.") == 1
    said = "On minatar/asterix whether the need of per-sr was accurate was not measured; nothing"
    assert page.index(said) < page.index("Learning curves")


def test_runs_without_an_auc_do_not_hide_those_with_a_low_one(sweep: Path) -> None:
    for seed, auc in ((7, ".3"), (8, ""), (9, ".4")):
        metrics = "steps,eval_return,need_variation,need_auc,need_auc_baseline\n"
        metrics += f"1,2,.3,{auc},.5\n"
        write_run(sweep, f"n{seed}", metrics, world="minatar/asterix", agent="per-sr", seed=seed)
    page = write_sweep_page(sweep).read_text()
    assert "was not accurate (AUC 0.35, trivial scores 0.50, means of 2 runs); nothing" in page


def test_a_corrupted_metrics_file_is_left_out(sweep: Path) -> None:
    assert "What is damaged or left out" not in write_sweep_page(sweep).read_text()
    before = (sweep / "report" / "scores.csv").read_bytes()
    write_run(sweep, "broken", "steps,eval_return\n1,x\n", world="minatar/asterix", agent="per")
    page = write_sweep_page(sweep).read_text()
    assert "broken: metrics.csv has a cell that is no number" in page
    assert "It is left out." in page
    assert (sweep / "report" / "scores.csv").read_bytes() == before


def test_other_damage_is_named_too(sweep: Path) -> None:
    (sweep / "sweep.json").write_text("{")
    (write_run(sweep, "bad", None) / "config.json").write_text("[1]")
    missing = write_run(sweep, "missing", curve(1.0), world="a", agent="b")
    (missing / "metrics.csv").unlink()
    linked = write_run(sweep, "linked", None, world="a", agent="b")
    (linked / "done.json").write_text("{}")
    (linked / "metrics.csv").symlink_to("/etc/passwd")
    page = write_sweep_page(sweep).read_text()
    for said in ("sweep.json", "bad: config.json", "missing: metrics.csv", "linked: metrics.csv"):
        assert said in page
    assert "root:" not in page


def test_a_sweep_without_complete_runs(tmp_path: Path) -> None:
    with pytest.raises(NeedReplayError, match="not the folder of a sweep"):
        write_sweep_page(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(NeedReplayError, match="no run"):
        write_sweep_page(tmp_path)
    write_run(tmp_path, "a", None, world="w", agent="per")
    assert "No run is complete yet" in write_sweep_page(tmp_path).read_text()


def test_a_real_browser_shows_the_page(sweep: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        if os.environ.get("NEEDREPLAY_CI"):
            pytest.fail("CI must have chromium (apt-get install chromium)")
        pytest.skip("there is no chromium here (Debian: apt-get install chromium)")
    page = write_sweep_page(sweep)
    profile = tmp_path / "profile"
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ]  # fmt: skip
    done = subprocess.run(
        [
            browser, *flags, f"--user-data-dir={profile}", "--virtual-time-budget=5000",
            "--window-size=1000,1400", f"--screenshot={tmp_path / 'page.png'}", "--dump-dom",
            page.resolve().as_uri(),
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0
    assert "Performance profiles</h2>" in done.stdout
    from matplotlib.image import imread

    shot = imread(tmp_path / "page.png")
    assert shot.shape[:2] == (1400, 1000)
    colors = np.unique(shot[:, :, :3].reshape(-1, 3).round(2), axis=0)
    assert len(colors) > 50, "the figures are drawn"


def test_numbers_beyond_measure_are_left_out_by_name(sweep: Path) -> None:
    slow = write_run(sweep, "slow", curve(1.0), world="minatar/asterix", agent="per", seed=7)
    (slow / "progress.json").write_text(f'{{"seconds": {"9" * 400}}}')
    write_run(sweep, "huge", curve(1.0), world="minatar/asterix", agent="per", seed=10**40)
    write_run(sweep, "word", curve(1.0), world="minatar/asterix", agent="per", seed="x")
    page = write_sweep_page(sweep).read_text()
    assert "huge: config.json has a seed that is not an integer" in page
    assert "word: config.json has a seed that is not an integer" in page
    scores = read_table(sweep / "report" / "scores.csv")
    assert set(scores["seed"].tolist()) == {0, 1, 2, 7}


def test_text_that_is_no_text_is_replaced(sweep: Path) -> None:
    folder = write_run(sweep, "lone", curve(1.0), world="x", agent="per", seed=7)
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"x"', '"\\ud800"'))
    write_sweep_page(sweep)
    assert "?" in read_table(sweep / "report" / "scores.csv")["task"].tolist()
    folder.rename(folder.parent / os.fsdecode(b"no\xfftext"))
    write_sweep_page(sweep)
    assert r"no\udcfftext" in read_table(sweep / "report" / "runs.csv")["run"].tolist()


def test_a_report_that_leads_elsewhere_raises(sweep: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (sweep / "report").symlink_to(elsewhere)
    with pytest.raises(NeedReplayError, match="is a link to another place; remove it"):
        write_sweep_page(sweep)
    assert not list(elsewhere.iterdir())
    assert not (sweep / "report.html").exists()

"""``needreplay fit``: two tables in, a page and numbers out."""

from __future__ import annotations

from pathlib import Path

import pytest

from needlab.cli import main
from needlab.tabular.fit import data_of, write_data
from needlab.tabular.rivals import simulate_model
from needlab.worlds import tabular_world

MAZE = "S......G"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    world = tabular_world(MAZE)
    found = simulate_model("recency", world, episodes=6)
    names = [str(tmp_path / name) for name in ("events.csv", "steps.csv", "maze.txt")]
    write_data(data_of(found, world), *names[:2])
    Path(names[2]).write_text(MAZE)
    return ["fit", names[0], "--steps", names[1], "--world", names[2]]


def test_models_are_compared_on_a_page(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "fit.html"
    models = ["--model", "recency,lapse=0.01", "--model", "uniform", "--folds", "2"]
    assert main([*files, *models, "--intervals", "none", "--out", str(page)]) == 0
    printed = capsys.readouterr().out
    rows = [line.split()[0] for line in printed.partition("held out")[2].splitlines()[1:3]]
    assert rows == ["recency,lapse=0.01", "uniform"]
    html = page.read_text()
    assert "Best: <b>recency,lapse=0.01</b>" in html
    assert "<code>stay</code>" in html
    assert "a baseline of ours" in html
    assert "http" not in html.replace("http://www.w3.org", "")


def test_a_maze_whose_rewards_change(files: list[str], tmp_path: Path) -> None:
    """The rewards that count are those of the table of steps."""
    Path(files[-1]).write_text(f"{MAZE}\n\nG: 1\nG from episode 3: 0")
    page = str(tmp_path / "fit.html")
    assert main([*files, "--model", "uniform", "--intervals", "none", "--out", page]) == 0


def test_a_page_of_one_model_has_its_intervals(files: list[str], tmp_path: Path) -> None:
    page = tmp_path / "fit.html"
    chosen = ["--model", "recency", "--free", "stay", "--out", str(page)]
    assert main([*files, *chosen]) == 0
    html = page.read_text()
    assert " to " in html.partition("<code>stay</code>")[2].partition("</tr>")[0]
    assert "Comparison" not in html


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "evbb"], "There is no model 'evbb'"),
        (["--model", "evb", "--model", "sfma", "--free", "lapse"], "--free is for one --model"),
        (["--folds", "1"], "--folds must be at least 2"),
        (["--world", "S.G"], "in this world"),
        (["--steps", "nothing.csv"], "cannot be read"),
    ],
)
def test_bad_commands(
    files: list[str], words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*files, *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") <= 2

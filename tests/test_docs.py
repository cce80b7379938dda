"""Code in the README and the docs runs and prints what it should; speeds are the measured ones."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from needlab.report.statistics import Interval

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tools"))

from tables import BLOCK, PAGES, between, span, two_digits, written  # noqa: E402
from tutorials import FOLDER, parts_of  # noqa: E402


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)


def printed(code: str, folder: Path) -> list[str]:
    """What ``code`` prints when it runs as a program in an empty folder."""
    program = folder / "program.py"
    program.write_text(code)
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, str(program)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_lines_for_neuroscientists_print_what_they_should(tmp_path: Path) -> None:
    page = (ROOT / "docs/for_neuroscientists.md").read_text(encoding="utf-8")
    (code,), (shown,) = (
        blocks("docs/for_neuroscientists.md"),
        re.findall(r"```text\n(.*?)```", page, re.S),
    )
    assert printed(code, tmp_path) == shown.splitlines()


def test_a_maze_whose_rewards_change_gives_a_table(tmp_path: Path) -> None:
    (code,) = blocks("docs/own_replay_data.md")
    (line,) = printed(code, tmp_path)
    # At most 20 backups at the start and at the end of 50 episodes.
    assert 1_000 < int(line.split()[0]) <= 2 * 50 * 20


@pytest.mark.parametrize("name", PAGES)
def test_speeds_are_those_of_the_results(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    assert BLOCK.search(page)
    assert written(page) == page, "make tables writes them"


@pytest.mark.parametrize(
    "name", ["docs/should_i_use_need.md", "docs/minatar_need.md", "docs/sb3_results.md"]
)
def test_intervals_in_sentences_are_those_of_the_tables(name: str) -> None:
    """An answer and its table must not drift apart: ratios and differences with an interval."""
    pattern = re.compile(r"([+-]?\d+\.\d+)\s+\[([+-]?[\d.]+),?\s+([+-]?[\d.]+)\]")
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    made = {
        tuple(f"{float(number):.{digits}f}" for number in found)
        for page in pages
        for block in BLOCK.finditer(page)
        for found in pattern.findall(block[0])
        for digits in (1, 2, 3)
    }
    prose = BLOCK.sub("", (ROOT / name).read_text(encoding="utf-8"))
    typed = [tuple(number.replace("+", "") for number in one) for one in pattern.findall(prose)]
    assert typed
    assert [one for one in typed if one not in made] == []


def test_how_numbers_are_written() -> None:
    shown = [two_digits(value) for value in (0.00417, 0.0402, 0.1039, 2.128, 29.78, 424.8)]
    assert shown == ["0.0042", "0.040", "0.10", "2.13", "29.8", "425"]
    assert between(Interval(-0.0001, -0.079, 0.0791), "+.3f") == "0.000 [-0.079, +0.079]"
    assert span(["0.34", "0.37", "0.55"]) == "0.34 to 0.55"
    assert span(["0.94", "0.94"]) == "0.94"


def test_the_readmes_buffer_saves_a_file(tmp_path: Path) -> None:
    code, *_ = blocks("README.md")
    printed(code + "\nprint(len(buffer), buffer.sampler.alpha)\n", tmp_path)
    assert (tmp_path / "buffer.bin").stat().st_size > 100_000


def test_the_readmes_agent_finds_a_short_path(tmp_path: Path) -> None:
    *_, code = blocks("README.md")
    steps = [int(number) for number in re.findall(r"\d+", printed(code, tmp_path)[0])]
    assert len(steps) == 5
    assert 14 <= min(steps) <= 15


def test_successor_features_on_the_page_know_a_goal_that_moved(tmp_path: Path) -> None:
    (code,) = blocks("docs/gain_and_need.md")
    lines = printed(code, tmp_path)
    assert [line.split(": ")[1] for line in lines] == [
        "the largest value is in row 1, column 8",
        "the largest value is in row 5, column 0",
    ]


def test_the_linear_agent_on_the_page_learns_mountain_car(tmp_path: Path) -> None:
    (code,) = blocks("docs/linear.md")
    (line,) = printed(code, tmp_path)
    first, *last = [int(number) for number in re.findall(r"\d+", line)]
    assert first > 500
    assert max(last) < first


def test_the_readmes_model_learns_by_priority(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    _, code, _ = blocks("README.md")
    (line,) = printed(code + "\nprint(model.replay_buffer.buffer.sampler.name)\n", tmp_path)
    assert line == "proportional"


def test_how_to_use_it_with_others(tmp_path: Path) -> None:
    """One process for all blocks, which have no name in common; importing torch takes longest."""
    pytest.importorskip("stable_baselines3")
    programs = blocks("docs/use_it_with.md")
    run = f"for code in {programs!r}: exec(code, {{'__name__': '__main__'}}), print('end')"
    lines = printed(run, tmp_path)
    last = [lines[at - 1] for at, line in enumerate(lines) if line == "end"]
    for line, start in zip(last, ["AUC ", "<ReplayBuffer: 1000 of", "torch.Size"], strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize(("place", "low", "high"), [(0, 0.62, 0.67), (1, 5.0, 8.0), (3, 0.5, 1.0)])
def test_a_recipe_prints_a_number(place: int, low: float, high: float, tmp_path: Path) -> None:
    (line,) = printed(blocks("docs/architecture.md")[place], tmp_path)
    assert low <= float(line) <= high


def test_the_recipe_for_a_study_makes_a_table(tmp_path: Path) -> None:
    lines = printed(blocks("docs/architecture.md")[2], tmp_path)
    assert "ps-sr" in "\n".join(lines)


def test_the_diagnosis_of_the_page_prints_two_sentences(tmp_path: Path) -> None:
    (code,) = blocks("docs/diagnose.md")
    (line,) = printed(code, tmp_path)
    assert re.match(r"Of the change that one update makes, \d+% falls within 2 steps of", line)


SMALL = "--steps 120 --set min_history=60 --set capacity=300 --set batch_size=8 --set features=8"
SMALL += " --set iteration_steps=60 --set eval_steps=20"
TRAIN = "needreplay train --world minatar/breakout --agent per --steps 200000"
FIG2 = "needreplay reproduce fig2 --preset printed --trials 50"
RUN = {
    "make help": "",
    "needreplay train --world CartPole-v1 --settings": "",
    f"{TRAIN} --out runs/a": SMALL,
    "needreplay train --world minatar/breakout --agent per-sr-sampling --steps 200000 "
    "--out runs/need": SMALL,
    "needreplay eval runs/a --episodes 30": "--episodes 2",
    "needreplay eval runs/a --watch page.html": "",
    "needreplay diagnose runs/a --page diagnosis.html": "--updates 16 --queries 2",
    "needreplay report results/minatar-small": "",
    f"{FIG2} --out my-results": "--trials 4",
    f"{FIG2} --seed 1 --workers 2 --out DIR": "--trials 4",
    "needreplay reproduce fig2 --trials 50 --out my-results": "--trials 4 --out more-results",
    "needreplay watch ps-sr ps --world dyna-maze": "--episodes 2",
    "needreplay watch ps-sr ps --world dyna-maze --episodes 5": "",
}
"""Commands that a test runs, in this order, and what makes them shorter."""
SAME = {
    "needreplay report runs/small",
    "needreplay report sweeps/small",
}
"""Commands of RUN for another folder."""


def test_every_command_runs_here_or_says_when_it_last_ran() -> None:
    page = (ROOT / "docs/reference/long_commands.md").read_text(encoding="utf-8")
    long = re.findall(r"^\| `(.*?)` \| (.*?) \|", page, re.M)
    assert all(re.match(r"\d{4}-\d\d-\d\d", when) for _, when in long)
    tutorials = {
        part.source
        for program in FOLDER.glob("*.py")
        for part in parts_of(program.read_text(encoding="utf-8"))
        if part.kind == "command"
    }
    known = {*RUN, *SAME, *tutorials, *(command for command, _ in long)}
    assert [command for command in commands() if command not in known] == []
    assert sorted(known - tutorials - set(commands())) == [], "no page has these any more"


def test_the_quick_commands_of_the_docs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("minatar")
    from needlab.cli import main

    shutil.copytree(ROOT / "results/minatar-small", tmp_path / "results/minatar-small")
    shutil.copy(ROOT / "Makefile", tmp_path)
    monkeypatch.chdir(tmp_path)
    for command, shorter in RUN.items():
        words = shlex.split(f"{command} {shorter}")
        code = subprocess.run(words).returncode if words[0] == "make" else main(words[1:])
        captured = capfd.readouterr()
        assert code == 0, f"{command}: {captured.err}"
    for made in (
        "page.html",
        "replay.html",
        "more-results/report.html",
        "runs/a/done.json",
    ):
        assert (tmp_path / made).stat().st_size > 100, made


def commands() -> list[str]:
    """The lines of code blocks of the README and the docs that are commands."""
    found = []
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        text = re.sub(
            r"^```text\n.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S
        )
        lines = re.findall(r"^ {4}((?:needreplay|make|pip|(?:\S*/)?python) .*)", text, re.M)
        found += [re.split(r"\s+#", line)[0] for line in lines]
    return sorted(set(found))


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("needreplay ")])
def test_a_command_of_the_docs_is_understood(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every option of it exists; what it then does is tested elsewhere."""
    import needlab.cli as cli

    asked = []
    for file in (ROOT / "src/needlab/cli").glob("[a-z]*.py"):
        for kind in vars(import_module(f"needlab.cli.{file.stem}")).values():
            if isinstance(kind, type) and hasattr(kind, "run"):
                monkeypatch.setattr(kind, "run", lambda self, _: asked.append(self))
    assert cli.main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    assert asked or command.endswith(("--version", "--help"))


@pytest.mark.parametrize("command", [c for c in commands() if not c.startswith("needreplay ")])
def test_targets_and_files_of_the_docs_exist(command: str) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    if command.startswith("make "):
        named = [word for word in command.split()[1:] if "=" not in word]
        assert named[0] in {*targets, "..."}, command
    else:
        files = [word for word in command.split() if word.endswith(".py")]
        assert all((ROOT / file).exists() for file in files), command


def test_source_files_that_texts_name_exist() -> None:
    """No text names a file that was renamed or removed, but for commands at an earlier commit."""
    earlier = re.compile(r"```text\ngit checkout .*?```", re.S)
    pattern = re.compile(r"(?<![\w./-])(?:\w+/)+\w+\.(?:py|c)\b")
    roots = [ROOT, ROOT / "src", ROOT / "src/needreplay", ROOT / "src/needlab", ROOT / "docs"]
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "results/README.md"]
    missing = []
    for file in (*pages, *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.[pc]*")):
        if file.suffix not in (".md", ".py", ".c"):
            continue
        places = [*roots, file.parent]
        missing += [
            f"{file.relative_to(ROOT)}: {name}"
            for name in pattern.findall(earlier.sub("", file.read_text(encoding="utf-8")))
            if not any((place / name).exists() for place in places)
        ]
    assert missing == []


def test_every_folder_of_results_says_how_it_was_made() -> None:
    text = (ROOT / "results/README.md").read_text(encoding="utf-8")
    folders = {path.name for path in (ROOT / "results").iterdir() if path.is_dir()}
    rows = {
        name for cell in re.findall(r"^\| ([\w, -]+) \|", text, re.M) for name in cell.split(", ")
    }
    assert folders <= rows


def test_a_need_model_beside_a_learner_prints_its_quality(tmp_path: Path) -> None:
    (code,) = blocks("docs/need.md")
    (line,) = printed(code, tmp_path)
    assert re.match(r"AUC [01]\.\d\d for the next 10 states", line)

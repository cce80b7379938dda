"""The tutorials run, and their pages show their code and what it prints."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))

from tutorials import FOLDER, NAMES, parts_of, run  # noqa: E402

NEEDS = {"cluster": "ray", "dqn": "torch", "sb3": "stable_baselines3", "sweep": "ray"}
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*")


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.md")))
def test_the_page_shows_the_program_and_what_it_printed(name: str) -> None:
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    parts = parts_of((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    place = 0
    for part in parts:
        source = part.source
        if part.kind == "command":
            source = "\n".join(f"    {line}" for line in source.splitlines())
        assert source in page[place:], f"make tutorials; {name}.md lacks:\n{source}"
        place = page.index(source, place) + len(source)
    assert "```text" in page
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", page):
        assert (FOLDER / picture).stat().st_size > 1_000


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.ray if NEEDS.get(name) == "ray" else ())
        for name in NAMES
    ],
)
def test_a_tutorial_runs(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    program = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    parts = parts_of(program)
    run(parts, name, tmp_path)
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    shown = re.findall(r"```text\n(.*?)\n```", page, re.S)
    printed = [part.printed.rstrip() for part in parts if part.printed]
    assert len(shown) == len(printed)
    for old, new in zip(shown, printed, strict=True):
        assert NUMBER.sub("N", old) == NUMBER.sub("N", new), f"make tutorials; {name}.md is stale"
        assert numbers_of(new) == pytest.approx(numbers_of(old), abs=0.101 if name in NEEDS else 0)


EXECUTE = """
import sys, nbformat, nbclient
notebook = nbformat.read(sys.argv[1], as_version=4)
here = {"metadata": {"path": "."}}
nbclient.NotebookClient(notebook, kernel_name="python3", timeout=300, resources=here).execute()
nbformat.write(notebook, "done.ipynb")
"""


def test_the_notebook_runs_and_shows_what_it_should(tmp_path: Path) -> None:
    for needed in ("nbclient", "ipykernel", "pynapple", "pandas"):
        pytest.importorskip(needed)
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(FOLDER / "notebook.ipynb")],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    cells = json.loads((tmp_path / "done.ipynb").read_text(encoding="utf-8"))["cells"]
    # A cell may also say that kernels are compiled.
    maze, viewer, table, counts, picture, intervals, decoded, own = (
        next(output["data"] for output in cell["outputs"] if "data" in output)
        for cell in cells
        if cell["cell_type"] == "code"
    )
    assert maze["text/html"] == ["<pre>S...#..A\n", "..#.&gt;..#\n", "S.#.#..B</pre>"]
    for frame in (viewer, own):
        assert "".join(frame["text/html"]).startswith("<iframe srcdoc=")
    assert "<th>agent_state</th>" in "".join(table["text/html"])
    assert "forward" in "".join(counts["text/plain"])
    assert picture["image/png"]
    assert re.findall("forward|reverse", "".join(intervals["text/plain"])) == ["forward", "reverse"]
    assert "<td>16</td>" in "".join(decoded["text/html"])


def numbers_of(text: str) -> list[float]:
    """The numbers in what a tutorial prints, but for a time, which no two runs share."""
    text = re.sub(r"About \d+ s", "", text)
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]

"""Versions agree, and the workflows are well formed and run targets that exist."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import needreplay

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def read_yaml(path: Path) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_one_version() -> None:
    assert read_yaml(ROOT / "CITATION.cff")["version"] == needreplay.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changelog, re.M)
    assert newest is not None
    assert newest[1] == needreplay.__version__


def test_a_tag_of_this_commit_is_its_version() -> None:
    """The workflow that builds wheels for a tag compares the same line."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    command = ["git", "tag", "--points-at", "HEAD", "--list", "v*"]
    tags = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(tags.split()) <= {f"v{needreplay.__version__}"}
    line = f'__version__ = "{needreplay.__version__}"'
    assert line in (ROOT / "src/needreplay/_version.py").read_text("utf-8").splitlines()
    assert '__version__ = \\"${GITHUB_REF_NAME#v}' in (
        ROOT / ".github/workflows/wheels.yml"
    ).read_text("utf-8")


@pytest.mark.parametrize("package", ["needreplay", "needlab"])
def test_no_layer_names_a_module_of_a_higher_one(package: str) -> None:
    """import-linter sees imports alone; a name in a text could be imported later."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (
        each
        for each in project["tool"]["importlinter"]["contracts"]
        if each["type"] == "layers" and each["containers"] == [package]
    )
    layers = contract["layers"]
    height = {name: -place for place, layer in enumerate(layers) for name in layer.split(" | ")}
    upwards = []
    for file in (ROOT / "src" / package).glob("*/**/*.py"):
        own = file.relative_to(ROOT / "src" / package).parts[0]
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            found = re.fullmatch(r"(needreplay|needlab)\.(\w+)[\w.:]*", node.value)
            if found is None or file.stem == "jit":
                continue
            above = package == "needreplay" and found[1] == "needlab"
            if above or (found[1] == package and height.get(found[2], -99) > height[own]):
                upwards.append(f"{file.relative_to(ROOT)}: {found[0]}")
    assert upwards == []


@pytest.mark.parametrize(
    ("schema", "files"),
    [("citation-file-format", [ROOT / "CITATION.cff"]), ("github-workflows", WORKFLOWS)],
)
def test_the_citation_and_the_workflows_fit_their_schemas(schema: str, files: list[Path]) -> None:
    pytest.importorskip("check_jsonschema")
    words = ["-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, files)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_workflows_cover_lint_tests_wheels_and_docs() -> None:
    assert {path.stem for path in WORKFLOWS} == {"docs", "test", "wheels"}
    test = read_yaml(ROOT / ".github/workflows/test.yml")["jobs"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert test["test"]["strategy"]["matrix"]["python"] == named


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_targets_and_files_that_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for job in read_yaml(path)["jobs"].values():
        assert "runs-on" in job
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            words = step.get("run", "").split()
            if words[:1] == ["make"]:
                assert set(words[1:]) <= targets
            for file in (word for word in words if word.endswith(".py")):
                assert (ROOT / file).exists()


@pytest.mark.parametrize(
    "folder", [path for path in sorted((ROOT / "results").iterdir()) if path.is_dir()], ids=str
)
def test_every_result_says_where_it_comes_from(folder: Path) -> None:
    """Command, commit, date and machine: of the folder, or of each of its parts."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    parts = meta.get("parts", {"": {}})
    for name, part in parts.items():
        record = {**meta, **part}
        for key in ("command", "commit", "date", "machine"):
            assert record.get(key), f"{name or folder.name} has no {key}"
        assert re.fullmatch(r"[0-9a-f]{7,}(-dirty)?", record["commit"]), record["commit"]
        assert re.match(r"2\d{3}-\d\d-\d\d", record["date"]), record["date"]
    files = {path.name for path in folder.iterdir() if path.suffix in (".csv", ".txt", ".json")}
    named = {name for name in parts if "." in name}
    assert not named or files - {"meta.json"} == named, "each file has its own part"

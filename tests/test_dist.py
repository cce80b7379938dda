"""The package installs from its sdist, and the README's code runs there."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))

from dist import build_dist, build_wheel  # noqa: E402

NO_COMPILER = {"CC": "/bin/false", "CXX": "/bin/false"}


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # setuptools writes into the source folder, which the other test processes share.
    with (ROOT / "pyproject.toml").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return build_dist(tmp_path_factory.mktemp("dist"))[0]


def test_without_a_compiler_the_last_line_says_what_to_install(
    sdist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in NO_COMPILER.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as stopped:
        build_wheel(sdist, sdist.parent / "none")
    last = str(stopped.value).splitlines()[-1]
    assert "Install a C compiler" in last
    assert "apt install gcc" in last
    assert "pip install --only-binary" in last
    assert not list((sdist.parent / "none").glob("*"))


def test_the_wheel_is_for_this_python_and_has_every_kernel(sdist: Path) -> None:
    (wheel,) = sdist.parent.glob("*-cp3*.whl")
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{version}-{version}-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert "needreplay/py.typed" in names
    assert "needlab/report/templates/base.html" in names
    folder = "needreplay/replay/_kernels/"
    for source in (ROOT / "src" / folder).glob("*.pyx"):
        assert any(name.startswith(f"{folder}{source.stem}.c") for name in names), source
    assert not [name for name in names if name.endswith((".pyx", ".pxd", ".c", ".h"))]


def pythons() -> list[str]:
    """The interpreters of Python 3.11 to 3.13 on PATH and of pyenv."""
    found = []
    for version in ("3.11", "3.12", "3.13"):
        installed = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python"))
        path = str(installed[-1]) if installed else shutil.which(f"python{version}")
        if path:
            found.append(path)
    return found


@pytest.mark.dist
@pytest.mark.parametrize("python", pythons())
def test_a_clean_environment_runs_the_readme(python: str, sdist: Path, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    new = tmp_path / "environment" / "bin"

    def run(*words: str | Path, code: int = 0) -> str:
        done = subprocess.run(
            [str(word) for word in words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    run(python, "-m", "venv", new.parent)
    pip: list[str | Path] = [new / "python", "-m", "pip", "-q", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--no-cache-dir", "-w", tmp_path, sdist)
    (wheel,) = tmp_path.glob("*.whl")
    run(*pip, "install", wheel)
    for package in ("matplotlib", "numba", "scipy", "torch"):
        run(new / "python", "-c", f"import {package}", code=1)
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    for number, block in enumerate(blocks):
        if "sb3" not in block and "needlab" not in block:
            (tmp_path / f"block{number}.py").write_text(block)
            run(new / "python", "-W", "error", tmp_path / f"block{number}.py")
    assert run(new / "needreplay", "--version").startswith("needreplay ")
    assert "pip install" in run(new / "needreplay", "reproduce", "fig2", "--out", "r", code=2)

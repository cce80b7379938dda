"""The decorator of kernels: its cache cannot go stale, and it leaves numba as it was."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest

import needreplay
from needlab.core.jit import cache_folder, compiled_in_place, jit


def thrice(x: float) -> float:
    return x + x + x


def fill(values: Any, x: float) -> None:
    for index in range(values.shape[0]):
        values[index] = x


def folder_of(package: Path) -> Path:
    """What ``cache_folder`` returns in a copy of the packages."""
    spec = importlib.util.spec_from_file_location("copied", package / "needlab/core/jit.py")
    assert spec is not None
    assert spec.loader is not None
    copied = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copied)
    folder: Path = copied.cache_folder()
    return folder


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the sources of both packages, to be changed."""
    source = Path(needreplay.__file__).parents[1]
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("needreplay", "needlab"):
        shutil.copytree(source / name, tmp_path / "copy" / name, ignore=ignored)
    return tmp_path / "copy"


def test_a_change_of_any_kernel_source_is_a_new_folder(package: Path) -> None:
    seen = [folder_of(package)]
    assert folder_of(package) == seen[0] == cache_folder()
    for source in (
        "needreplay/equations.py",
        "needlab/tabular/queue.py",
        "needreplay/_core/types.py",
    ):
        path = package / source
        path.write_text(path.read_text() + "\n# changed\n")
        seen.append(folder_of(package))
    tabular = package / "needlab/tabular"
    (tabular / "queue.py").rename(tabular / "queues.py")
    seen.append(folder_of(package))
    assert len(set(seen)) == 5
    assert len({folder.parent for folder in seen}) == 1


@pytest.mark.parametrize("above", ["report", "deep"])
def test_a_change_above_is_not(package: Path, above: str) -> None:
    before = folder_of(package)
    for source in (package / "needlab" / above).glob("*.py"):
        source.write_text(source.read_text() + "\n# changed\n")
    assert folder_of(package) == before


def test_where_the_folder_is(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = cache_folder().name
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "chosen"))
    assert folder_of(package) == tmp_path / "chosen" / "needreplay" / name
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    assert folder_of(package) == tmp_path / "xdg" / "needreplay" / name
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert folder_of(package) == tmp_path / "home" / ".cache" / "needreplay" / name


def test_numbas_own_folder_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config: Any = numba.config
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    jit(thrice)
    compiled_in_place(fill)
    assert str(tmp_path) == config.CACHE_DIR

    def failing(*args: Any, **options: Any) -> None:
        assert str(tmp_path) != config.CACHE_DIR
        raise RuntimeError("no")

    monkeypatch.setattr(numba, "njit", failing)
    with pytest.raises(RuntimeError, match="no"):
        jit(thrice)
    assert str(tmp_path) == config.CACHE_DIR


def test_a_compiled_function_gives_what_the_function_gives() -> None:
    assert jit(thrice)(0.1) == thrice(0.1)
    assert jit(thrice, reassociate=True)(0.5) == 1.5


def test_a_second_process_finds_the_compiled_code(tmp_path: Path) -> None:
    code = (
        "from needlab.core.jit import jit\n"
        "from needreplay.equations import td_error\n"
        "kernel = jit(td_error)\n"
        "kernel(1.0, 0.5, 1.0, 0.0)\n"
        "hits, misses = kernel.stats.cache_hits, kernel.stats.cache_misses\n"
        "print(sum(hits.values()), sum(misses.values()))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    said = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env=environment,
        ).stdout.split()
        for _ in range(2)
    ]  # fmt: skip
    assert said == [["0", "1"], ["1", "0"]]
    assert list((tmp_path / "needreplay" / cache_folder().name).rglob("*.nbc"))


def test_a_cache_that_cannot_be_written_is_done_without() -> None:
    code = (
        "from needlab.core.jit import cache_is_writable, jit\n"
        "from needreplay.equations import td_error\n"
        "assert not cache_is_writable()\n"
        "print(jit(td_error)(1.0, 0.5, 2.0, 0.5))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": os.devnull},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "1.5"


def test_compiling_is_announced_once_on_stderr_and_not_from_the_cache(tmp_path: Path) -> None:
    code = (
        "from needlab.core import jit as module\n"
        "module.PATIENCE = 0.0\n"
        "from needreplay import equations\n"
        "module.jit(equations.td_error)(1.0, 0.5, 1.0, 0.0)\n"
        "module.jit(equations.discounted)(1.0, 0.5, 1.0)\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    said = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env=environment,
        )
        for _ in range(2)
    ]  # fmt: skip
    line = "needreplay: compiling kernels once; this takes a while\n"
    assert [done.stderr for done in said] == [line, ""]
    assert [done.stdout for done in said] == ["", ""]

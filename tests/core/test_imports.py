"""Code is named by the user alone: what a file asks for raises unless its module is allowed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from needlab.core.imports import check_code, find_module, load_object
from needreplay._core.errors import NeedReplayError, unknown


@pytest.mark.parametrize(
    "values",
    [
        "evil:run",
        {"world": "evil:Foo-v0"},
        {"overrides": {"sampler": "evil:make"}},
        {"overrides": [{"deep": ["evil:make"]}]},
        {"agent": " evil :x"},
        {"agent": "evil:x", "device": "cpu"},
    ],
)
def test_a_module_that_was_not_named_raises(values: Any) -> None:
    with pytest.raises(NeedReplayError, match=r"a\.toml asks for .*--allow-code evil"):
        check_code(values, ["other", "evi", "evil2"], "a.toml")
    check_code(values, ["other", "evil"], "a.toml")


def test_plain_values_and_submodules_pass() -> None:
    plain = {
        "world": "minatar/breakout",
        "device": "cuda:1",
        "steps": 5,
        "maze": "S.G\n\nstarts: in",
    }
    check_code(plain, [], "a.toml")
    check_code({"world": "pack.envs:Foo-v0"}, ["pack"], "a.toml")


@pytest.mark.parametrize(
    "name", [":", "a:", ":b", "a b:c", "..:x", "a.:x", "a:b:c", "a:b c", "1a:b"]
)
def test_what_is_not_a_name_imports_nothing(name: str) -> None:
    before = list(sys.path)
    for use in (find_module, load_object):
        with pytest.raises(NeedReplayError, match=r"is not of the form module:name"):
            use(name)
    assert sys.path == before


def test_the_current_folder_is_searched_for_named_modules_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "found_here_only.py").write_text("answer = 42\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    assert load_object("found_here_only:answer") == 42
    with pytest.raises(NeedReplayError, match="has no 'question'"):
        load_object("found_here_only:question")
    with pytest.raises(NeedReplayError, match="cannot be imported"):
        load_object("nowhere_at_all:answer")


def test_the_nearest_name_is_suggested() -> None:
    assert str(unknown("setting", "featurs", ["features", "alpha"])).endswith(
        "choose from: features, alpha. Did you mean 'features'?"
    )
    assert str(unknown("setting", "xyz", ["features"])).endswith("choose from: features.")
    assert str(unknown("setting", 3, ["features"])).endswith("choose from: features.")

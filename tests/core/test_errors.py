"""The words of errors that several places share."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from needreplay._core.errors import not_installed

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_missing_extra_is_named_with_its_pins(extra: str) -> None:
    said = str(not_installed("This needs that", extra))
    begin = "This needs that, which is not installed; install it with: pip install "
    begin += f"'needreplay[{extra}]'"
    assert said.startswith(f"{begin} (")
    pins = said.removeprefix(f"{begin} (").removesuffix(")").split(", ")
    for pin, wanted in zip(pins, EXTRAS[extra], strict=True):
        name = wanted.partition(">")[0]
        assert pin.startswith(name)
        assert set(pin.removeprefix(name).split(",")) == set(wanted.removeprefix(name).split(","))

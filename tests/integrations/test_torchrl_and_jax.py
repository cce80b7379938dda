"""The page on TorchRL and JAX. Its code runs where they are installed: ``make unit-others``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from needreplay import NeedReplayError, ReplayBuffer
from needreplay.replay.batch import Batch

PAGE = Path(__file__).parents[2] / "docs/torchrl_and_jax.md"


def batch_of_steps() -> Batch:
    buffer = ReplayBuffer.for_spaces(Box(0, 9, (2,), np.float32), Discrete(3), capacity=9)
    for t in range(4):
        obs = np.full(2, t, np.float32)
        buffer.add(
            obs=obs,
            action=t % 3,
            reward=t,
            next_obs=obs + 1,
            terminated=t == 3,
            truncated=t == 1,
        )
    return buffer.sample(16)


def test_the_keys_are_those_of_torchrl(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names are in TorchRL's documentation; here a dict is in the place of its TensorDict."""
    pytest.importorskip("torch")
    fake: Any = ModuleType("tensordict")
    fake.TensorDict = lambda found, batch_size: {**found, "size": batch_size}
    monkeypatch.setitem(sys.modules, "tensordict", fake)
    batch = batch_of_steps()
    data = batch.tensordict()
    t = batch["obs"][:, 0]
    assert data["size"] == [16]
    assert data.keys() - {"size", "discount"} == {
        "observation", "action", "index", "priority_weight",
        *(("next", name) for name in ("observation", "reward", "terminated", "done")),
    }  # fmt: skip
    np.testing.assert_array_equal(data["index"].numpy(), batch.ids)
    np.testing.assert_array_equal(data["next", "observation"].numpy()[:, 0], t + 1)
    np.testing.assert_array_equal(data["next", "reward"].numpy(), t[:, None])
    for name in ("terminated", "done"):
        np.testing.assert_array_equal(data["next", name].numpy(), t[:, None] == 3)
    np.testing.assert_allclose(data["priority_weight"].numpy(), batch.weights, rtol=1e-6)


def test_without_tensordict_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensordict", None)
    with pytest.raises(NeedReplayError, match="pip install tensordict"):
        batch_of_steps().tensordict()


def test_the_page_runs_with_the_libraries_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torchrl")
    pytest.importorskip("jax")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    scope: dict[str, object] = {}
    for block in blocks:
        exec(block, scope)
    promised = re.findall(r"print\(.*#\s*(.*)", "".join(blocks))
    assert capsys.readouterr().out.splitlines() == promised
    assert len(promised) == 2

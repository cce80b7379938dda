"""No tensor is made on the CPU by accident.

On the device ``meta`` a tensor has no values, and meeting one of the CPU is an error: a whole
update there shows that everything is where it was asked for. Only what is handed back to the
memory or to the caller may leave the device, by the three ways that are replaced here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from .walks import small_agent, walk


def _ones(tensor: torch.Tensor) -> torch.Tensor:
    return torch.ones(tensor.shape, dtype=tensor.dtype)


@pytest.fixture
def _no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "cpu", _ones)
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: np.zeros(tuple(self.shape)).tolist())
    monkeypatch.setattr(torch.Tensor, "__int__", lambda _: 0)
    monkeypatch.setattr(torch.Tensor, "__float__", lambda _: 0.0)


@pytest.mark.usefixtures("_no_values")
@pytest.mark.parametrize("network", ["vector", "minatar"])
@pytest.mark.parametrize(
    ("preset", "sampler", "options"),
    [
        ("corrected", "per", {}),
        ("corrected", "per-sr", {}),
        ("corrected", "per-sr", {"encoder": "shared"}),
        ("corrected", "per-sr", {"direction": "backward", "scale": "max"}),
        ("corrected", "per-sr-sampling", {}),
        ("corrected", "per-sr-sampling", {"direction": "backward"}),
        ("corrected", "per-sr-sampling", {"refresh": 2, "encoder": "shared"}),
        ("corrected", "per-sr-sampling", {"need_row": "previous", "successor_of": "state"}),
        ("printed", "per-sr-sampling", {}),
        ("released", "per-sr-sampling", {}),
        ("printed", "per-sr", {}),
        ("printed", "per-sr", {"negative": "fallback"}),
        ("printed", "per-sr", {"negative": "clip"}),
        ("released", "per-sr", {}),
        ("corrected", "pser", {"base": "dqn"}),
    ],
)
def test_an_update_stays_on_its_device(
    network: str, preset: str, sampler: str, options: dict[str, Any]
) -> None:
    agent = small_agent(preset, network, sampler, device="meta", **options)
    updates = 0
    for step in walk(network, 12):
        agent.act(step.obs)
        agent.observe(*step[:5], truncated=False)
        updates += agent.learn(step.next_obs) is not None
    assert updates == 5
    if agent.need is not None:
        columns = {"obs": np.stack([step.obs] * 3), "action": np.arange(3)}
        assert agent.need.needs_of(step.obs, columns).shape == (3,)
    assert {p.device.type for n in agent.networks().values() for p in n.parameters()} == {"meta"}


@pytest.mark.usefixtures("_no_values")
@pytest.mark.parametrize("sampler", ["per", "per-sr", "per-sr-sampling"])
def test_an_update_of_the_large_network_stays_on_its_device(sampler: str) -> None:
    agent = small_agent("corrected", "nature", sampler, device="meta", features=16)
    for step in walk("nature", 9):
        agent.act(step.obs)
        agent.observe(*step[:5], truncated=False)
    assert agent.learn(step.next_obs) is not None


def test_a_tensor_on_the_wrong_device_would_be_noticed() -> None:
    with pytest.raises(RuntimeError, match="device"):
        _ = torch.ones(3) + torch.ones(3, device="meta")

"""Types of CPU: those of runs on one machine are one type."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from needlab.core.machine import cpu_types, machine, machines_of, record_machine


def fake_torch(vectors: str) -> SimpleNamespace:
    cpu = SimpleNamespace(get_cpu_capability=lambda: vectors)
    return SimpleNamespace(backends=SimpleNamespace(cpu=cpu))


def test_runs_with_and_without_torch_on_one_machine_are_of_one_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    without = machine()
    monkeypatch.setitem(sys.modules, "torch", fake_torch("AVX2"))
    with_torch = machine()
    assert cpu_types([without]) == [without["cpu"]]
    assert cpu_types([without, with_torch]) == [f"{without['cpu']} AVX2"]
    monkeypatch.setitem(sys.modules, "torch", fake_torch("AVX512"))
    assert len(cpu_types([without, with_torch, machine()])) == 2
    assert len(cpu_types([with_torch, {**with_torch, "cpu": "another"}])) == 2


def test_a_run_that_continues_with_torch_loaded_changed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert record_machine(tmp_path) == ""
    monkeypatch.setitem(sys.modules, "torch", fake_torch("AVX2"))
    assert record_machine(tmp_path) == ""
    monkeypatch.setitem(sys.modules, "torch", fake_torch("AVX512"))
    assert "vectors AVX2 -> AVX512" in record_machine(tmp_path)
    assert len(machines_of(tmp_path)) == 3

"""Shared by the tests of the deep agents: one thread, so that sums are always in one order."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)

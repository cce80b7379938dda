"""One thread, so that sums are always in one order; nothing here without Stable-Baselines3."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("sb3_contrib") else ["test_sb3_*"]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)

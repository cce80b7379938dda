"""What the Ray engine asks for, told without Ray."""

from __future__ import annotations

import pytest

from needreplay.sweeps.engines.cluster import _cpus


@pytest.mark.parametrize(
    ("workers", "each", "cpus"),
    [
        (1, 1.5, 2),
        (3, 0.5, 2),
        (2, 1.0, 2),
        (4, 0.25, 1),
        (1, 0.0, 1),
        (3, 1.1, 4),
        (None, 2, None),
    ],
)
def test_a_cluster_that_is_started_here_holds_its_runs(
    workers: int | None, each: float, cpus: int | None
) -> None:
    assert _cpus(workers, each) == cpus

"""A Ray cluster of two nodes on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [str(ROOT / "tests" / "fakes"), str(ROOT / "examples")]
"""Where processes of the cluster find the tests' sources and the example."""
sys.path[:0] = [folder for folder in FOLDERS if folder not in sys.path]

PATIENCE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # 15 by default: beside other work they would hardly run
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "4",
    "PYTHONPATH": os.pathsep.join([*FOLDERS, os.environ.get("PYTHONPATH", "")]),
}
"""Little, with a lost node."""


@pytest.fixture(scope="package")
def cluster() -> Iterator[Any]:
    """Two nodes; this process is connected to the first."""
    # Where landings hang on it, its absence is a failure.
    if not os.environ.get("NEEDREPLAY_CI"):
        pytest.importorskip("ray", reason="Ray is not installed (pip install ray)")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in PATIENCE.items():
            patch.setenv(name, value)
        import ray
        from ray.cluster_utils import Cluster

        logging: Any = "ERROR"
        memory: dict[str, Any] = {"object_store_memory": 80_000_000}
        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 8, **memory})
        try:
            found.add_node(num_cpus=8, **memory)
            found.wait_for_nodes()
            ray.init(address=found.address, log_to_driver=False, logging_level=logging)
            yield found
        finally:
            ray.shutdown()
            found.shutdown()  # type: ignore[no-untyped-call]

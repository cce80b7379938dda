"""The check of the diagnosis: the same transitions and need, and tau by hand."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from needlab.core.tables import long_table
from needlab.studies.deep.exact_arms import ARMS, Memory
from needlab.studies.deep.exact_tasks import exact_task
from needlab.studies.deep.exact_training import played
from needlab.studies.locality import diagnosis
from needlab.studies.locality.classes import new_agent


def test_the_diagnosis_of_a_table_is_the_exact_one() -> None:
    """In deep sea a table's updates stay; a network's do not, and gain says more there."""
    task, found = exact_task("deep sea"), {}
    for name in ("table", "network 64"):
        agent, memory = new_agent(task, "deep sea", name, 0), Memory(task, ARMS["uniform"], 0)
        for _ in played(task, agent, memory, np.random.default_rng(0), 1_500, 4):
            pass
        before = agent.values()
        found[name] = diagnosis.diagnosed(task, agent, memory, 0)
        np.testing.assert_array_equal(agent.values(), before)
    assert found["table"].locality == pytest.approx(1.0)
    assert found["network 64"].locality < 0.7


def test_the_buffer_has_the_same_episodes() -> None:
    """0 -> 1 ends, 0 -> 2 -> 3 is cut (the next begins at 0), 0 -> 1."""
    stored = {
        "s": np.array([0, 0, 2, 0]),
        "next_s": np.array([1, 2, 3, 1]),
        "action": np.array([0, 1, 0, 0]),
        "reward": np.zeros(4, np.float32),
        "discount": np.array([0.0, 0.99, 0.99, 0.99], np.float32),
    }
    buffer = diagnosis.buffer_of(stored, np.eye(4, dtype=np.float32), 2)
    episodes, steps = buffer.episodes(np.arange(4))
    assert episodes.tolist() == [0, 1, 1, 2]
    assert steps.tolist() == [0, 0, 1, 0]


def test_tau_by_hand() -> None:
    """Exact 1, 2, 3 and diagnosed 1, 3, 2: two pairs agree and one does not, so tau is 1/3."""
    rows = {
        ("one", name): {
            "exact_locality": np.array([exact, exact]),
            "diagnosed_locality": np.array([told - 0.1, told + 0.1]),
            "exact_advantage": np.array([exact, exact]),
            "diagnosed_advantage": np.array([exact, exact]),
        }
        for name, exact, told in (("a", 1.0, 1.0), ("b", 2.0, 3.0), ("c", 3.0, 2.0))
    }
    data = long_table(("task", "function"), rows)
    assert diagnosis.tau(data, "one", "locality") == pytest.approx(1 / 3)
    claims = diagnosis.claims_of(data, "default")
    assert [claim.verdict for claim in claims] == ["does not hold", "holds"]

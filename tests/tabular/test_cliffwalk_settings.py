"""The presets of the Blind Cliffwalk."""

from __future__ import annotations

import math

import pytest

from needreplay.errors import NeedReplayError
from needreplay.tabular.cliffwalk_settings import (
    METHODS,
    PAPER_METHODS,
    CliffwalkSettings,
    cliffwalk_preset,
    differences,
)


def test_methods() -> None:
    assert PAPER_METHODS == ("uniform", "oracle", "per", "need", "need-random", "need-optimal")
    assert len(METHODS) == 11


def test_corrected_differs_from_released_in_its_faults_only() -> None:
    assert set(differences("released", "corrected")) == {
        "memory_axis",
        "successor_step_size",
        "successor_discount",
        "trace_reset",
        "negative_need",
        "random_need",
        "optimal_need",
    }


def test_sizes() -> None:
    assert cliffwalk_preset("printed").sizes == tuple(range(3, 14))
    assert cliffwalk_preset("released").sizes == tuple(range(2, 12))


def test_any_field_can_be_changed() -> None:
    changed = cliffwalk_preset("released", trace_reset="return", threshold=0.5)
    assert (changed.trace_reset, changed.threshold, changed.epsilon) == ("return", 0.5, 0.05)


def test_refusals() -> None:
    with pytest.raises(NeedReplayError, match="no preset 'x'"):
        cliffwalk_preset("x")
    with pytest.raises(NeedReplayError, match="no setting 'alpha'"):
        cliffwalk_preset("printed", alpha=0.6)
    with pytest.raises(NeedReplayError, match="no oracle 'x'"):
        CliffwalkSettings(oracle="x")  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="need_exponent is 2; it must be from 0"):
        CliffwalkSettings(need_exponent=2)
    with pytest.raises(NeedReplayError, match="minibatch is 0; it must be at least 1"):
        CliffwalkSettings(minibatch=0)
    with pytest.raises(NeedReplayError, match="sizes"):
        CliffwalkSettings(sizes=(1, 2))
    with pytest.raises(NeedReplayError, match="successor_discount"):
        CliffwalkSettings(successor_discount=1.5)
    assert math.isnan(CliffwalkSettings().successor_discount)

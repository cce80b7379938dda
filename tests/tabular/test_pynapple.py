"""Decoded states and events to and from pynapple."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from needlab.core.tables import Table
from needlab.tabular import pynapple
from needlab.tabular.decoded import detect_events
from needlab.tabular.pynapple import decoded_table, detect_in, interval_set, state_series
from needreplay._core.errors import NeedReplayError

TRACK = np.eye(9, k=1, dtype=bool)  # state s leads to s + 1
STATES = [7, 0, 1, 2, 3, 4, 8, 8, 7, 6, 5, 4, -1, 2]
TIMES = np.arange(14) / 10


def tsd(states: Any = STATES) -> Any:
    """What decoded_table and detect_in read of a Tsd."""
    return SimpleNamespace(t=TIMES[: len(states)], d=np.asarray(states))


def epochs(*ends: tuple[float, float]) -> Any:
    start, end = np.array(ends, np.float64).reshape(-1, 2).T
    return Epochs(start=start, end=end)


class Epochs(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.start)


def test_the_bins_of_each_epoch_become_an_event() -> None:
    # The second epoch has no bin; ends belong to it.
    table = decoded_table(tsd(), epochs((0.1, 0.3), (0.31, 0.39), (1.1, 1.2)))
    assert table.names == ("event", "time", "state")
    assert table["event"].tolist() == [0, 0, 0, 2, 2]
    assert table["state"].tolist() == [0, 1, 2, 4, -1]
    assert table["time"].tolist() == pytest.approx([0.1, 0.2, 0.3, 1.1, 1.2])


def test_bins_without_a_state_are_nan_or_minus_1() -> None:
    table = decoded_table(tsd([0.0, np.nan, -1.0, 2.0]), epochs((0.0, 1.0)))
    assert table["state"].tolist() == [0, -1, -1, 2]


def test_events_are_those_of_detect_events_in_each_epoch() -> None:
    found = detect_in(tsd(), epochs((0.0, 0.55), (0.7, 1.15)), adjacency=TRACK)
    assert found["direction"].tolist() == ["forward", "reverse"]
    assert found["event"].tolist() == [0, 1]
    assert found["epoch"].tolist() == [0, 1]
    assert found["start"].tolist() == pytest.approx([0.1, 0.7])
    assert found["stop"].tolist() == pytest.approx([0.5, 1.1])
    # An event does not go on from one epoch to the next.
    cut = detect_in(tsd(), epochs((0.0, 0.35), (0.36, 0.55)), adjacency=TRACK)
    assert len(cut) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: decoded_table([1, 2], epochs((0, 1))), "must be a pynapple.Tsd"),
        (lambda: decoded_table(tsd(), [(0, 1)]), "must be a pynapple.IntervalSet"),
        (lambda: decoded_table(tsd([0.5]), epochs((0, 1))), "states has 0.5"),
        (lambda: decoded_table(tsd([np.inf]), epochs((0, 1))), "states has inf"),
        (lambda: decoded_table(tsd([-2]), epochs((0, 1))), "states has -2"),
        (lambda: decoded_table(tsd(np.zeros((2, 3))), epochs((0, 1))), "argmax"),
        (lambda: detect_in(tsd(), epochs(), adjacency=TRACK), "epochs is empty"),
        (lambda: interval_set(Table({"time": [0.0]})), "events need start and stop"),
        (lambda: interval_set(Table({"event": [3], "time": [0.0]})), "Event 3 has no duration"),
        (
            lambda: interval_set(Table({"event": [0, 1], "start": [0.0, 1], "stop": [2.0, 3]})),
            "Event 0 ends after the next one begins",
        ),
        (
            lambda: state_series(Table({"event": [0, 0], "time": [1.0, 1.0], "state": [1, 2]})),
            "time is 1 in two rows",
        ),
    ],
)
def test_mistakes(call: Any, message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        call()


def test_without_pynapple_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(pynapple, "import_module", missing)
    with pytest.raises(NeedReplayError, match=r"needreplay\[pynapple\]"):
        interval_set(Table({"event": [0], "start": [0.0], "stop": [1.0]}))


def test_there_and_back_with_the_package() -> None:
    nap = pytest.importorskip("pynapple")
    series = nap.Tsd(t=TIMES, d=np.array(STATES))
    ripples = nap.IntervalSet(start=[0.1, 0.7], end=[0.5, 1.15])
    table = decoded_table(series, ripples)
    again = decoded_table(state_series(table), interval_set(table))
    for name in table.names:
        assert again[name].tolist() == table[name].tolist()
    found = interval_set(detect_in(series, ripples, adjacency=TRACK))
    assert found["direction"].tolist() == ["forward", "reverse"]
    np.testing.assert_allclose(found.start, [0.1, 0.7])
    np.testing.assert_allclose(found.end, [0.5, 1.1])
    assert series.restrict(found).d.tolist() == STATES[1:6] + STATES[7:12]


def test_events_that_share_a_bin_stay_two_intervals_with_the_package() -> None:
    pytest.importorskip("pynapple")
    states = [0, 1, 2, 3, 4, 3, 2, 1, 0]
    events = detect_events(states, TIMES[:9], adjacency=TRACK)
    assert events["stop"][0] == events["start"][1]
    found = interval_set(events)
    assert len(found) == 2
    assert found["direction"].tolist() == ["forward", "reverse"]

"""A buffer against a naive list, through every order of operations, at every capacity to 70."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from needreplay._core.errors import NeedReplayError
from needreplay.replay import (
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    ReplayBuffer,
    UniformSampler,
)
from needreplay.replay.samplers import ExhaustiveNeedSampler, FeatureNeedSampler, StateNeedSampler
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.validation import MIN_PRIORITY

GAINS = st.just(0.0) | st.floats(MIN_PRIORITY, 100.0)
CAPACITIES = range(1, 71)
BY_STATES = ("grouped",)
BY_FEATURES = ("features", "sweep")
BY_NEED = (*BY_STATES, *BY_FEATURES)
NEED = np.array([1.0, 0.5])


def features_of(values: list[int]) -> Any:
    """Every seventh value has none that count."""
    array = np.array(values) % 7
    return np.stack([array, array % 3], axis=1).astype(np.float64)


def states_of(values: list[int]) -> Any:
    return np.array(values) % 2


def need_of(value: float, sampler: str) -> float:
    """By hand: of its state or by its features."""
    if sampler in BY_STATES:
        return float(NEED[int(value) % 2])
    features = features_of([int(value)])[0]
    squares = features @ features
    return float(features @ NEED / squares) if squares else 0.0


def make_sampler(name: str) -> Sampler:
    makers: dict[str, Any] = {
        "uniform": UniformSampler,
        "proportional": ProportionalSampler,
        "plain": lambda: ProportionalSampler(1.0, stratified=False),
        "rank": RankSampler,
        "exact rank": lambda: RankSampler(exact=True),
        "sequence": lambda: PSERSampler(window=0, retained=0.0),
        "recency": lambda: RecencySampler(3.0, alpha=0.6),
        "features": lambda: FeatureNeedSampler(2),
        "sweep": lambda: ExhaustiveNeedSampler(n_features=2),
        "grouped": lambda: StateNeedSampler(2),
    }
    sampler: Sampler = makers[name]()
    return sampler


class Machine(RuleBasedStateMachine):
    """``kept`` is the naive list: (id, value, gain), oldest first."""

    capacity = 1
    sampler = "proportional"

    @initialize()
    def begin(self) -> None:
        self.replay = self.make()
        self.kept: list[list[float]] = []
        self.next_id = 0
        self.largest = 1.0
        self.dropped = 0

    def make(self) -> ReplayBuffer:
        columns = {"value": np.int64, "more": (np.float32, 2)}
        return ReplayBuffer(self.capacity, columns, sampler=make_sampler(self.sampler))

    @rule(value=st.integers(-(2**62), 2**62))
    def add(self, value: int) -> None:
        more = np.full(2, value % 1000)
        ids = self.replay.add(value=value, more=more, **self.info([value], single=True))
        assert ids == range(self.next_id, self.next_id + 1)
        self.note([value])

    @rule(values=st.lists(st.integers(-1000, 1000), min_size=1, max_size=90))
    def add_many(self, values: list[int]) -> None:
        array = np.array(values)
        more = np.stack([array % 1000, array % 1000], axis=1)
        self.replay.add(value=array, more=more, **self.info(values))
        self.note(values)

    def info(self, values: list[int], single: bool = False) -> dict[str, Any]:
        """What the sampler gets beside the columns."""
        if self.sampler not in BY_NEED:
            return {}
        by_state = self.sampler in BY_STATES
        rows = states_of(values) if by_state else features_of(values)
        return {"state" if by_state else "features": rows[0] if single else rows}

    def note(self, values: list[int]) -> None:
        for value in values:
            self.kept.append([self.next_id, value, self.largest])
            self.next_id += 1
        self.kept = self.kept[-self.capacity :]

    @precondition(lambda self: self.next_id > 0)
    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.integers(0, self.next_id - 1), max_size=40))
        gains = data.draw(st.lists(GAINS, min_size=len(ids), max_size=len(ids)))
        self.replay.update_priorities(np.array(ids, dtype=np.int64), np.array(gains))
        by_id = {item[0]: item for item in self.kept}
        last = dict(zip(ids, gains, strict=True))
        for ident, gain in last.items():
            if ident in by_id:
                by_id[ident][2] = gain
                self.largest = max(self.largest, gain)
        self.dropped += sum(ident not in by_id for ident in ids)

    @precondition(lambda self: self.next_id > 0)
    @rule(bad=st.sampled_from([np.nan, np.inf, -1.0]), data=st.data())
    def rejected_update(self, bad: float, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.integers(0, self.next_id - 1), min_size=1, max_size=5))
        gains = np.ones(len(ids))
        gains[data.draw(st.integers(0, len(ids) - 1))] = bad
        with pytest.raises(NeedReplayError):
            self.replay.update_priorities(np.array(ids), gains)

    @precondition(lambda self: any(gain > 0 for _, _, gain in self.kept))
    @rule(size=st.integers(1, 40))
    def sample(self, size: int) -> None:
        batch = self.replay.sample(size, need=NEED if self.sampler in BY_NEED else None)
        by_id = {item[0]: item for item in self.kept}
        for ident, value, more in zip(batch.ids, batch["value"], batch["more"], strict=True):
            assert value == by_id[ident][1]
            assert more.tolist() == [value % 1000] * 2
        if self.sampler in ("proportional", "plain", "sequence"):
            exponent = self.replay.sampler.alpha  # type: ignore[attr-defined]
            total = sum(gain**exponent for _, _, gain in self.kept)
            said = [by_id[ident][2] ** exponent / total for ident in batch.ids]
            np.testing.assert_allclose(batch.probabilities, said, rtol=1e-9)
        if self.sampler == "recency":
            masses = {i: gain**0.6 * 0.75 ** (self.next_id - i) for i, _, gain in self.kept}
            said = [masses[i] / sum(masses.values()) for i in batch.ids]
            np.testing.assert_allclose(batch.probabilities, said, rtol=1e-9)
        if self.sampler in BY_NEED:
            b = self.replay.sampler.need_alpha  # type: ignore[attr-defined]
            score = {i: gain**0.6 * need_of(v, self.sampler) ** b for i, v, gain in self.kept}
            if not any(score.values()):
                score = {i: gain**0.6 for i, _, gain in self.kept}
            ratio = batch.probabilities / [score[i] for i in batch.ids]
            constant = 1.0 / sum(score.values()) if batch.normalized else ratio[0]
            np.testing.assert_allclose(ratio, constant, rtol=1e-6)
        assert np.all(batch.probabilities > 0)
        assert np.all((batch.weights > 0) & (batch.weights <= 1 + 1e-12))

    @rule(after=st.integers(0, 3))
    def save_and_load(self, after: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "buffer"
            self.replay.save(path)
            again = self.make()
            for _ in range(after):
                again.add(value=0, more=np.zeros(2))
            again.load(path)
        for name, array in self.replay.arrays().items():
            used = min(self.next_id, self.capacity) if name == "ring/rows" else len(array)
            np.testing.assert_array_equal(again.arrays()[name][:used], array[:used])
        self.replay = again

    def teardown(self) -> None:
        """An example may well leave out rules: each ends with a file loaded and a batch drawn."""
        self.add_many(values=list(range(9)))
        self.save_and_load(after=2)
        self.agrees()
        if any(gain > 0 for _, _, gain in self.kept):
            self.sample(size=20)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "replay"):
            return
        self.replay.check_valid()
        assert len(self.replay) == len(self.kept)
        assert self.replay.next_id == self.next_id
        assert self.replay.oldest_id == (self.kept[0][0] if self.kept else self.next_id)
        assert self.replay.dropped == self.dropped
        if self.sampler in ("proportional", "plain", "sequence", "recency"):
            gain = self.replay.sampler.priorities  # type: ignore[attr-defined]
            for ident, _, expected in self.kept:
                assert gain[int(ident) % self.capacity] == expected


BY_GAIN = ("uniform", "proportional", "plain", "rank", "exact rank", "sequence", "recency")
SAMPLERS = (*BY_GAIN, *BY_NEED)


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_every_capacity(capacity: int) -> None:
    run_machines(capacity, [SAMPLERS[(2 * capacity + turn) % len(SAMPLERS)] for turn in range(2)])


def run_machines(capacity: int, samplers: list[str]) -> None:
    for turn, sampler in enumerate(samplers):
        # derandomized, every capacity would run through the very same operations
        run_machine(capacity, sampler, 2 * capacity + turn)


def run_machine(capacity: int, sampler: str, number: int) -> None:
    """Three sequences of calls, which ``number`` determines."""
    of_case = {"capacity": capacity, "sampler": sampler}
    machine: Any = seed(number)(type("Sized", (Machine,), of_case))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=3,
            stateful_step_count=25,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

"""Sequences against lists and loops: every row of every sequence, under random traffic."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_sampler import GAINS, check_by_need, check_distribution, expected
from gymnasium.spaces import Box, Dict, Discrete
from hypothesis import example, given, settings
from hypothesis import strategies as st

from needreplay import (
    FeatureNeedSampler,
    NeedReplayError,
    PSERSampler,
    ReplayBuffer,
    Sequences,
)

sys.path.insert(0, str(Path(__file__).parent))
from sequence_reference import Reference

GAMMA = 0.9
SHAPE = (2, 3)
SPACE = Box(-np.inf, np.inf, SHAPE, np.float32)


def make(capacity: int, sequences: Sequences, *, frames: bool = False, **options: Any) -> Any:
    return ReplayBuffer.for_spaces(
        SPACE,
        Discrete(1_000_000),
        capacity=capacity,
        discount=GAMMA,
        frame_stack=2 if frames else 0,
        extra_columns={"hidden": (np.float64, (2,))},
        sequences=sequences,
        autoreset="same_step",
        **options,
    )


class Traffic:
    """Steps of environments whose numbers tell every step from every other."""

    def __init__(self, n_envs: int, seed: int, ends: float = 0.2) -> None:
        self.rng, self.ends = np.random.default_rng(seed), ends
        self.stacks: list[Any] = [self.frame(np.zeros(SHAPE, np.float32)) for _ in range(n_envs)]

    def frame(self, stack: Any) -> Any:
        return np.stack([stack[1], self.rng.random(3, dtype=np.float32)])

    def step(self) -> list[dict[str, Any]]:
        steps = []
        for env, obs in enumerate(self.stacks):
            ended = self.rng.random(2) < self.ends / 2
            steps.append(
                {
                    "obs": obs,
                    "next_obs": self.frame(obs),
                    "action": int(self.rng.integers(1_000_000)),
                    "reward": float(self.rng.normal()),
                    "hidden": self.rng.random(2),
                    "terminated": bool(ended[0]),
                    "truncated": bool(ended[1]),
                }
            )
            self.stacks[env] = steps[-1]["next_obs"]
            if ended.any():
                self.reset(env)
        return steps

    def reset(self, env: int) -> None:
        self.stacks[env] = self.frame(np.zeros(SHAPE, np.float32))


def columns_of(steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.array([step[name] for step in steps]) for name in steps[0]}


def check_columns(columns: dict[str, Any], row: int, expected: dict[str, Any]) -> None:
    names = expected.keys() - ({"begins"} - columns.keys())
    assert columns.keys() == names
    for name in names:
        close = np.allclose if name in ("reward", "discount") else np.array_equal
        assert close(columns[name][row], expected[name]), name


@settings(max_examples=60)
@given(
    capacity=st.integers(1, 60),
    n_envs=st.integers(1, 3),
    n_step=st.integers(1, 3),
    length=st.integers(1, 6),
    burn_in=st.integers(0, 5),
    stride=st.integers(1, 6),
    across=st.booleans(),
    frames=st.booleans(),
    seed=st.integers(0, 1_000),
)
@example(60, 1, 1, 6, 2, 4, False, False, 0)
@example(60, 3, 2, 6, 2, 4, True, False, 0)
@example(3, 3, 3, 2, 1, 1, False, False, 0)
def test_every_row_under_random_traffic(
    capacity: int,
    n_envs: int,
    n_step: int,
    length: int,
    burn_in: int,
    stride: int,
    across: bool,
    frames: bool,
    seed: int,
) -> None:
    capacity, burn_in, stride = max(capacity, length), min(burn_in, length - 1), min(stride, length)
    sequences = Sequences(
        length, burn_in, stride=stride, state="hidden", across_episodes=across, eta=0.7
    )
    replay = make(capacity, sequences, frames=frames, n_envs=n_envs, n_step=n_step, seed=seed)
    reference = Reference(
        capacity,
        n_envs,
        n_step,
        GAMMA,
        length=length,
        burn_in=burn_in,
        stride=stride,
        across=across,
    )
    traffic = Traffic(n_envs, seed)
    rng = np.random.default_rng(seed)
    priorities: dict[int, float] = {}
    largest = 1.0
    for turn in range(80):
        if turn % 17 == 16:
            env = int(rng.integers(n_envs))
            added = replay.cut(env)
            reference.cut(env)
            traffic.reset(env)
        else:
            steps = traffic.step()
            added = replay.add(**columns_of(steps))
            reference.add(steps)
        if frames:  # of short episodes these need more space than there is, so rows go early
            reference.oldest = replay._rows.oldest_id
        new = reference.new()
        if len(added):
            columns = replay.read(added)
            hidden = {tuple(reference.columns(first)["hidden"]): first for first in new}
            firsts = [hidden[tuple(state)] for state in columns["hidden"]]
            assert set(firsts) == new
            reference.numbered |= dict(zip(added, firsts, strict=True))
            priorities |= dict.fromkeys(added, largest)
            for row, first in enumerate(firsts):
                check_columns(columns, row, reference.columns(first))
        assert len(added) == len(new)
        live = reference.live()
        assert [*range(replay.oldest_id, replay.next_id)] == live
        if n_envs == 1:
            assert len(live) == sum(f >= reference.oldest for f in reference.numbered.values())
        replay.check_valid()
        if turn == 40:
            replay = pickle.loads(pickle.dumps(replay))
        if live and turn % 5 == 0:
            batch = replay.sample(3)
            for row, ident in enumerate(batch.ids.tolist()):
                check_columns(batch.columns, row, reference.columns(reference.numbered[ident]))
            errors = rng.random((3, length))
            replay.update_priorities(batch.ids, errors)
            for row, ident in enumerate(batch.ids.tolist()):
                trained = errors[row][batch["mask"][row]]
                priorities[ident] = 0.7 * trained.max() + 0.3 * trained.mean()
            largest = max(largest, *(priorities[i] for i in batch.ids.tolist()))
        held = replay.sampler.priorities
        for ident in live:
            assert np.isclose(held[ident % capacity], priorities[ident])


def test_by_hand() -> None:
    """Ten steps, sequences of 4 with 1 row of burn-in: each step is trained once."""
    replay = ReplayBuffer.for_spaces(
        Dict({"at": Discrete(100)}), Discrete(2), capacity=20, sequences=Sequences(4, burn_in=1)
    )
    ids = [
        list(
            replay.add(
                obs={"at": t},
                action=0,
                reward=1.0,
                next_obs={"at": t + 1},
                terminated=t == 9,
                truncated=False,
            )
        )
        for t in range(10)
    ]
    assert ids == [[], [], [], [0], [], [], [1], [], [], [2]]
    columns = replay.read([0, 1, 2])
    assert columns["obs"]["at"].tolist() == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    assert columns["mask"].sum(1).tolist() == [4, 3, 3]
    assert not columns["mask"][1:, 0].any()
    assert columns["discount"][2].tolist() == pytest.approx([0.99, 0.99, 0.99, 0.0])
    replay.update_priorities([1], [[9.0, 1.0, 2.0, 6.0]])
    assert replay.sampler.priorities[1] == pytest.approx(0.9 * 6.0 + 0.1 * 3.0)  # type: ignore[attr-defined]


def filled(sampler: Any, n: int = 8) -> Any:
    """``n`` sequences of two rows, of two episodes."""
    replay = make(64, Sequences(2, state="hidden"), sampler=sampler, seed=1)
    traffic = Traffic(1, 0, ends=0.0)
    for t in range(2 * n):
        step = columns_of(traffic.step())
        step["truncated"] = np.array([t in (n - 1, 2 * n - 1)])
        replay.add(**step)
    assert len(replay) == n
    return replay


# A sequence passes a quarter back to the one before it in its episode (rows 0-3, 4-7), and PSER
# keeps half of what new ones begin with, 1.
PSER = PSERSampler(1.0, retained=0.5, decay=0.25, window=1)


@pytest.mark.parametrize(
    ("sampler", "expected"),
    expected(PSER, [4.0, 1.0, 0.5, 2.0, 8.0, 1.0, 0.75, 3.0]),
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_distribution_of_every_sampler(sampler: Any, expected: Any) -> None:
    replay = filled(sampler)
    replay.update_priorities(np.arange(8), np.stack([GAINS, GAINS], axis=1))
    check_distribution(replay, expected)


def test_need_of_first_rows() -> None:
    check_by_need(filled)


def test_errors_outside_the_mask_of_a_sequence_that_was_overwritten_do_not_count() -> None:
    """The update of the page: NaN outside the mask, for a batch that is partly gone."""
    replay = ReplayBuffer.for_spaces(
        Discrete(100), Discrete(2), capacity=12, sequences=Sequences(4, burn_in=2)
    )

    def add(count: int) -> None:
        for t in range(count):
            step = {"obs": t, "next_obs": t + 1, "action": 0, "reward": 0.0}
            replay.add(**step, terminated=False, truncated=False)

    add(12)
    batch = replay.sample(8)
    add(6)
    gone = int((batch.ids < replay.oldest_id).sum())
    assert gone > 0
    replay.update_priorities(batch.ids, np.where(batch["mask"], 0.5, np.nan))
    assert replay.dropped == gone


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(NeedReplayError, match="capacity is 3, below the length 8"):
        make(3, Sequences(8))
    with pytest.raises(NeedReplayError, match="burn_in is 4 and length 4"):
        Sequences(4, burn_in=4)
    with pytest.raises(NeedReplayError, match="stride is 5"):
        Sequences(4, stride=5)
    with pytest.raises(NeedReplayError, match="eta is 2"):
        Sequences(4, eta=2)
    with pytest.raises(NeedReplayError, match="make the buffer with episodes"):
        ReplayBuffer(10, {"x": float}, sequences=Sequences(4))
    with pytest.raises(NeedReplayError, match="sequences is 4"):
        make(10, 4)  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="state is 'lstm'"):
        make(10, Sequences(4, state="lstm"))
    with pytest.raises(NeedReplayError, match="'mask'"):
        ReplayBuffer.for_spaces(
            SPACE, SPACE, capacity=9, sequences=Sequences(2), extra_columns={"mask": bool}
        )
    replay = make(10, Sequences(4, state="hidden"))
    with pytest.raises(NeedReplayError, match="buffer is empty"):
        replay.sample(1)
    replay.add(**columns_of(Traffic(1, 0, ends=0.0).step()))
    with pytest.raises(NeedReplayError, match="No sequence is complete yet, though 1"):
        replay.sample(1)
    replay.cut()
    with pytest.raises(NeedReplayError, match=r"one for each of their rows, \(1, 4\)"):
        replay.update_priorities([0], np.ones((1, 3)))
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(NeedReplayError, match=r"priorities\[0, 0\] is"):
            replay.update_priorities([0], [[wrong, 1.0, 1.0, 1.0]])
    with pytest.raises(NeedReplayError, match="never existed"):
        replay.update_priorities([1], np.ones((1, 4)))
    with pytest.raises(NeedReplayError, match="future takes ids of transitions"):
        replay.future([0], 1)
    by_need = make(10, Sequences(4, state="hidden"), sampler=FeatureNeedSampler(2))
    step = columns_of(Traffic(1, 0).step())
    with pytest.raises(NeedReplayError, match="call set_features with the ids that add returns"):
        by_need.add(**step, features=np.ones(2))
    assert "1 sequences" in repr(replay)

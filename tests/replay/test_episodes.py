"""n-step transitions of several environments against brute force."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay.replay import Episodes, ReplayBuffer, UniformSampler
from needreplay.replay.samplers import ExhaustiveNeedSampler, FeatureNeedSampler, StateNeedSampler


class Step(NamedTuple):
    """One step of one environment."""

    obs: float
    action: int
    reward: float
    next_obs: float
    terminated: bool
    truncated: bool


def walk(n_steps: int, name: str, ends: float = 0.2) -> list[Step]:
    """Random episodes; every observation is a number of its own."""
    rng = stream(0, "walk", name)
    steps, obs, fresh = [], 0.0, 1.0
    for t in range(n_steps):
        terminated, truncated = rng.random() < ends / 2, rng.random() < ends / 2
        reward = float(np.float32(rng.normal()))
        steps.append(Step(obs, t, reward, fresh, bool(terminated), bool(truncated)))
        obs, fresh = (fresh + 1, fresh + 2) if terminated or truncated else (fresh, fresh + 1)
    return steps


def brute_force(steps: list[Step], n: int, discount: float) -> dict[int, tuple[float, ...]]:
    """What each step's transition should be, by its action, for windows that are closed."""
    transitions: dict[int, tuple[float, ...]] = {}
    for t in range(len(steps)):
        total = 0.0
        for k in range(n):
            if t + k >= len(steps):
                break
            step = steps[t + k]
            total += discount**k * step.reward
            ended = step.terminated or step.truncated
            if ended or k == n - 1:
                left = 0.0 if step.terminated else discount ** (k + 1)
                transitions[steps[t].action] = (steps[t].obs, total, step.next_obs, left)
                break
    return transitions


def stored(replay: ReplayBuffer) -> list[tuple[float, ...]]:
    """Every transition in the buffer, oldest first."""
    rows = []
    for ident in range(replay.oldest_id, replay.next_id):
        slot = ident % replay.capacity
        column = {name: replay._ring.columns[name][slot] for name in COLUMNS}
        rows.append(tuple(float(column[name]) for name in COLUMNS))
    return rows


COLUMNS = ("who", "action", "obs", "reward", "next_obs", "discount")


@pytest.mark.parametrize("n_step", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("n_envs", [1, 3])
def test_against_brute_force(n_step: int, n_envs: int) -> None:
    discount = 0.9
    walks = [walk(120, f"env {e}") for e in range(n_envs)]
    replay = make_buffer(n_envs, n_step, discount)
    ids: list[int] = []
    for t in range(120):
        steps = [w[t] for w in walks]
        ids.extend(replay.add(**together(steps, range(n_envs))))
        replay.check_valid()
    assert ids == list(range(replay.next_id))
    found = {(int(row[0]), int(row[1])): row[2:] for row in stored(replay)}
    expected = {
        (e, action): transition
        for e in range(n_envs)
        for action, transition in brute_force(walks[e], n_step, discount).items()
    }
    assert found.keys() == expected.keys()
    for key, transition in expected.items():
        np.testing.assert_allclose(found[key], transition, rtol=1e-6, atol=1e-6)


def make_buffer(n_envs: int, n_step: int, discount: float, **options: Any) -> ReplayBuffer:
    columns = {"obs": np.float64, "action": np.int64, "who": np.int16}
    options = {"autoreset": "same_step", **options}
    episodes = Episodes(n_envs=n_envs, n_step=n_step, discount=discount, **options)
    return ReplayBuffer(1000, columns, episodes=episodes, sampler=UniformSampler())


def together(steps: list[Step], envs: range) -> dict[str, Any]:
    """One step of every environment, as ``add`` takes it."""
    values: dict[str, Any] = {
        name: np.array([getattr(step, name) for step in steps]) for name in Step._fields
    }
    return {**values, "who": np.array(envs, dtype=np.int16)}


def test_truncation_bootstraps_from_the_true_last_observation_and_termination_does_not() -> None:
    replay = make_buffer(1, 3, 0.5)
    common = {"action": 0, "who": 0, "reward": 1.0}
    replay.add(obs=0.0, next_obs=1.0, terminated=False, truncated=False, **common)
    assert len(replay) == 0
    assert replay.add(obs=1.0, next_obs=2.0, terminated=False, truncated=True, **common) == range(2)
    replay.add(obs=10.0, next_obs=11.0, terminated=True, truncated=True, **common)
    rows = [row[2:] for row in stored(replay)]
    assert rows == [(0.0, 1.5, 2.0, 0.25), (1.0, 1.0, 2.0, 0.5), (10.0, 1.0, 11.0, 0.0)]


def test_next_step_autoreset_passes_over_the_reset_step() -> None:
    replay = make_buffer(2, 1, 0.5, autoreset="next_step")
    false, true = np.array([False, False]), np.array([True, False])
    common = {"action": np.zeros(2, int), "who": np.arange(2), "reward": np.ones(2)}
    step = {"truncated": false, **common}
    replay.add(obs=np.array([0.0, 0]), next_obs=np.array([1.0, 1]), terminated=true, **step)
    replay.add(obs=np.array([1.0, 1]), next_obs=np.array([5.0, 2]), terminated=false, **step)
    replay.add(obs=np.array([5.0, 2]), next_obs=np.array([6.0, 3]), terminated=false, **step)
    pairs = sorted((row[0], row[2], row[4]) for row in stored(replay))
    assert pairs == [(0, 0, 1), (0, 5, 6), (1, 0, 1), (1, 1, 2), (1, 2, 3)]


def test_previous_ids_are_passed_within_an_episode_only() -> None:
    got: list[tuple[int, int]] = []

    class Watching(UniformSampler):
        """Records what it gets of trajectories."""

        def place(self, slots: Any, previous: Any) -> None:
            got.extend(zip(slots.tolist(), previous.tolist(), strict=True))

    columns = {"obs": np.float64, "action": np.int64}
    episodes = Episodes(n_envs=2, autoreset="same_step")
    replay = ReplayBuffer(4, columns, episodes=episodes, sampler=Watching())
    for t in range(3):
        ended = np.array([t == 0, False])
        replay.add(
            obs=np.zeros(2), action=np.zeros(2, int), reward=np.zeros(2), next_obs=np.zeros(2),
            terminated=ended, truncated=np.array([False, False]),
        )  # fmt: skip
    assert got == [(0, -1), (1, -1), (2, -1), (3, 1), (0, 2), (1, 3)]


@pytest.mark.parametrize(
    "settings",
    [{"n_envs": 0}, {"n_step": 0}, {"discount": 1.5}, {"frame_stack": -1}, {"autoreset": "never"}],
)
def test_settings_out_of_range_are_rejected(settings: dict[str, Any]) -> None:
    with pytest.raises(NeedReplayError):
        Episodes(**settings)


@pytest.mark.parametrize("columns", [{"action": np.int64}, {"obs": "f4", "reward": "f4"}])
def test_columns_that_episodes_make_themselves_are_rejected(columns: dict[str, Any]) -> None:
    with pytest.raises(NeedReplayError, match="With episodes"):
        ReplayBuffer(10, columns, episodes=Episodes())


# Features and states of steps --------------------------------------------------------------------


def paired(sampler: Any, **options: Any) -> ReplayBuffer:
    columns = {"obs": (np.float32, 2), "action": np.int64}
    episodes = Episodes(**options)
    return ReplayBuffer(40, columns, episodes=episodes, sampler=sampler)


def run(replay: ReplayBuffer, n_envs: int, steps: int, name: str, every: int = 1) -> None:
    """Random episodes; obs, features and state of a step follow from its action."""
    rng = stream(3, "paired", name)
    for t in range(steps):
        action = t * n_envs + np.arange(n_envs)
        obs = np.stack([action + 1.0, action % 7 + 1.0], axis=1).astype(np.float32)
        info = {"state": action % 5} if name == "state" else {"features": obs.astype(np.float64)}
        values: dict[str, Any] = {
            "obs": obs,
            "action": action,
            "reward": np.zeros(n_envs),
            "next_obs": obs,
            "terminated": rng.random(n_envs) < 0.1,
            "truncated": rng.random(n_envs) < 0.1,
            **(info if t % every == 0 else {}),
        }
        if n_envs == 1:
            values = {key: value[0] for key, value in values.items()}
        replay.add(**values)
        replay.check_valid()


@pytest.mark.parametrize("n_envs", [1, 3, 50])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
@pytest.mark.parametrize("every", [1, 2])
def test_features_belong_to_the_obs_of_their_transition(
    n_envs: int, n_step: int, autoreset: str, every: int
) -> None:
    sampler = ExhaustiveNeedSampler(n_features=2, backward=True)
    replay = paired(sampler, n_envs=n_envs, n_step=n_step, autoreset=autoreset)
    run(replay, n_envs, 61, f"{n_envs} {n_step}", every)
    ids = np.arange(replay.oldest_id, replay.next_id)
    columns, stored = replay.read(ids), sampler.features.vectors[ids % replay.capacity]
    has_features = columns["action"] // n_envs % every == 0
    expected = np.where(has_features[:, None], columns["obs"], 0.0)
    np.testing.assert_array_equal(stored, expected)
    assert has_features.any()


@pytest.mark.parametrize("n_envs", [1, 3])
def test_states_belong_to_the_obs_of_their_transition(n_envs: int) -> None:
    replay = paired(
        StateNeedSampler(5, need_alpha=1.0), n_envs=n_envs, n_step=3, autoreset="same_step"
    )
    run(replay, n_envs, 60, "state")
    for state in range(5):
        batch = replay.sample(30, need=np.eye(5)[state])
        np.testing.assert_array_equal(batch["action"] % 5, state)


def test_open_windows_keep_their_features_in_a_file(tmp_path: Any) -> None:
    replay, other = (paired(FeatureNeedSampler(2, backward=True), n_step=3) for _ in range(2))
    step = {"action": 0, "reward": 0.0, "truncated": False, "next_obs": np.zeros(2, np.float32)}
    replay.add(**step, obs=np.zeros(2, np.float32), terminated=False, features=[3.0, 4.0])
    replay.save(tmp_path / "buffer")
    other.load(tmp_path / "buffer")
    assert other.add(**step, obs=np.ones(2, np.float32), terminated=True) == range(2)
    sampler: Any = other.sampler
    assert sampler.features.vectors[:2].tolist() == [[3.0, 4.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([1.0], "shape"),
        ([[1.0, 2.0], [3.0, 4.0]], "shape"),
        ([np.nan, 1.0], "NaN"),
        (["a", "b"], "features is"),
        ([1e300, 1.0], "features"),
        (np.ma.ones(2), "mask"),
    ],
)
@pytest.mark.parametrize("n_step", [1, 3])
def test_features_that_are_rejected_store_nothing(wrong: Any, said: str, n_step: int) -> None:
    replay = paired(FeatureNeedSampler(2, backward=True), n_step=n_step)
    obs = np.zeros(2, np.float32)
    step = {"obs": obs, "next_obs": obs, "action": 0, "reward": 0.0, "terminated": False}
    with pytest.raises(NeedReplayError, match=said):
        replay.add(**step, truncated=True, features=wrong)
    assert len(replay) == 0
    assert replay.add(**step, truncated=True, features=[1.0, 2.0]) == range(1)


def test_names_that_the_sampler_does_not_take_are_rejected() -> None:
    step = {"obs": np.zeros(2), "next_obs": np.zeros(2), "action": 0, "reward": 0.0}
    replay = paired(UniformSampler())
    with pytest.raises(NeedReplayError, match="features unknown"):
        replay.add(**step, terminated=False, truncated=False, features=[1.0, 2.0])
    with pytest.raises(NeedReplayError, match="state is float64"):
        paired(StateNeedSampler(3)).add(**step, terminated=False, truncated=False, state=1.5)
    with pytest.raises(NeedReplayError, match="3 states"):
        paired(StateNeedSampler(3)).add(**step, terminated=False, truncated=False, state=3)
    with pytest.raises(NeedReplayError, match="another name"):
        ReplayBuffer(5, {"state": np.int64}, sampler=StateNeedSampler(3))

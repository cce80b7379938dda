"""Mistakes that would make replay wrong in silence: each is one warning, and right use has none."""

from __future__ import annotations

import copy
import re
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import FrameStackObservation, NormalizeObservation

from needreplay import (
    Episodes,
    FeatureNeedSampler,
    NeedReplayError,
    NeedReplayWarning,
    ProportionalSampler,
    ReplayBuffer,
    StateNeedSampler,
    UniformSampler,
)
from needreplay.replay import watch

SPACES: dict[str, Any] = {
    "row": gym.spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "float64": gym.spaces.Box(-np.inf, np.inf, (3,), np.float64),
    "number": gym.spaces.Discrete(10_000),
    "dict": gym.spaces.Dict(
        {"a": gym.spaces.Box(-1e9, 1e9, (2,)), "b": gym.spaces.Discrete(9_999)}
    ),
    "frames": gym.spaces.Box(0, 255, (3, 4, 4), np.uint8),
}


class Walk(gym.Env[Any, Any]):
    """Never the same observation twice, in episodes of 3 to 9 steps, every second one truncated."""

    def __init__(self, kind: str = "row", length: int | None = None) -> None:
        self.observation_space, self.action_space = SPACES[kind], gym.spaces.Discrete(2)
        self.kind, self.length, self.count, self.left, self.episode = kind, length, 0, 0, 0
        self.stack: Any = None

    def look(self) -> Any:
        self.count += 1
        n = self.count
        if self.kind == "number":
            return n
        if self.kind == "dict":
            return {"a": np.array([n, -n], np.float32), "b": n}
        if self.kind == "frames":
            frame = np.random.default_rng(n).integers(0, 256, (1, 4, 4), np.uint8)
            start = not self.left
            self.stack = np.repeat(frame, 3, 0) if start else np.r_[self.stack[1:], frame]
            return self.stack
        return np.array([n, self.episode, -n], self.observation_space.dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self.left, self.episode = 0, self.episode + 1
        obs = self.look()
        self.left = self.length or 3 + int(self.np_random.integers(7))
        return obs, {}

    def step(self, action: Any) -> Any:  # noqa: ARG002
        obs = self.look()
        self.left -= 1
        ended, cut = self.left == 0, self.episode % 2 == 1
        return obs, 0.0, ended and not cut, ended and cut, {}


def vector(kind: str, mode: AutoresetMode, n_envs: int = 3, length: int | None = None) -> Any:
    return SyncVectorEnv([lambda: Walk(kind, length)] * n_envs, autoreset_mode=mode, copy=True)


def final(info: dict[str, Any], next_obs: Any, e: int) -> None:
    """Put the last observation of an episode in its place."""
    last = info["final_obs"][e]
    if isinstance(next_obs, dict):
        for key, part in next_obs.items():
            part[e] = last[key]
    else:
        next_obs[e] = last


def play(
    buffer: Any, envs: Any, steps: int, *, final_obs: bool = True, flags: bool = True
) -> list[str]:
    """What a loop in CleanRL's manner is warned of."""

    def loop() -> None:
        obs, _ = envs.reset(seed=0)
        for _ in range(steps):
            after, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
            true_after = copy.deepcopy(after)
            for e in np.flatnonzero(info.get("_final_obs", []) if final_obs else []):
                final(info, true_after, int(e))
            buffer.add(
                obs=obs, action=np.zeros(envs.num_envs, np.int64), reward=reward,
                next_obs=true_after, terminated=terminated * flags, truncated=truncated * flags,
            )  # fmt: skip
            obs = after

    return warned(loop)


def made(envs: Any, **options: Any) -> ReplayBuffer:
    options = {"capacity": 500, **options}
    return ReplayBuffer.for_env(envs, **options)


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_right_loop_is_not_warned(kind: str, mode: AutoresetMode) -> None:
    if mode == AutoresetMode.DISABLED:
        return
    envs = vector(kind, mode)
    assert play(made(envs, frame_stack=3 if kind == "frames" else 0), envs, 200) == []


@pytest.mark.parametrize("kind", SPACES)
def test_a_reset_step_that_is_stored_is_named(kind: str) -> None:
    envs = vector(kind, AutoresetMode.NEXT_STEP)
    buffer = made(envs, autoreset="same_step", frame_stack=3 if kind == "frames" else 0)
    if kind == "frames":  # the reset step is no stack shifted by one frame
        with pytest.raises(NeedReplayError, match="not obs shifted by one frame"):
            play(buffer, envs, 200)
        return
    said = play(buffer, envs, 200)
    assert len(said) == 1
    assert "make the buffer with autoreset='next_step'" in said[0]


@pytest.mark.parametrize("kind", SPACES)
def test_a_step_that_is_left_out_is_named(kind: str) -> None:
    envs = vector(kind, AutoresetMode.SAME_STEP)
    buffer = made(envs, autoreset="next_step", frame_stack=3 if kind == "frames" else 0)
    said = play(buffer, envs, 200)
    assert len(said) == 1
    assert "leaves out the first step of every episode. Make the buffer with" in said[0]


@pytest.mark.parametrize("kind", ["row", "float64", "number", "dict"])
def test_the_first_observation_of_the_next_episode_as_next_obs_is_named(kind: str) -> None:
    envs = vector(kind, AutoresetMode.SAME_STEP)
    said = play(made(envs), envs, 200, final_obs=False)
    assert len(said) == 1
    assert "pass the true last one instead (info['final_obs'])" in said[0]


@pytest.mark.parametrize("kind", SPACES)
def test_flags_that_are_never_passed_are_named(kind: str) -> None:
    envs = vector(kind, AutoresetMode.SAME_STEP)
    buffer = made(envs, frame_stack=3 if kind == "frames" else 0)
    said = play(buffer, envs, 200, flags=False)
    assert len(said) == 1
    assert "though no episode had ended. Pass terminated and truncated" in said[0]


class Loop(gym.Env[Any, Any]):
    """Four states in a ring; an episode may end where the next one begins."""

    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(2)

    def __init__(self, length: int, truncates: bool) -> None:
        self.length, self.truncates = length, truncates

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self.state = self.t = 0
        return 0, {}

    def step(self, action: Any) -> Any:
        self.state, self.t = (self.state + int(action)) % 4, self.t + 1
        ended = self.t >= self.length and (self.truncates or self.state == 0)
        return self.state, 0.0, ended and not self.truncates, ended and self.truncates, {}


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("truncates", [False, True])
def test_an_episode_that_ends_where_it_began_is_fine(mode: AutoresetMode, truncates: bool) -> None:
    envs = SyncVectorEnv([lambda: Loop(5, truncates)] * 3, autoreset_mode=mode)
    assert play(made(envs), envs, 300) == []


def one(buffer: ReplayBuffer, env: Any, steps: int, change: Any = None) -> None:
    """A loop with one environment, in which ``change`` may change a step."""
    obs, _ = env.reset(seed=0)
    for t in range(steps):
        after, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        step = {
            "obs": obs, "action": 0, "reward": reward, "next_obs": after, "terminated": terminated,
            "truncated": truncated,
        }  # fmt: skip
        buffer.add(**(change(t, step) if change else step))
        obs = env.reset()[0] if terminated or truncated else after


def test_observations_that_are_normalized_anew_are_not_compared() -> None:
    """``obs`` by other statistics than when it was ``next_obs``: no step follows another."""
    env = Walk()

    def normalized(t: int, step: dict[str, Any]) -> dict[str, Any]:
        scale = np.float32(1 + 1 / (t + 1))
        return {**step, "obs": step["obs"] / scale, "next_obs": step["next_obs"] / scale}

    for autoreset in ("same_step", "next_step"):
        one(made(env, autoreset=autoreset), env, 300, normalized)


@pytest.mark.parametrize("wrapper", [NormalizeObservation, lambda e: FrameStackObservation(e, 4)])
def test_wrappers_that_change_observations_are_fine(wrapper: Any) -> None:
    env = wrapper(Walk())
    one(made(env), env, 300)


def test_lost_lives_end_episodes_without_a_reset() -> None:
    """Flags at every third step of an episode, which goes on: a game over resets now and then."""
    env = Walk(length=9)

    def lives(t: int, step: dict[str, Any]) -> dict[str, Any]:
        return {**step, "terminated": step["terminated"] or t % 3 == 2}

    one(made(env), env, 400, lives)


def test_a_reset_within_an_episode_is_fine_after_cut_and_named_without() -> None:
    env = Walk(length=1_000)
    for cuts in (True, False):
        buffer = made(env)

        def go_on(buffer: ReplayBuffer = buffer, cuts: bool = cuts) -> None:
            for _ in range(20):
                one(buffer, env, 10)
                if cuts:
                    buffer.cut()

        if cuts:
            go_on()
        else:
            with pytest.warns(NeedReplayWarning, match="call cut where you reset it") as caught:
                go_on()
            assert len(caught) == 1


def test_a_loaded_buffer_begins_anew(tmp_path: Any) -> None:
    buffer = made(Walk())
    for _ in range(20):
        one(buffer, Walk(length=1_000), 10)  # another environment, as in another process
        buffer.save(tmp_path / "buffer")
        buffer.load(tmp_path / "buffer")


def test_an_episode_longer_than_the_time_limit_is_named() -> None:
    """In a vector environment by default no observation tells that flags are not passed."""
    gym.register(
        "Watched-v0", lambda **options: Walk(**options), max_episode_steps=20, kwargs={"length": 15}
    )
    envs = gym.make_vec("Watched-v0", 2)
    for flags in (True, False):
        buffer = made(envs, sampler=UniformSampler())
        assert play(buffer, envs, 100, flags=flags) == []
        said = warned(sample, buffer, 50)
        assert len(said) == (not flags)
        if not flags:
            assert "environment 0 has 100 steps so far, and its time limit is 20. Pass" in said[0]
    single = gym.make("Watched-v0")
    several = SyncVectorEnv([lambda: gym.make("Watched-v0")] * 2)  # has no spec itself
    for env in (single, several, envs):
        assert made(env)._contents.watch.time_limit == 20
    assert made(Walk())._contents.watch.time_limit is None


def test_flags_that_are_never_passed_are_named_without_a_time_limit() -> None:
    """30,001 steps of two environments that reset in the next step."""
    spaces = gym.spaces.Discrete(5), gym.spaces.Discrete(2)
    zeros = np.zeros(2, np.int64)
    step = {"obs": zeros, "action": zeros, "reward": zeros * 0.0, "next_obs": zeros}
    for ends, said in ((None, 1), (20_000, 0)):
        buffer = ReplayBuffer.for_spaces(
            *spaces, capacity=50, n_envs=2, autoreset="next_step", sampler=UniformSampler()
        )
        for t in range(30_001):
            ended = np.array([False, t == ends])
            buffer.add(**step, terminated=ended, truncated=np.zeros(2, bool))
        assert len(warned(sample, buffer, 200)) == said


# Numbers that are not finite ---------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["row", "float64", "dict"])
@pytest.mark.parametrize("name", ["obs", "next_obs"])
def test_an_observation_that_is_not_finite_is_named(kind: str, name: str, value: float) -> None:
    envs = vector(kind, AutoresetMode.SAME_STEP)
    buffer, (obs, _) = made(envs), envs.reset()
    step = {
        "obs": obs, "next_obs": copy.deepcopy(obs), "action": np.zeros(3, np.int64),
        "reward": np.zeros(3), "terminated": np.zeros(3, bool), "truncated": np.zeros(3, bool),
    }  # fmt: skip
    (obs["a"] if kind == "dict" else obs)[:] = -np.finfo(np.float32).max
    buffer.add(**step)
    wrong = copy.deepcopy(step)
    (wrong[name]["a"] if kind == "dict" else wrong[name])[2, 1] = value
    with pytest.warns(NeedReplayWarning, match=f"{name}.* of environment 2 has NaN"):
        buffer.add(**wrong)
    buffer.add(**wrong)
    with pytest.raises(NeedReplayError, match="reward of row 1 is nan"):
        buffer.add(**wrong | {"reward": np.array([0.0, np.nan, 0.0])})
    assert len(buffer) == 9


@pytest.mark.parametrize(
    "reward",
    [np.float32(np.nan), np.inf, [-np.inf, 0.0], 1e38, -(2.0**125), np.float32(2.0**125), 1e300],
)
@pytest.mark.parametrize("kind", ["row", "frames"])
def test_a_reward_that_is_not_finite_is_rejected(kind: str, reward: Any) -> None:
    """An n-step return, and every priority along its episode, would be lost with it."""
    n = len(reward) if isinstance(reward, list) else 1
    space = SPACES[kind]
    options: Any = {"n_envs": n, "autoreset": "same_step", "n_step": 3}
    if kind == "frames":
        options["frame_stack"] = 3
    buffer = ReplayBuffer.for_spaces(space, gym.spaces.Discrete(2), capacity=9, **options)
    obs = np.zeros((n, *space.shape), space.dtype)
    step: dict[str, Any] = {
        "obs": obs, "action": np.zeros(n, np.int64), "next_obs": obs,
        "terminated": np.zeros(n, bool), "truncated": np.zeros(n, bool),
    }  # fmt: skip
    before = {name: array.copy() for name, array in buffer.arrays().items()}
    with pytest.raises(NeedReplayError, match=r"reward of row 0 is .* float32. Nothing"):
        buffer.add(**step, reward=reward if n > 1 else np.array([reward]))
    for name, array in buffer.arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    buffer.add(**step, reward=np.zeros(n))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_step", "power"), [(1, 127), (2, 126), (3, 125), (4, 125), (5, 124)])
def test_a_return_of_finite_rewards_is_finite(n_step: int, power: int, dtype: Any) -> None:
    """The largest rewards that are taken: n_step * 2^power is at most 2^127, and fits a float32."""
    columns = {"obs": np.float32, "action": np.int64}
    buffer = ReplayBuffer(20, columns, episodes=Episodes(n_step=n_step, discount=1.0))
    largest = np.nextafter(dtype(2.0**power), dtype(0))
    step = {"obs": 0.0, "next_obs": 0.0, "action": 0, "truncated": False}
    with pytest.raises(NeedReplayError, match=r"below .* float32"):
        buffer.add(**step, reward=dtype(2.0**power), terminated=False)
    for t in range(7):
        buffer.add(**step, reward=largest, terminated=t == 6)
    rewards = buffer[:]["reward"]
    np.testing.assert_allclose(rewards[0], n_step * float(largest), rtol=1e-6)
    assert np.isfinite(rewards).all()


def test_a_plain_buffer_looks_at_columns_of_these_names() -> None:
    columns = {"obs": np.float32, "reward": np.float64, "value": np.float32}
    buffer = ReplayBuffer(10, columns)
    buffer.add(obs=0.0, reward=0.0, value=np.nan)
    with pytest.warns(NeedReplayWarning, match="reward of row 1 has NaN or infinity"):
        buffer.add(
            obs=np.zeros(2, np.float32), reward=np.array([0, np.inf]), value=np.zeros(2, np.float32)
        )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", SPACES)
def test_a_warning_that_is_an_error_leaves_the_buffer_whole(kind: str) -> None:
    envs = vector(kind, AutoresetMode.SAME_STEP)
    buffer = made(envs, autoreset="next_step", frame_stack=3 if kind == "frames" else 0)
    obs, _ = envs.reset(seed=0)
    raised = 0
    for _ in range(100):
        after, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
        true_after = copy.deepcopy(after)
        for e in np.flatnonzero(info.get("_final_obs", [])):
            final(info, true_after, int(e))
        step = {
            "obs": obs, "action": np.zeros(3, np.int64), "reward": reward, "next_obs": true_after,
            "terminated": terminated, "truncated": truncated,
        }  # fmt: skip
        try:
            buffer.add(**step)
        except NeedReplayWarning:
            raised += 1
            buffer.check_valid()
            buffer.add(**step)
        obs = after
    buffer.check_valid()
    assert raised == 1


# Calls that are forgotten ------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "FORGOTTEN", 40)


def warned(call: Any, *args: Any, **options: Any) -> list[str]:
    """What a call is warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args, **options)
    assert all(each.category is NeedReplayWarning for each in caught)
    assert all(each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught]


def sample(buffer: ReplayBuffer, batches: int, **options: Any) -> None:
    for _ in range(batches):
        buffer.sample(2, **options)


def filled(sampler: Any, count: int = 30, **values: Any) -> ReplayBuffer:
    buffer = ReplayBuffer(50, {"x": np.int64}, sampler=sampler)
    buffer.add(x=np.arange(count), **values)
    return buffer


def test_priorities_that_are_never_updated_are_named() -> None:
    buffer = filled(ProportionalSampler())
    (said,) = warned(sample, buffer, 200)
    assert "40 batches were sampled, and every priority is still 1" in said
    fine = filled(ProportionalSampler()), filled(ProportionalSampler(0.0)), filled(UniformSampler())
    fine[0].update_priorities([3], [0.5])
    for buffer in fine:
        sample(buffer, 200)


def test_updated_priorities_whose_transitions_are_gone_are_fine() -> None:
    buffer = ReplayBuffer(1, {"x": np.int64}, sampler=ProportionalSampler())
    for _ in range(200):
        buffer.add(x=1)
        buffer.update_priorities(buffer.sample(2).ids[:1], [0.5])
        buffer.add(x=2)


SAMPLERS: list[Any] = [
    (lambda **o: FeatureNeedSampler(2, **o), "features", np.ones((20, 2)), "set_features"),
    (lambda **o: StateNeedSampler(2, **o), "state", np.ones(20, np.int64), "set_states"),
]


@pytest.mark.parametrize(("sampler", "name", "info", "later"), SAMPLERS, ids=["features", "state"])
@pytest.mark.parametrize("mix", [0.0, 0.5])
def test_transitions_without_need_are_named(
    sampler: Any, name: str, info: Any, later: str, mix: float
) -> None:
    buffer = filled(sampler(uniform_mix=mix), 20, **{name: info})
    buffer.update_priorities([0], [2.0])
    for _ in range(30):
        buffer.sample(2, need=np.ones(2))
    ids = np.array(buffer.add(x=np.arange(5)))
    said = f"5 of 25 transitions have no .* sampled {'only uniformly' if mix else 'never'}"
    (found,) = warned(sample, buffer, 300, need=np.ones(2))
    assert re.search(said, found)
    again = filled(sampler(uniform_mix=mix), 20, **{name: info})
    again.update_priorities([0], [2.0])
    for _ in range(300):
        ids = np.array(again.add(x=np.arange(5)))
        again.sample(2, need=np.ones(2))
        getattr(again, later)(ids, info[:5])  # later, but not too late

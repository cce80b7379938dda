"""What a new user runs into: each of these went wrong in silence, or with an unclear error."""

from __future__ import annotations

import copy
import inspect
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay.replay import (
    Episodes,
    LinearBeta,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    ReplayBuffer,
    UniformSampler,
    storage,
)
from needreplay.replay.samplers import ExhaustiveNeedSampler, FeatureNeedSampler, StateNeedSampler

COLUMNS = {"x": np.int64}


@pytest.mark.parametrize("make", [RankSampler, ProportionalSampler, UniformSampler])
def test_a_sampler_belongs_to_one_buffer(make: Any) -> None:
    sampler = make()
    first = ReplayBuffer(8, COLUMNS, sampler=sampler)
    first.add(x=np.arange(8))
    with pytest.raises(NeedReplayError, match="belongs to another buffer"):
        ReplayBuffer(4, COLUMNS, sampler=sampler)
    assert len(first.sample(5)) == 5
    ReplayBuffer(4, COLUMNS, sampler=copy.copy(sampler)).add(x=1)
    first.check_valid()
    del first
    ReplayBuffer(4, COLUMNS, sampler=sampler)


def test_a_copied_sampler_has_the_settings_and_is_empty() -> None:
    samplers = [
        PSERSampler(0.5, retained=0.1, decay=0.2, window=3, stratified=False, uniform_mix=0.25),
        FeatureNeedSampler(3, backward=True, need_alpha=2.0, correct_for="both"),
        RecencySampler(7, alpha=0.5, uniform_mix=0.25),
        RankSampler(0.1, exact=True),
    ]
    for sampler in samplers:
        for copied in (copy.copy(sampler), copy.deepcopy(sampler)):
            assert copied is not sampler
            assert repr(copied) == repr(sampler)
    assert repr(samplers[2]) == "RecencySampler(mean_age=7.0, alpha=0.5, uniform_mix=0.25)"
    assert repr(samplers[3]) == "RankSampler(alpha=0.1, exact=True)"
    assert repr(ProportionalSampler(0.6)) == "ProportionalSampler()"


def steps(replay: ReplayBuffer, values: list[float], env: int = 0, n_envs: int = 1) -> None:
    """Steps from each value to the next, in all environments at once, with reward 1."""
    for value, after in itertools.pairwise(values):
        shift = 100.0 * np.arange(n_envs)
        replay.add(
            obs=value + shift, action=np.zeros(n_envs, int), reward=np.ones(n_envs),
            next_obs=after + shift, terminated=np.zeros(n_envs, bool),
            truncated=np.zeros(n_envs, bool),
        )  # fmt: skip


def rows(replay: ReplayBuffer) -> list[tuple[float, ...]]:
    stored = replay.read(np.arange(replay.oldest_id, replay.next_id))
    columns = (stored[name].tolist() for name in ("obs", "reward", "next_obs", "discount"))
    return list(zip(*columns, strict=True))


def episodic(n_envs: int = 1, **options: Any) -> ReplayBuffer:
    episodes = Episodes(n_envs=n_envs, n_step=3, discount=0.5, autoreset="same_step")
    columns = {"obs": np.float64, "action": np.int64}
    return ReplayBuffer(50, columns, episodes=episodes, **options)


def test_a_cut_closes_open_windows_as_a_truncation_does() -> None:
    replay = episodic()
    steps(replay, [0, 1, 2])  # two steps, no window closed
    assert len(replay) == 0
    assert replay.cut() == range(2)
    assert rows(replay) == [(0.0, 1.5, 2.0, 0.25), (1.0, 1.0, 2.0, 0.5)]
    steps(replay, [10, 11, 12, 13])  # another episode: nothing of it is in the first
    assert rows(replay)[2:] == [(10.0, 1.75, 13.0, 0.125)]
    assert replay.cut() == range(3, 5)
    assert replay.cut() == range(5, 5)
    replay.check_valid()


def test_a_cut_of_one_environment_leaves_the_others_open() -> None:
    replay = episodic(2)
    steps(replay, [0, 1], n_envs=2)
    replay.cut(env=1)
    assert rows(replay) == [(100.0, 1.0, 101.0, 0.5)]
    steps(replay, [1, 2, 3], n_envs=2)  # closes the window of environment 0
    assert rows(replay)[1:] == [(0.0, 1.75, 3.0, 0.125)]
    assert replay.future([0, 1], 1).tolist() == [-1, -1]
    for env in (2, -1, 1.0):
        with pytest.raises(NeedReplayError, match="env is"):
            replay.cut(env=env)  # type: ignore[arg-type]


def test_a_cut_comes_before_no_reset_step() -> None:
    episodes = Episodes(n_envs=1, autoreset="next_step")
    replay = ReplayBuffer(9, {"obs": np.float64, "action": np.int64}, episodes=episodes)
    common = {"action": 0, "reward": 0.0, "truncated": False}
    replay.add(obs=0.0, next_obs=1.0, terminated=True, **common)
    replay.cut()  # the user resets; the environment does not
    assert replay.add(obs=5.0, next_obs=6.0, terminated=False, **common) == range(1, 2)


def test_a_rejected_step_changes_nothing_that_a_cut_stores() -> None:
    replay = episodic()
    steps(replay, [0, 1])
    step = {"obs": 5.0, "action": 0, "reward": 0.0, "next_obs": 6.0, "terminated": False}
    with pytest.raises(NeedReplayError):
        replay.add(**step, truncated="no")
    replay.cut()
    assert rows(replay) == [(0.0, 1.0, 1.0, 0.5)]


def test_a_plain_buffer_has_nothing_to_cut() -> None:
    with pytest.raises(NeedReplayError, match="no episodes to cut"):
        ReplayBuffer(3, COLUMNS).cut()


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_for_env_reads_when_a_vector_resets(mode: str) -> None:
    """In either mode every stored transition is one that CartPole's equations make."""
    chosen = getattr(gym.vector.AutoresetMode, mode)
    env = gym.make_vec(
        "CartPole-v1", 3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": chosen}
    )
    replay = ReplayBuffer.for_env(env, capacity=2_000, sampler=UniformSampler())
    obs, _ = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        action = rng.integers(0, 2, 3)
        then, reward, terminated, truncated, info = env.step(action)
        last = then.copy()
        for e in np.flatnonzero(info.get("_final_obs", np.zeros(3, bool))):
            last[e] = info["final_obs"][e]
        replay.add(
            obs=obs, action=action, reward=reward, next_obs=last,
            terminated=terminated, truncated=truncated,
        )  # fmt: skip
        obs = then
    stored = replay.read(np.arange(len(replay)))
    # x' = x + 0.02 v and angle' = angle + 0.02 w
    for k in (0, 2):
        expected = stored["obs"][:, k] + 0.02 * stored["obs"][:, k + 1]
        np.testing.assert_allclose(stored["next_obs"][:, k], expected, atol=1e-6)
    assert len(replay) > 500


def test_for_env_takes_one_environment_and_options() -> None:
    env = gym.make("CartPole-v1")
    replay = ReplayBuffer.for_env(env, capacity=5, n_step=2, sampler=UniformSampler())
    assert replay._writer.settings()["n_step"] == 2
    assert replay._writer.settings()["autoreset"] == "same_step"
    again = ReplayBuffer.for_env(gym.wrappers.Autoreset(env), capacity=5)
    assert again._writer.settings()["autoreset"] == "next_step"


def test_several_environments_say_when_they_reset() -> None:
    space = gym.spaces.Discrete(2)
    with pytest.raises(NeedReplayError, match="say when environments reset"):
        ReplayBuffer.for_spaces(space, space, capacity=5, n_envs=2)
    with pytest.raises(NeedReplayError, match="say when environments reset"):
        Episodes(n_envs=2)


def test_a_batch_of_tensors_shares_memory() -> None:
    torch = pytest.importorskip("torch")
    spaces = gym.spaces.Dict(a=gym.spaces.Box(0, 1, (2,)), b=gym.spaces.Discrete(3))
    replay = ReplayBuffer(5, {"obs": spaces, "done": np.bool_})
    replay.add(obs={"a": np.ones((5, 2), np.float32), "b": np.arange(5) % 3}, done=np.ones(5, bool))
    batch = replay.sample(4)
    tensors = batch.torch()
    assert tensors["obs"]["a"].data_ptr() == batch["obs"]["a"].ctypes.data
    assert tensors["obs"]["a"].dtype == tensors.weights.dtype == torch.float32
    assert tensors["done"].dtype == torch.bool
    assert tensors.ids is batch.ids
    assert batch.weights.dtype == np.float64
    assert replay.sample(4).torch("meta")["done"].device.type == "meta"
    with pytest.raises(NeedReplayError, match="device is 'cuda:99', which torch cannot use here"):
        replay.sample(4).torch("cuda:99")
    wide = ReplayBuffer(5, {"x": np.float64})
    wide.add(x=np.ones(5))
    assert wide.sample(2).torch().weights.dtype == torch.float64


def test_defaults_are_the_same_in_buffer_and_agents() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("stable_baselines3")
    from needlab.deep import DeepSettings
    from needreplay import NeedBuffer
    from needreplay.integrations.sb3 import NeedReplay

    agent = DeepSettings()
    for sampler in (StateNeedSampler(2), FeatureNeedSampler(2), ExhaustiveNeedSampler()):
        assert sampler.need_alpha == agent.need_alpha
        assert sampler.correct_for == agent.correct_for
        assert sampler.alpha == agent.alpha == ProportionalSampler().alpha
        assert sampler.uniform_mix == agent.uniform_mix
    made = inspect.signature(NeedBuffer).parameters
    for replay in (agent, NeedReplay()):
        assert replay.learn_every == made["learn_every"].default
        assert replay.refresh == made["refresh"].default


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"alpha": 0.6}, r"sampler=ProportionalSampler\(alpha"),
        ({"gamma": 0.9}, "discount"),
        ({"priority_exponent": 0.6}, r"ProportionalSampler\(alpha"),
        ({"buffer_size": 10}, "capacity"),
        ({"sampler": "per"}, r"ProportionalSampler\(alpha=0\.6\)"),
        ({"sampler": ProportionalSampler}, "pass an object"),
        ({"smapler": None}, r"did you mean sampler\?$"),
        ({"zzz": 1}, "there are capacity, columns"),
    ],
)
def test_names_of_other_libraries_get_a_hint(options: dict[str, Any], hint: str) -> None:
    with pytest.raises(NeedReplayError, match=hint):
        ReplayBuffer(5, COLUMNS, **options)


def test_columns_of_other_libraries_get_a_hint() -> None:
    step = {"obs": 0.0, "action": 0, "reward": 0.0}
    with pytest.raises(NeedReplayError, match="Pass done as terminated and truncated"):
        episodic().add(**step, next_state=1.0, done=True)
    with pytest.raises(NeedReplayError, match="Pass next_state as next_obs"):
        episodic().add(**step, next_state=1.0, done=True)


def test_columns_that_a_batch_does_not_have_get_a_hint() -> None:
    replay = episodic()
    replay.add(obs=0.0, action=0, reward=0.0, next_obs=1.0, terminated=True, truncated=False)
    batch = replay.sample(2)
    assert batch["discount"].tolist() == [0.0, 0.0]
    for name in ("terminated", "dones"):
        with pytest.raises(NeedReplayError, match=rf"no column '{name}'; it has .*discount.* is 0"):
            batch[name]
    with pytest.raises(NeedReplayError, match=r'Use batch\["next_obs"\]'):
        batch["next_observations"]
    with pytest.raises(NeedReplayError, match=r"it has obs, action, next_obs, reward, discount\.$"):
        batch["zzz"]


def test_an_id_is_no_environment() -> None:
    with pytest.raises(NeedReplayError, match=r"pass .* gymnasium.make\('CartPole-v1'\)"):
        ReplayBuffer.for_env("CartPole-v1", capacity=5)
    with pytest.raises(NeedReplayError, match="pass the environment itself"):
        ReplayBuffer.for_env(None, capacity=5)


@pytest.mark.parametrize("beta", [[0.4, 1.0], (0.4, 1.0)])
def test_a_pair_of_betas_is_a_schedule(beta: Any) -> None:
    with pytest.raises(NeedReplayError, match=r"LinearBeta\(start, end, batches\)"):
        ReplayBuffer(5, COLUMNS, beta=beta)


def test_a_buffer_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is 2 x 28,224 bytes and 24; a frame 7,056 bytes."""
    stacks = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    spaces, options = (stacks, gym.spaces.Discrete(3)), {"capacity": 1_000_000}
    monkeypatch.setattr(storage, "memory", lambda: 16.0 * 2**30)
    match = r"(?s)capacity is 1,000,000: .* 52\.6 GiB.* 16\.0 GiB.* obs, 28,224 bytes.*frame_stack"
    with pytest.raises(NeedReplayError, match=match):
        ReplayBuffer.for_spaces(*spaces, **options)  # type: ignore[arg-type]
    monkeypatch.setattr(storage, "memory", lambda: 6.5 * 2**30)
    with pytest.raises(NeedReplayError, match=r"capacity is .* 6\.6 GiB.*a frame, 7,056 bytes"):
        ReplayBuffer.for_spaces(*spaces, frame_stack=4, **options)  # type: ignore[arg-type]
    ReplayBuffer.for_spaces(*spaces, capacity=10)


def test_a_buffer_tells_what_it_is() -> None:
    replay = ReplayBuffer(50, COLUMNS)
    replay.add(x=np.arange(7))
    said = repr(replay)
    assert said.startswith("<ReplayBuffer: 7 of 50 transitions, ProportionalSampler()")
    assert f"{replay.nbytes:,} bytes" in said


@pytest.mark.parametrize(
    ("kind", "plain", "typed"),
    [
        (ProportionalSampler, {"alpha": 0.5, "uniform_mix": 0.25}, {
            "alpha": np.float32(0.5), "stratified": np.True_, "uniform_mix": np.float16(0.25)}),
        (RankSampler, {"alpha": 0.5, "exact": True}, {"alpha": np.float64(0.5), "exact": np.True_}),
        (PSERSampler, {"window": 3}, {"window": np.uint8(3)}),
        (StateNeedSampler, {"n_states": 4}, {"n_states": np.int32(4)}),
        (FeatureNeedSampler, {"n_features": 4, "backward": True}, {
            "n_features": np.int64(4), "backward": np.True_, "need_alpha": np.int8(1)}),
        (ExhaustiveNeedSampler, {"n_features": 4}, {
            "n_features": np.int64(4), "backward": np.False_}),
    ],
)  # fmt: skip
def test_settings_of_numpy_types_are_plain(
    kind: Any, plain: Any, typed: Any, tmp_path: Path
) -> None:
    def made(sampler: Any, whole: Any, real: Any) -> ReplayBuffer:
        episodes = Episodes(
            n_envs=whole(2), n_step=whole(3), discount=real(0.5), autoreset="next_step"
        )
        return ReplayBuffer(
            whole(9), {"obs": np.float32, "action": np.int8}, sampler=sampler, episodes=episodes,
            beta=LinearBeta(real(0.5), real(1.0), whole(9)),
        )  # fmt: skip

    replay, again = made(kind(**plain), int, float), made(kind(**typed), np.int64, np.float32)
    assert repr(replay._contents.settings()) == repr(again._contents.settings())
    again.save(tmp_path / "replay")
    replay.load(tmp_path / "replay")
    with pytest.raises(NeedReplayError, match="True or False"):
        ProportionalSampler(stratified="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "code", ["from needreplay import *", "import pydoc; pydoc.render_doc('needreplay')"]
)
def test_the_package_is_read_without_torch(code: str) -> None:
    without = "import sys; sys.modules['torch'] = None\n"
    done = subprocess.run([sys.executable, "-c", without + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""The same small jobs, done by this library and by its peers, each as its own manual says.

A ``Job`` is one library doing one task: a function to be timed. A library that is not installed, or
that has nothing like the task, has no job.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from needreplay.replay import Episodes, ProportionalSampler, ReplayBuffer, UniformSampler

Job = Callable[[], object]
Maker = Callable[[str, int], Job | None]

ALPHA, BETA = 0.6, 0.4
N_STEP, DISCOUNT = 3, 0.99
OBS, ACTIONS = 4, 4
STACK, SIDE = 4, 84
CHUNK = 10_000
FILL = np.random.default_rng(0)


def transitions(count: int) -> dict[str, Any]:
    """``count`` random small transitions."""
    return {
        "obs": FILL.random((count, OBS), dtype=np.float32),
        "action": FILL.integers(0, ACTIONS, count),
        "reward": FILL.random(count, dtype=np.float32),
        "next_obs": FILL.random((count, OBS), dtype=np.float32),
        "terminated": np.zeros(count, dtype=np.bool_),
        "truncated": np.zeros(count, dtype=np.bool_),
    }


def turns(values: list[Any]) -> Callable[[], Any]:
    """One value after the other, in turn: no job is measured on a single input."""
    place = -1

    def turn() -> Any:
        nonlocal place
        place = (place + 1) % len(values)
        return values[place]

    return turn


def priorities(size: int) -> Callable[[], Any]:
    """Priorities for a batch, other ones each time."""
    return turns([FILL.random(size) for _ in range(64)])


# needreplay ---------------------------------------------------------------------------------------

PLAIN = {
    "obs": (np.float32, OBS),
    "action": np.int64,
    "reward": np.float32,
    "next_obs": (np.float32, OBS),
    "discount": np.float32,
}


def needreplay_job(task: str, capacity: int) -> Job | None:
    """Our own."""
    if task.startswith("frames"):
        return _our_frames(task, capacity)
    sampler = UniformSampler() if task.startswith("uniform") else ProportionalSampler(ALPHA)
    if task.startswith("step"):
        return _our_steps(capacity, int(task.split()[-1]))
    replay = ReplayBuffer(capacity, PLAIN, sampler=sampler, beta=BETA)
    for _ in range(0, capacity, CHUNK):
        values = _as_plain(transitions(min(CHUNK, capacity)))
        replay.update_priorities(replay.add(**values), FILL.random(len(values["reward"])))
    size = int(task.split()[-1])
    if task.startswith("add"):
        values = _as_plain(transitions(size))
        if size == 1:
            values = {name: value[0] for name, value in values.items()}
        return lambda: replay.add(**values)
    if task.startswith("uniform"):
        return lambda: replay.sample(size)
    values_of = priorities(size)

    def cycle() -> None:
        replay.update_priorities(replay.sample(size).ids, values_of())

    return cycle


def _as_plain(values: dict[str, Any]) -> dict[str, Any]:
    ended = values.pop("terminated")
    values.pop("truncated")
    return {**values, "discount": np.where(ended, 0.0, 0.99).astype(np.float32)}


def _our_steps(capacity: int, n_envs: int) -> Job:
    columns = {"obs": (np.float32, OBS), "action": np.int64}
    episodes = Episodes(n_envs=n_envs, n_step=N_STEP, discount=DISCOUNT, autoreset="same_step")
    sampler = ProportionalSampler(ALPHA)
    replay = ReplayBuffer(capacity, columns, episodes=episodes, sampler=sampler)
    values = transitions(n_envs)
    if n_envs == 1:
        values = {name: value[0] for name, value in values.items()}
    return lambda: replay.add(**values)


def _our_frames(task: str, capacity: int) -> Job:
    uniform = "uniform" in task
    replay = ReplayBuffer.for_spaces(
        gym.spaces.Box(0, 255, (STACK, SIDE, SIDE), np.uint8),
        gym.spaces.Discrete(ACTIONS),
        capacity=capacity,
        frame_stack=STACK,
        sampler=UniformSampler() if uniform else ProportionalSampler(ALPHA),
    )
    for obs, next_obs in _stacks(capacity):
        replay.add(
            obs=obs, action=1, reward=0.0, next_obs=next_obs, terminated=False, truncated=False
        )
    size = int(task.split()[-1])
    if uniform:
        return lambda: replay.sample(size)
    values_of = priorities(size)
    return lambda: replay.update_priorities(replay.sample(size).ids, values_of())


def _stacks(count: int) -> Any:
    """``count`` steps of an endless episode of random frames, as stacks."""
    frames = FILL.integers(0, 256, (64 + STACK, SIDE, SIDE), dtype=np.uint8)
    for t in range(count):
        places = (t + np.arange(STACK + 1)) % len(frames)
        five = frames[places]
        five[:, 0, 0] = (t + np.arange(STACK + 1)) % 251
        yield five[:-1], five[1:]


# cpprb --------------------------------------------------------------------------------------------


def cpprb_job(task: str, capacity: int) -> Job | None:
    """C++ segment trees behind Cython; frames compressed by its own two options."""
    cpprb = importlib.import_module("cpprb")
    size = int(task.split()[-1])
    if task.startswith("frames"):
        return _cpprb_frames(cpprb, task, capacity, size)
    env = {
        "obs": {"shape": OBS},
        "act": {"dtype": np.int64},
        "rew": {},
        "next_obs": {"shape": OBS},
        "done": {},
    }
    if task.startswith("step"):
        return _cpprb_steps(cpprb, env, capacity) if size == 1 else None
    if task.startswith("uniform"):
        buffer = cpprb.ReplayBuffer(capacity, env)
    else:
        buffer = cpprb.PrioritizedReplayBuffer(capacity, env, alpha=ALPHA)
    for _ in range(0, capacity, CHUNK):
        values = _as_cpprb(transitions(min(CHUNK, capacity)))
        more = {} if task.startswith("uniform") else {"priorities": FILL.random(len(values["rew"]))}
        buffer.add(**values, **more)
    if task.startswith("add"):
        values = _as_cpprb(transitions(size))
        if size == 1:
            values = {name: value[0] for name, value in values.items()}
        return lambda: buffer.add(**values)
    if task.startswith("uniform"):
        return lambda: buffer.sample(size)
    values_of = priorities(size)

    def cycle() -> None:
        buffer.update_priorities(buffer.sample(size, beta=BETA)["indexes"], values_of())

    return cycle


def _cpprb_steps(cpprb: Any, env: dict[str, Any], capacity: int) -> Job:
    """Its n-step option takes one environment at a time."""
    window = {"size": N_STEP, "gamma": DISCOUNT, "rew": "rew", "next": "next_obs"}
    buffer = cpprb.PrioritizedReplayBuffer(capacity, env, alpha=ALPHA, Nstep=window)
    values = {name: value[0] for name, value in _as_cpprb(transitions(1)).items()}
    return lambda: buffer.add(**values)


def _as_cpprb(values: dict[str, Any]) -> dict[str, Any]:
    names = {"obs": "obs", "act": "action", "rew": "reward", "next_obs": "next_obs"}
    done = values["terminated"].astype(np.float32)
    return {name: values[ours] for name, ours in names.items()} | {"done": done}


def _cpprb_frames(cpprb: Any, task: str, capacity: int, size: int) -> Job:
    env = {"obs": {"shape": (SIDE, SIDE, STACK), "dtype": np.uint8}, "act": {"dtype": np.int64}}
    env |= {"rew": {}, "done": {}}
    options = {"next_of": "obs", "stack_compress": "obs"}
    uniform = "uniform" in task
    if uniform:
        buffer = cpprb.ReplayBuffer(capacity, env, **options)
    else:
        buffer = cpprb.PrioritizedReplayBuffer(capacity, env, alpha=ALPHA, **options)
    for obs, next_obs in _stacks(capacity):
        last = {"obs": np.moveaxis(obs, 0, -1), "next_obs": np.moveaxis(next_obs, 0, -1)}
        buffer.add(**last, act=1, rew=0.0, done=0.0)
    if uniform:
        return lambda: buffer.sample(size)
    values_of = priorities(size)
    return lambda: buffer.update_priorities(buffer.sample(size, beta=BETA)["indexes"], values_of())


# tianshou -----------------------------------------------------------------------------------------


def tianshou_job(task: str, capacity: int) -> Job | None:
    """numpy columns, a numba segment tree; frames rebuilt from a single column."""
    data = importlib.import_module("tianshou.data")
    size = int(task.split()[-1])
    if task.startswith("frames"):
        return _tianshou_frames(data, task, capacity, size)
    if task.startswith("step") or (task.startswith("add") and size > 1):
        return None
    if task.startswith("uniform"):
        buffer = data.ReplayBuffer(capacity)
    else:
        buffer = data.PrioritizedReplayBuffer(capacity, alpha=ALPHA, beta=BETA)
    one = {name: value[0] for name, value in transitions(1).items()}
    batch = _as_tianshou(data, one)
    buffer.add(batch)
    _fill_tianshou(buffer, transitions(capacity), capacity)
    if task.startswith("add"):
        return lambda: buffer.add(batch)
    if task.startswith("uniform"):
        return lambda: buffer.sample(size)
    buffer.update_weight(np.arange(capacity), FILL.random(capacity))
    values_of = priorities(size)

    def cycle() -> None:
        buffer.update_weight(buffer.sample(size)[1], values_of())

    return cycle


def _as_tianshou(data: Any, values: dict[str, Any]) -> Any:
    return data.Batch(
        obs=values["obs"],
        act=values["action"],
        rew=values["reward"],
        obs_next=values["next_obs"],
        terminated=values["terminated"],
        truncated=values["truncated"],
        info={},
    )


def _fill_tianshou(buffer: Any, values: dict[str, Any], capacity: int) -> None:
    """Fill the columns at once: adding one by one would take minutes."""
    names = {"obs": "obs", "act": "action", "rew": "reward", "obs_next": "next_obs"}
    for name, ours in names.items():
        buffer._meta[name][:] = values[ours]
    buffer._size, buffer._insertion_idx = capacity, 0


def _tianshou_frames(data: Any, task: str, capacity: int, size: int) -> Job:
    options = {"stack_num": STACK, "ignore_obs_next": True, "save_only_last_obs": True}
    uniform = "uniform" in task
    if uniform:
        buffer = data.ReplayBuffer(capacity, **options)
    else:
        buffer = data.PrioritizedReplayBuffer(capacity, alpha=ALPHA, beta=BETA, **options)
    values = {"action": 1, "reward": 0.0, "terminated": False, "truncated": False}
    for obs, next_obs in _stacks(capacity):
        buffer.add(_as_tianshou(data, {"obs": obs, "next_obs": next_obs, **values}))
    if uniform:
        return lambda: buffer.sample(size)
    values_of = priorities(size)
    return lambda: buffer.update_weight(buffer.sample(size)[1], values_of())


# Stable-Baselines3 --------------------------------------------------------------------------------


def stable_baselines3_job(task: str, capacity: int) -> Job | None:
    """No priorities, no stacks stored once; hands out torch tensors."""
    buffers = importlib.import_module("stable_baselines3.common.buffers")
    size = int(task.split()[-1])
    action = gym.spaces.Discrete(ACTIONS)
    if task.startswith("frames uniform"):
        space: Any = gym.spaces.Box(0, 255, (STACK, SIDE, SIDE), np.uint8)
        buffer = buffers.ReplayBuffer(capacity, space, action, device="cpu", n_envs=1)
        rest: Any = (np.array([1]), np.array([0.0]), np.array([False]), [{}])
        for obs, next_obs in _stacks(capacity):
            buffer.add(obs, next_obs, *rest)
        return lambda: buffer.sample(size)
    if not task.startswith(("uniform", "add", "step")):
        return None
    n_envs = 1 if task.startswith("uniform") else size
    space = gym.spaces.Box(-1, 1, (OBS,), np.float32)
    options: dict[str, Any] = {"device": "cpu", "n_envs": n_envs}
    if task.startswith("step"):
        options |= {"n_steps": N_STEP, "gamma": DISCOUNT}
        buffer = buffers.NStepReplayBuffer(capacity, space, action, **options)
    else:
        buffer = buffers.ReplayBuffer(capacity, space, action, **options)
    values = transitions(n_envs)
    infos: list[dict[str, Any]] = [{} for _ in range(n_envs)]
    arguments = (
        values["obs"],
        values["next_obs"],
        values["action"][:, None],
        values["reward"],
        values["terminated"],
        infos,
    )
    if not task.startswith("uniform"):
        return lambda: buffer.add(*arguments)
    many = transitions(capacity)
    buffer.observations[:, 0], buffer.next_observations[:, 0] = many["obs"], many["next_obs"]
    buffer.full = True
    return lambda: buffer.sample(size)


LIBRARIES: dict[str, tuple[str, Maker]] = {
    "needreplay": ("needreplay", needreplay_job),
    "cpprb": ("cpprb", cpprb_job),
    "tianshou": ("tianshou", tianshou_job),
    "stable-baselines3": ("stable_baselines3", stable_baselines3_job),
}


def version_of(library: str) -> str | None:
    """The installed version, or ``None``."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None

"""Replay that processes share: this library's on Ray beside RLlib's, Reverb's and TorchRL's.

    python benchmarks/distributed_peers.py --python rllib=ENV/bin/python --python reverb=... \
        --python torchrl=... --json results/bench/distributed_peers.json

Each library runs in a process of its own, with the Python that is named for it (each needs numpy;
``pip install "ray[rllib]==2.60.0" torch``, ``dm-reverb[tensorflow]==0.14.0``, ``torchrl ray``). The
processes take turns, so a round is a ratio of times that were taken one after the other. One thread
adds steps in blocks of 64, or samples batches and updates their priorities.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

CAPACITY, BLOCK, FILLED = 20_000, 64, 1_984
KINDS = {"small rows": ((4,), np.float32, 256), "stacks": ((4, 84, 84), np.uint8, 32)}
BLOCKS, BATCHES = 8, 10
"""In a round."""
SPLIT = 100
"""Steps of an episode."""
Jobs = tuple[Callable[[int], object], Callable[[], object]]
"""What adds a block, and what samples a batch and updates its priorities."""


def steps_of(kind: str, count: int = 512) -> dict[str, Any]:
    """Steps of one environment; of stacks each is its predecessor, shifted by one frame."""
    shape, dtype, _ = KINDS[kind]
    rng, stack = np.random.default_rng(0), kind == "stacks"
    at = np.arange(count) + 5 * (np.arange(count) // SPLIT)  # other frames in each episode
    one = shape[1:] if stack else shape
    frames = (255 * rng.random((at[-1] + 6, *one))).astype(dtype)
    stacks = [
        np.stack([frames[at + k + j] for k in range(4)], axis=1) if stack else frames[at + j]
        for j in (0, 1)
    ]
    return {
        "frames": frames[at + 3] if stack else frames[at],
        "obs": stacks[0],
        "next_obs": stacks[1],
        "action": np.arange(count) % 4,
        "reward": np.ones(count, np.float32),
        "terminated": np.zeros(count, np.bool_),
        "truncated": np.arange(count) % SPLIT == SPLIT - 1,
    }


NAMES = ("obs", "next_obs", "action", "reward", "terminated", "truncated")


def block_of(steps: dict[str, Any], number: int) -> slice:
    """The steps of a block."""
    count = len(steps["action"])
    first = number * BLOCK % count
    return slice(first, first + BLOCK)


def one_process(kind: str) -> Jobs:
    """This library's buffer in the process itself."""
    from needreplay import Episodes, ReplayBuffer

    shape, dtype, size = KINDS[kind]
    columns = {"obs": (dtype, shape), "action": np.int64}
    buffer = ReplayBuffer(
        CAPACITY, columns, episodes=Episodes(frame_stack=4 if kind == "stacks" else 0)
    )
    return _own_jobs(buffer, buffer.add, lambda: None, steps_of(kind), size)


def needreplay(kind: str) -> Jobs:
    """This library on Ray: one shard, and a writer in the learner's process."""
    from needreplay import Episodes
    from needreplay.distributed import RayReplayBuffer

    _start_ray()
    shape, dtype, size = KINDS[kind]
    buffer = RayReplayBuffer(
        CAPACITY,
        {"obs": (dtype, shape), "action": np.int64},
        episodes=Episodes(frame_stack=4 if kind == "stacks" else 0),
        block=BLOCK,
    )
    writer = buffer.writer()
    return _own_jobs(buffer, writer.add, buffer.poll, steps_of(kind), size)


def _own_jobs(buffer: Any, add_one: Any, poll: Any, steps: dict[str, Any], size: int) -> Jobs:
    rng = np.random.default_rng(0)

    def add(number: int) -> None:
        for i in range(*block_of(steps, number).indices(10**9)):
            add_one(**{name: steps[name][i] for name in NAMES})
        poll()
        while buffer.next_id < (number - 4) * BLOCK:
            poll()

    def sample() -> None:
        batch = buffer.sample(size)
        buffer.update_priorities(batch.ids, rng.random(size) + 0.1)

    return add, sample


def rllib(kind: str) -> Jobs:
    """RLlib's prioritized buffer, which is in the learner's process."""
    make = import_module("ray.rllib.policy.sample_batch").SampleBatch
    peer = import_module("ray.rllib.utils.replay_buffers")
    size, steps, rng = KINDS[kind][2], steps_of(kind), np.random.default_rng(0)
    unit = peer.StorageUnit.TIMESTEPS
    buffer = peer.PrioritizedReplayBuffer(CAPACITY, storage_unit=unit, alpha=0.6)
    named = {"obs": "obs", "new_obs": "next_obs", "actions": "action", "rewards": "reward"}
    named |= {"terminateds": "terminated", "truncateds": "truncated"}

    def add(number: int) -> None:
        own = block_of(steps, number)
        buffer.add(make({theirs: steps[ours][own] for theirs, ours in named.items()}))

    def sample() -> None:
        batch = buffer.sample(size, beta=0.4)
        buffer.update_priorities(batch["batch_indexes"], rng.random(size) + 0.1)

    return add, sample


def torchrl(kind: str) -> Jobs:
    """TorchRL's buffer in a Ray actor."""
    import torch

    make, peer = import_module("tensordict").TensorDict, import_module("torchrl.data")
    _start_ray()
    size, steps, rng = KINDS[kind][2], steps_of(kind), np.random.default_rng(0)
    buffer = peer.RayReplayBuffer(
        storage=partial(peer.LazyTensorStorage, CAPACITY),
        sampler=partial(peer.PrioritizedSampler, CAPACITY, alpha=0.6, beta=0.4),
        batch_size=size,
        remote_config={"num_cpus": 0},
    )
    tensors = {name: torch.from_numpy(np.ascontiguousarray(steps[name])) for name in NAMES}

    def add(number: int) -> None:
        own = block_of(steps, number)
        buffer.extend(make({n: t[own] for n, t in tensors.items()}, batch_size=[BLOCK]))

    def sample() -> None:
        batch = buffer.sample()
        buffer.update_priority(batch["index"], torch.from_numpy(rng.random(size) + 0.1))

    return add, sample


def reverb(kind: str) -> Jobs:
    """Reverb's table behind its server, in this process; stacks as trajectories of five frames."""
    peer, tf = import_module("reverb"), import_module("tensorflow")
    shape, dtype, size = KINDS[kind]
    steps, rng, stacks = steps_of(kind), np.random.default_rng(0), kind == "stacks"
    one = shape[1:] if stacks else shape
    length = 5 if stacks else 2
    signature = {
        "obs": tf.TensorSpec((length, *one), dtype),
        "action": tf.TensorSpec((1,), np.int64),
        "reward": tf.TensorSpec((1,), np.float32),
    }
    table = peer.Table(
        "replay",
        sampler=peer.selectors.Prioritized(0.6),
        remover=peer.selectors.Fifo(),
        max_size=CAPACITY,
        rate_limiter=peer.rate_limiters.MinSize(1),
        signature=signature,
    )
    server = peer.Server([table])
    client = peer.Client(f"localhost:{server.port}")
    writer = client.trajectory_writer(num_keep_alive_refs=length)
    data = peer.TrajectoryDataset.from_table_signature(
        client.server_address, "replay", max_in_flight_samples_per_worker=2 * size
    )
    batches = iter(data.batch(size))
    frames = steps["frames"]

    def add(number: int) -> None:
        assert server is not None
        for i in range(*block_of(steps, number).indices(10**9)):
            writer.append(
                {"obs": frames[i], "action": steps["action"][i], "reward": steps["reward"][i]}
            )
            if writer.episode_steps >= length:
                history = writer.history
                writer.create_item(
                    "replay",
                    priority=1.0,
                    trajectory={
                        "obs": history["obs"][-length:],
                        "action": history["action"][-2:-1],
                        "reward": history["reward"][-2:-1],
                    },
                )
                writer.flush(block_until_num_items=16)
            if steps["truncated"][i]:
                writer.end_episode()

    def sample() -> None:
        batch = next(batches)
        keys = batch.info.key.numpy().tolist()
        updates = dict(zip(keys, (rng.random(size) + 0.1).tolist(), strict=True))
        client.mutate_priorities("replay", updates)
        [each.numpy() for each in batch.data.values()]

    return add, sample


PEERS: dict[str, Callable[[str], Jobs]] = {
    "one process": one_process,
    "needreplay": needreplay,
    "rllib": rllib,
    "reverb": reverb,
    "torchrl": torchrl,
}


def _start_ray() -> None:
    import ray

    logging: Any = "ERROR"
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        num_cpus=2,
        object_store_memory=300_000_000,
        logging_level=logging,
    )


def serve(name: str, kind: str) -> None:
    """Do a round of what is asked on the standard input, and answer with seconds."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    add, sample = PEERS[name](kind)
    done = FILLED // BLOCK
    for number in range(done):
        add(number)
    sample()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        if line.strip() == "add":
            for _ in range(BLOCKS):
                add(done)
                done += 1
        else:
            for _ in range(BATCHES):
                sample()
        print(time.perf_counter() - began, file=answers, flush=True)
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()


def measure(kind: str, pythons: dict[str, str], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of each library's rounds."""
    running, seconds = {}, dict[str, dict[str, list[float]]]()
    for name, python in pythons.items():
        command = [python, "-W", "ignore", __file__, "--serve", name, kind]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdout is not None
        if process.stdout.readline().strip() == "ready":
            running[name], seconds[name] = process, {"add": [], "sample": []}
        else:
            print(f"{kind}: {name} does not run with {python}")
    for turn in range(rounds):
        for name in list(running)[:: 1 if turn % 2 == 0 else -1]:
            for job in ("add", "sample"):
                process = running[name]
                assert process.stdin is not None
                assert process.stdout is not None
                print(job, file=process.stdin, flush=True)
                seconds[name][job].append(float(process.stdout.readline()))
    for process in running.values():
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
    return seconds


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", nargs=2, metavar=("NAME", "KIND"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
        return
    pythons = {"one process": sys.executable, "needreplay": sys.executable}
    pythons |= dict(each.split("=", 1) for each in options.python)
    found = []
    for kind, (_, _, size) in KINDS.items():
        seconds = measure(kind, pythons, options.rounds)
        own = seconds["needreplay"]
        for name, each in seconds.items():
            row: dict[str, Any] = {"kind": kind, "library": name}
            for job, rows in (("add", BLOCKS * BLOCK), ("sample", BATCHES * size)):
                times = np.array(each[job])
                row[f"{job} rows a second"] = float(rows / np.median(times))
                low, ratio, high = np.percentile(times / np.array(own[job]), (25, 50, 75))
                row[f"{job} ratio"] = [float(ratio), float(low), float(high)]
            found.append(row)
            print(
                f"{kind}: {name}: {row['add rows a second']:,.0f} rows a second added, "
                f"{row['sample rows a second']:,.0f} sampled; takes {row['add ratio'][0]:.3g} and "
                f"{row['sample ratio'][0]:.3g} times needreplay's time on Ray",
                flush=True,
            )
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What one replay on Ray costs: rows added and sampled, against a ReplayBuffer in this process.

    python benchmarks/bench_distributed.py > results/bench/distributed.txt

Medians over rounds; ratios to the buffer of one process on the same rows. Then a learner of Atari
stacks with one actor and with two: the share of its time that it waits for data, and that an actor
adds. An actor's step there is a step of Pong (the emulator and its preprocessing) and an action of
the Nature network. Last what each part costs in processor time, which other programs change little.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ray
import torch
from torch import nn

from needreplay import ReplayBuffer
from needreplay.distributed import RayReplayBuffer, Writer

SMALL: dict[str, Any] = {"obs": (np.float32, (4,)), "action": np.int64}
STACKS: dict[str, Any] = {"obs": (np.uint8, (4, 84, 84)), "action": np.int64}


WARM = 10


def steps_of(kind: str, count: int, start: int = 0) -> list[dict[str, Any]]:
    """Steps of one environment in episodes of 100."""
    rng = np.random.default_rng(start)
    shape, dtype = ((4,), np.float32) if kind == "small rows" else ((84, 84), np.uint8)
    frames = (255 * rng.random((count + 4, *shape))).astype(dtype)
    steps = []
    for i in range(count):
        small = kind == "small rows"
        steps.append(
            {
                "obs": frames[i] if small else frames[i : i + 4],
                "action": i % 4,
                "reward": 1.0,
                "next_obs": frames[i + 1] if small else frames[i + 1 : i + 5],
                "terminated": False,
                "truncated": i % 100 == 99,
            }
        )
    return steps


class Source:
    """Adds the same steps again and again."""

    def __init__(self, writer: Writer, kind: str, think: float = 0.0) -> None:
        self.writer, self.steps, self.think = writer, steps_of(kind, 500), think

    def add(self, count: int) -> float:
        """Add ``count`` steps; returns the seconds that each took, without waiting."""
        waited, began = self.writer.waited, time.perf_counter()
        for i in range(count):
            self.writer.add(**self.steps[i % len(self.steps)])
        took = time.perf_counter() - began - (self.writer.waited - waited)
        self.writer.flush()
        return took / count

    def play(self, network: Any) -> None:
        """Play Pong with a network without end."""
        from needlab.worlds.named import WorldSettings, make_world

        torch.set_num_threads(1)
        env = make_world("atari/Pong", WorldSettings())
        self.acted = self.added = 0.0
        self.count, self.adding = 0, 0.0
        obs, _ = env.reset(seed=0)
        while True:
            began = time.perf_counter()
            action = int(network.act(torch.from_numpy(obs)[None]).argmax())
            next_obs, reward, terminated, truncated, _ = env.step(action)
            acted, waited, cpu = time.perf_counter(), self.writer.waited, time.thread_time()
            self.writer.add(
                obs=obs, action=action, reward=float(reward), next_obs=next_obs,
                terminated=terminated, truncated=truncated,
            )  # fmt: skip
            self.adding += time.thread_time() - cpu
            self.acted += acted - began
            self.added += time.perf_counter() - acted - (self.writer.waited - waited)
            self.count += 1
            obs = env.reset()[0] if terminated or truncated else next_obs

    def shares(self) -> tuple[float, float, float, int]:
        """Seconds of acting and of adding, processor seconds of adding, and steps."""
        return self.acted, self.added, self.adding, self.count


class Nature(nn.Module):
    """The network of DQN's paper."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(),
            nn.Linear(512, 6),
        )  # fmt: skip

    @torch.no_grad()
    def act(self, obs: Any) -> Any:
        """Values without gradients."""
        return self(obs)

    def forward(self, obs: Any) -> Any:
        """Values of pixels from 0 to 255."""
        return self.layers(obs / 255.0)


def options_of(kind: str) -> dict[str, Any]:
    """How buffers of this kind are made."""
    from needreplay import Episodes

    stacks = kind != "small rows"
    return {
        "columns": STACKS if stacks else SMALL,
        "episodes": Episodes(frame_stack=4 if stacks else 0),
    }


def median_ms(call: Callable[[], Any], rounds: int) -> float:
    """Of one call, after some to warm up."""
    for _ in range(WARM):
        call()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return 1e3 * float(np.median(times))


def filled(kind: str, count: int) -> tuple[ReplayBuffer, float]:
    """The buffer of one process, and the seconds that an add took."""
    buffer, steps = ReplayBuffer(capacity=20_000, **options_of(kind)), steps_of(kind, 500)
    began = time.perf_counter()
    for i in range(count):
        buffer.add(**steps[i % len(steps)])
    return buffer, (time.perf_counter() - began) / count


def measure(kind: str, size: int, shards: int, rounds: int, count: int) -> None:
    """Print what batches cost."""
    here, add_here = filled(kind, count)
    rng = np.random.default_rng(0)

    def step(buffer: ReplayBuffer) -> None:
        batch = buffer.sample(size)
        buffer.update_priorities(batch.ids, rng.random(size))

    own = median_ms(lambda: step(here), rounds)
    print(f"{kind}: one process, batch of {size}: {own:.3f} ms; add {1e6 * add_here:.1f} us")
    for prefetch in (0, 2):
        with RayReplayBuffer(
            20_000, shards=shards, block=400 if kind == "small rows" else 64, prefetch=prefetch,
            **options_of(kind),
        ) as buffer:  # fmt: skip
            sources = added(buffer, kind, count)
            each = float(np.median(sources))
            cpu = time.thread_time()
            took = median_ms(lambda b=buffer: step(b), rounds)  # type: ignore[misc]
            cpu = 1e3 * (time.thread_time() - cpu) / (rounds + WARM)
        print(
            f"{kind}: {shards} shards, prefetch {prefetch}: {took:.2f} ms ({took / own:.0f} "
            f"times; {1e3 * size / took:,.0f} rows a second), of it {cpu:.2f} ms of the learner's "
            f"processor; an add costs its actor {1e6 * each:.1f} us ({each / add_here:.1f} times)"
        )


def added(buffer: RayReplayBuffer, kind: str, count: int) -> list[float]:
    """Let a source for each shard add; the seconds of an add in each."""
    source: Any = ray.remote(num_cpus=0)(Source)
    sources = [source.remote(buffer.writer(), kind) for _ in buffer._shards]
    adding = [s.add.remote(count // len(sources)) for s in sources]
    while len(ray.wait(adding, num_returns=len(sources), timeout=0)[0]) < len(sources):
        buffer.poll()
    found: list[float] = ray.get(adding)
    return found


class Learner:
    """Double DQN with a Nature network."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.network, self.target = Nature(), Nature()
        self.optimizer = torch.optim.Adam(self.network.parameters(), 1e-4)

    def learn(self, batch: Any) -> Any:
        """Update once; returns absolute TD errors."""
        obs, next_obs = (torch.from_numpy(batch[n]) for n in ("obs", "next_obs"))
        with torch.no_grad():
            best = self.network(next_obs).argmax(1, keepdim=True)
            later = self.target(next_obs).gather(1, best)[:, 0]
            aim = torch.from_numpy(batch["reward"]) + 0.99 * later
        value = self.network(obs).gather(1, torch.from_numpy(batch["action"])[:, None])[:, 0]
        error = aim - value
        loss = (torch.from_numpy(batch.weights).float() * error**2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return error.detach().abs().numpy()


def measure_learner(actors: int, seconds: float) -> None:
    """Print the learner's share of waiting, and an actor's share of adding."""
    learner = Learner()
    with RayReplayBuffer(
        10_000, block=64, min_size=1_000, samples_per_insert=8.0, **options_of("stacks")
    ) as buffer:
        actor: Any = ray.remote(num_cpus=0)(Source)
        actor = actor.options(max_concurrency=2)
        playing = [actor.remote(buffer.writer(), "stacks") for _ in range(actors)]
        for each in playing:
            each.play.remote(learner.network)
        buffer.sample(32)
        buffer.waited, began, updates, sampling = 0.0, time.perf_counter(), 0, 0.0
        learning = 0.0
        while time.perf_counter() - began < seconds:
            asked = time.perf_counter()
            batch = buffer.sample(32)
            sampling += time.perf_counter() - asked
            cpu = time.thread_time()
            error = learner.learn(batch)
            learning += time.thread_time() - cpu
            buffer.update_priorities(batch.ids, error)
            updates += 1
        took = time.perf_counter() - began
        shares = np.array(ray.get([each.shares.remote() for each in playing])).sum(axis=0)
    acted, added_, cpu_added, steps = shares.tolist()
    print(
        f"learner, {actors} actors, one shard: {updates / took:.1f} updates a second; waits "
        f"{buffer.waited / took:.1%} of its time for data, and sample takes {sampling / took:.1%}; "
        f"of an actor's step ({1e6 * acted / steps:.0f} us) adding takes "
        f"{added_ / (acted + added_):.1%} ({1e6 * added_ / steps:.0f} us, of it "
        f"{1e6 * cpu_added / steps:.0f} us of its thread's processor)"
    )


def thread_us(call: Callable[[], Any], times: int, rounds: int = 3) -> float:
    """Processor time of one call in this thread: of some rounds the fastest."""
    best = np.inf
    for _ in range(rounds):
        began = time.thread_time()
        for _ in range(times):
            call()
        best = min(best, time.thread_time() - began)
    return 1e6 * best / times


def measure_parts(batches: int) -> None:
    """Print the processor time of each part, of Atari stacks in blocks of 64."""
    found = writer_and_shard_us()
    found["index_us_per_block"] = index_us()
    learner, size = Learner(), 32
    with RayReplayBuffer(20_000, block=64, **options_of("stacks")) as buffer:
        added(buffer, "stacks", 2_000)

        def step() -> None:
            batch = buffer.sample(size)
            buffer.update_priorities(batch.ids, np.ones(size))

        step()
        found["sample_us"] = thread_us(step, batches)
        batch = buffer.sample(size)
    found["update_us"] = thread_us(lambda: learner.learn(batch), 5)
    found["act_us"], found["env_us"] = step_us()
    print(", ".join(f"{name} {value:.0f}" for name, value in found.items()))


def writer_and_shard_us() -> dict[str, float]:
    """Adding a step, storing a block and reading a batch, without Ray."""
    from needreplay._version import __version__
    from needreplay.distributed.shard import Shard
    from needreplay.distributed.writer import Format

    options, steps, blocks = options_of("stacks"), steps_of("stacks", 500), list[Any]()
    writer = Writer(0, 0, None, Format(__version__, **options, n_features=0, block=64))
    writer._sender.keep = lambda news, parts: blocks.append((news, parts))  # type: ignore[method-assign]
    writer._sender.wait = lambda **_: None  # type: ignore[method-assign]

    def add() -> None:
        del blocks[20:]
        for step in steps:
            writer.add(**step)

    add()
    adding = thread_us(add, 3) / len(steps)
    shard, rng = Shard(), np.random.default_rng(0)

    def store() -> None:
        for _, parts in blocks[:20]:
            shard.put(parts)

    store()
    positions = rng.integers(0, 7, (100, 32))
    rows = rng.integers(0, 60, (100, 32))
    reading = thread_us(
        lambda: [shard.read(shard.incarnation, p, r) for p, r in zip(positions, rows, strict=True)],
        1,
    )
    return {
        "add_us": adding,
        "store_us_per_block": thread_us(store, 2) / len(blocks[:20]),
        "read_us": reading / len(positions),
    }


def step_us(steps: int = 400) -> tuple[float, float]:
    """Processor time of an action of the network, and of a step of Pong."""
    from needlab.worlds.named import WorldSettings, make_world

    env, network, times = make_world("atari/Pong", WorldSettings()), Nature(), np.zeros(2)
    obs, _ = env.reset(seed=0)
    for _ in range(steps):
        began = time.thread_time()
        action = int(network.act(torch.from_numpy(obs)[None]).argmax())
        acted = time.thread_time()
        obs, _, terminated, truncated, _ = env.step(action)
        times += acted - began, time.thread_time() - acted
        if terminated or truncated:
            obs, _ = env.reset()
    act, step = (1e6 * times / steps).tolist()
    return act, step


def index_us(blocks: int = 1_000, size: int = 64) -> float:
    """What a block costs the learner's index, without Ray."""
    from needreplay.distributed.shard import News

    with RayReplayBuffer(100_000, block=size, **options_of("small rows")) as buffer:
        steps, numbers = np.arange(size), np.arange(size) - 1
        began = time.thread_time()
        for i in range(blocks):
            previous = np.where(numbers < 0, -1, numbers + i * size)
            news = News("a", i, i * size, previous, steps, None, None)
            buffer._enter_news(0, i, news)
        return 1e6 * (time.thread_time() - began) / blocks


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--only", choices=("batches", "learner", "parts"))
    options = parser.parse_args()
    # Ray's processes would be "nice" by 15, and run only where the learner leaves them time.
    os.environ.setdefault("RAY_worker_niceness", "0")
    logging: Any = "ERROR"
    ray.init(
        "local", include_dashboard=False, log_to_driver=False, num_cpus=2,
        object_store_memory=300_000_000, logging_level=logging,
    )  # fmt: skip
    if options.only in (None, "parts"):
        measure_parts(options.rounds)
    if options.only in (None, "batches"):
        for kind, size, count in (("small rows", 256, 8_000), ("stacks", 32, 2_000)):
            for shards in (1, 4):
                measure(kind, size, shards, options.rounds, count)
    if options.only in (None, "learner"):
        for actors in range(1, (os.cpu_count() or 1) + 1):
            measure_learner(actors, options.seconds)
    print(f"load average {os.getloadavg()[0]:.0f}")
    ray.shutdown()


if __name__ == "__main__":
    main()

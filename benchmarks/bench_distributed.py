"""What one replay on Ray costs: rows added and sampled, against a ReplayBuffer in this process.

    python benchmarks/bench_distributed.py

Medians over rounds; ratios to the buffer of one process on the same rows. ``--learner`` measures
instead which share of its time a learner of Atari stacks waits for data, and an actor to add.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ray

from needreplay import ReplayBuffer
from needreplay.distributed import RayReplayBuffer, Writer

SMALL: dict[str, Any] = {"obs": (np.float32, (4,)), "action": np.int64}
STACKS: dict[str, Any] = {"obs": (np.uint8, (4, 84, 84)), "action": np.int64}


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

    def play(self, network: Any) -> tuple[float, float]:
        """Act with a network without end; returns nothing."""
        import torch

        torch.set_num_threads(1)
        self.acted = self.added = 0.0
        i = 0
        while True:
            step = self.steps[i % len(self.steps)]
            began = time.perf_counter()
            with torch.no_grad():
                network(torch.from_numpy(step["obs"])[None]).argmax()
            acted, waited = time.perf_counter(), self.writer.waited
            self.writer.add(**step)
            self.acted += acted - began
            self.added += time.perf_counter() - acted - (self.writer.waited - waited)
            i += 1

    def shares(self) -> tuple[float, float]:
        """Seconds of acting and of adding."""
        return self.acted, self.added


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
    for _ in range(10):
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
    """Print one table."""
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
            source: Any = ray.remote(num_cpus=0)(Source)
            sources = [source.remote(buffer.writer(), kind) for _ in range(shards)]
            adding = [s.add.remote(count // shards) for s in sources]
            while len(ray.wait(adding, num_returns=shards, timeout=0)[0]) < shards:
                buffer.poll()
            each = float(np.median(ray.get(adding)))
            took = median_ms(lambda b=buffer: step(b), rounds)  # type: ignore[misc]
            print(
                f"{kind}: {shards} shards, prefetch {prefetch}: {took:.2f} ms ({took / own:.0f} "
                f"times; {1e3 * size / took:,.0f} rows a second); an add costs its actor "
                f"{1e6 * each:.1f} us ({each / add_here:.1f} times)"
            )


def measure_learner(seconds: float) -> None:
    """Print the learner's share of waiting, and the actor's share of adding."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    nature = lambda: nn.Sequential(  # noqa: E731
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(),
        nn.Linear(512, 4),
    )  # fmt: skip

    class Scaled(nn.Module):
        """Pixels from 0 to 1."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = nature()  # type: ignore[no-untyped-call]

        def forward(self, obs: Any) -> Any:
            return self.layers(obs / 255.0)

    network, target = Scaled(), Scaled()
    optimizer = torch.optim.Adam(network.parameters(), 1e-4)
    with RayReplayBuffer(
        10_000, block=64, min_size=1_000, samples_per_insert=8.0, **options_of("stacks")
    ) as buffer:
        actor: Any = ray.remote(num_cpus=0)(Source)
        playing = actor.options(max_concurrency=2).remote(buffer.writer(), "stacks")
        playing.play.remote(network)
        buffer.sample(32)
        buffer.waited, began, updates, sampling = 0.0, time.perf_counter(), 0, 0.0
        while time.perf_counter() - began < seconds:
            asked = time.perf_counter()
            batch = buffer.sample(32)
            sampling += time.perf_counter() - asked
            obs, next_obs = (torch.from_numpy(batch[n]) for n in ("obs", "next_obs"))
            with torch.no_grad():
                best = network(next_obs).argmax(1, keepdim=True)
                aim = (
                    torch.from_numpy(batch["reward"])
                    + 0.99 * target(next_obs).gather(1, best)[:, 0]
                )
            value = network(obs).gather(1, torch.from_numpy(batch["action"])[:, None])[:, 0]
            error = aim - value
            loss = (torch.from_numpy(batch.weights).float() * error**2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            buffer.update_priorities(batch.ids, error.detach().abs().numpy())
            updates += 1
        took = time.perf_counter() - began
        acted, added = ray.get(playing.shares.remote())
    print(
        f"learner, one actor, one shard: {updates / took:.1f} updates a second; waits "
        f"{100 * buffer.waited / took:.1f}% of its time for data, and sample takes "
        f"{100 * sampling / took:.1f}%; adding takes {100 * added / acted:.1f}% of an actor's step"
    )


def measure_index(blocks: int = 2_000, size: int = 64) -> None:
    """Print what a block costs the learner, without Ray."""
    from needreplay.distributed.shard import News

    with RayReplayBuffer(100_000, block=size, **options_of("small rows")) as buffer:
        steps, numbers = np.arange(size), np.arange(size) - 1
        began = time.perf_counter()
        for i in range(blocks):
            previous = np.where(numbers < 0, -1, numbers + i * size)
            news = News("a", i, i * size, previous, steps, None, None)
            buffer._enter_news(0, i, news)
        took = (time.perf_counter() - began) / blocks
    print(f"index: a block of {size} transitions costs the learner {1e6 * took:.0f} us")


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--learner", action="store_true")
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    ray.init(include_dashboard=False, log_to_driver=False, num_cpus=8)
    if options.learner:
        measure_learner(options.seconds)
        measure_index()
        return
    for shards in (1, 4):
        measure("small rows", 256, shards, options.rounds, 20_000)
        measure("stacks", 32, shards, options.rounds, 4_000)


if __name__ == "__main__":
    main()

"""Writers and shards on a Ray cluster that are killed or stopped at random moments."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from ray_sources import COLUMNS, finished, started, stored
from served import Served, serve

from needreplay import ProportionalSampler, RankSampler, UniformSampler
from needreplay._core.errors import NeedReplayError
from needreplay.distributed import RayReplayBuffer

ROUNDS, EACH = 3, 200


@cache
def _ray() -> Any:
    """A cluster of one node."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0")
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    import ray

    logging: Any = "ERROR"
    ray.init(
        address="local",
        num_cpus=8,
        object_store_memory=80_000_000,
        log_to_driver=False,
        logging_level=logging,
        include_dashboard=False,
    )
    return ray


def attack(rng: np.random.Generator, _place: Path) -> tuple[str, str]:
    """Learn beside two writers while one actor dies: every transition is accounted for."""
    ray, makers = _ray(), (UniformSampler, ProportionalSampler, lambda: RankSampler(0.7))
    sampler: Any = makers[int(rng.integers(len(makers)))]()
    victim = str(rng.choice(["shard", "writer", "shard stops", "nobody"]))
    who, delay = int(rng.integers(2)), float(rng.exponential(0.3))
    what = f"{sampler.name}, {victim} {who} after {delay:.3f} s"
    block = int(rng.choice([8, 32]))
    with RayReplayBuffer(10_000, COLUMNS, sampler=sampler, shards=2, block=block) as buffer:
        sources = started(buffer, 2)
        sent = finished(buffer, [s.write.remote(EACH) for s in sources])
        process = ray.get(buffer._shards[who].handle.facts.remote())["process"]

        def strike() -> None:
            if victim == "shard":
                ray.kill(buffer._shards[who].handle, no_restart=False)
            elif victim == "writer":
                ray.kill(sources[who])
            elif victim == "shard stops":
                os.kill(int(process), signal.SIGSTOP)
                time.sleep(1.0)
                os.kill(int(process), signal.SIGCONT)

        timer = threading.Timer(delay, strike)
        timer.start()
        alive = [True, True]
        for _ in range(ROUNDS):
            answers = {k: s.write.remote(EACH) for k, s in enumerate(sources) if alive[k]}
            if failure := _learn(buffer, list(answers.values()), rng):
                timer.join()
                return what, failure
            for k, answer in answers.items():
                try:
                    sent[k] = ray.get(answer)
                except ray.exceptions.RayActorError:
                    alive[k] = False
        timer.join()
        if victim != "writer" and not all(alive):
            return what, "a writer died that nobody had killed"
        extra = [s.write.remote(block) for k, s in enumerate(sources) if alive[k]]
        for k, answer in zip(
            [k for k in range(2) if alive[k]], finished(buffer, extra), strict=True
        ):
            sent[k] = answer if victim != "writer" or k != who else sent[k]
        return what, _account(buffer, sent, victim, who)


def _learn(buffer: RayReplayBuffer, answers: list[Any], rng: np.random.Generator) -> str:
    ray, end = _ray(), time.monotonic() + 60.0
    while len(ray.wait(answers, num_returns=len(answers), timeout=0)[0]) < len(answers):
        if time.monotonic() > end:
            return "the writers hang"
        if len(buffer) == 0:
            buffer.poll()
            continue
        batch = buffer.sample(16)
        if not np.array_equal(batch["x"][:, 0], batch["number"].astype(np.float32)):
            return "a row is of two transitions"
        buffer.update_priorities(batch.ids, 0.1 + rng.random(16))
    return ""


def _account(buffer: RayReplayBuffer, sent: list[int], victim: str, who: int) -> str:
    try:
        buffer.check_valid()
    except NeedReplayError as error:
        return repr(error)
    if len(buffer) + buffer.lost != buffer.inserted:
        return f"{len(buffer)} stored and {buffer.lost} lost are not {buffer.inserted} inserted"
    found = stored(buffer)
    for number, numbers in found.items():
        if len(set(numbers)) < len(numbers) or numbers != sorted(numbers):
            return f"writer {number}: doubled, or out of order"
        if victim != "writer" and numbers[-1:] != [sent[number] - 1]:
            return f"writer {number} sent {sent[number]}, and the last that came is {numbers[-1:]}"
    if victim in ("nobody", "shard stops") and (
        buffer.lost or found != {k: [*range(n)] for k, n in enumerate(sent)}
    ):
        return f"{buffer.lost} were lost although nobody died"
    if victim == "writer":
        other = 1 - who
        if found.get(other) != [*range(sent[other])] or buffer.lost:
            return "the other writer lost transitions"
        mine = found.get(who, [])
        if mine != [*range(len(mine))] or len(mine) < EACH:
            return f"of the killed writer {len(mine)} came, with gaps or fewer than it was told"
    return ""


ATTACKS = {"faults on a cluster": Served(__file__, "faults", patience=300.0)}

if __name__ == "__main__":
    serve({"faults": attack})

"""Nothing is doubled, and nothing is lost in silence, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray_learner import AFTER, OPTIONS, SAVED, killed_with
from ray_sources import COLUMNS, finished, rows, started, stored

from needreplay import FeatureNeedSampler, RankSampler, UniformSampler
from needreplay._core.errors import NeedReplayError
from needreplay.distributed import RayReplayBuffer

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]


def check_each_once(found: dict[int, list[int]]) -> None:
    for numbers in found.values():
        assert len(set(numbers)) == len(numbers), "a transition is doubled"


def sample_until_done(buffer: RayReplayBuffer, answers: list[Any]) -> list[Any]:
    """Learn beside the writers: every row that arrives is what its writer wrote."""
    import ray

    rng = np.random.default_rng(0)
    while len(ray.wait(answers, num_returns=len(answers), timeout=0)[0]) < len(answers):
        if len(buffer) == 0:
            buffer.poll()
            continue
        batch = buffer.sample(16)
        np.testing.assert_array_equal(batch["x"][:, 0], batch["number"])
        buffer.update_priorities(batch.ids, 0.1 + rng.random(16))
    return list(ray.get(answers))


def test_a_writer_is_killed(cluster: Any) -> None:
    import ray

    with RayReplayBuffer(20_000, COLUMNS, shards=2, block=32) as buffer:
        sources = started(buffer, 2)
        assert finished(buffer, [s.write.remote(300) for s in sources]) == [300, 300]
        dying = sources[1].write.remote(100_000)
        buffer.wait_for(1_000)
        ray.kill(sources[1])
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(dying)
        again = started(buffer, 1)
        assert finished(buffer, [again[0].write.remote(200)]) == [200]
        found = stored(buffer)
        # Of what the dead one had sent, everything up to some number, each once.
        assert found[1] == list(range(len(found[1])))
        assert len(found[1]) >= 300
        assert sorted(found[0]) == sorted([*range(300), *range(200)]), "two with the same numbers"
        assert buffer.lost == 0
        buffer.check_valid()


@pytest.mark.parametrize("name", ["rank", "need"])
def test_a_shard_is_killed(cluster: Any, name: str) -> None:
    import ray

    sampler: Any = {
        "rank": RankSampler(0.7),
        "need": FeatureNeedSampler(2, uniform_mix=0.5),
    }[name]
    with RayReplayBuffer(5_000, COLUMNS, sampler=sampler, shards=2, block=32) as buffer:
        sources = started(buffer, 2)
        finished(buffer, [s.write.remote(400) for s in sources])
        ids = np.arange(800)
        buffer.update_priorities(ids, 1.0 + ids)
        if name == "need":
            buffer.set_features(ids, np.stack([ids + 1.0, ids % 7], axis=1))
        before = buffer.read(ids)
        lost_shard = 1
        ray.kill(buffer._shards[lost_shard].handle, no_restart=False)
        writing = [s.write.remote(400) for s in sources]
        if name == "need":
            finished(buffer, writing)
        else:
            sample_until_done(buffer, writing)
        found = stored(buffer)
        check_each_once(found)
        assert found[0] == list(range(800)), "the other shard has lost nothing"
        assert found[1][-400:] == list(range(400, 800)), "what was sent after it is here"
        assert buffer.lost == 400
        assert len(buffer) + buffer.lost == buffer.inserted == 1_600
        # What was known of the others is known of them still, under new ids.
        kept = {n: i for i, n in zip(ids, before["number"], strict=True) if before["who"][i] == 0}
        new = np.arange(buffer.oldest_id, buffer.next_id)
        columns = buffer.read(new)
        old = (columns["who"] == 0) & (columns["number"] < 400)
        was = np.array([kept[n] for n in columns["number"][old]])
        if name == "need":
            np.testing.assert_array_equal(
                sampler.priorities[new[old] % buffer._rows.capacity], 1.0 + was
            )
            phi = np.stack([was + 1.0, was % 7], axis=1)
            stored_phi = buffer.features(new[old])
            np.testing.assert_allclose(stored_phi, phi / np.sum(phi**2, 1, keepdims=True), 1e-5)
        dropped = buffer.dropped
        buffer.update_priorities(ids[:10], np.ones(10))
        assert buffer.dropped == dropped + 10, "ids from before are not used again"
        buffer.check_valid()


def test_links_of_episodes_survive_a_lost_shard(cluster: Any) -> None:
    import ray
    from ray_sources import EpisodeSource

    spaces = {"obs": (np.float32, (2,)), "action": np.int64}
    from needreplay import Episodes

    episodes = Episodes(n_step=2, discount=0.5)
    with RayReplayBuffer(5_000, spaces, episodes=episodes, shards=2, block=16) as buffer:
        actor: Any = ray.remote(num_cpus=0)(EpisodeSource)
        sources = [actor.remote(buffer.writer(), who) for who in range(2)]
        finished(buffer, [s.play.remote(20, 9) for s in sources])

        def check() -> None:
            ids = np.arange(buffer.oldest_id, buffer.next_id)
            columns, following = buffer.read(ids), buffer.future(ids, 1)
            steps = columns["obs"][:, 1]
            numbers, found = buffer.episodes(ids)
            np.testing.assert_array_equal(found, steps)
            ends = steps == 8
            np.testing.assert_array_equal(following == -1, ends)
            after = buffer.read(following[~ends])["obs"]
            np.testing.assert_array_equal(after, columns["obs"][~ends] + [0, 1])
            assert len(np.unique(numbers)) == len(ids) / 9
            # Two rewards of 1 with discount 0.5, one at the end; the last bootstraps from nothing.
            np.testing.assert_array_equal(columns["reward"], np.where(ends, 1.0, 1.5))
            np.testing.assert_array_equal(columns["discount"], np.where(steps >= 7, 0.0, 0.25))

        check()
        assert len(buffer) == 2 * 20 * 9
        ray.kill(buffer._shards[0].handle, no_restart=False)
        finished(buffer, [s.play.remote(5, 9) for s in sources])
        check()
        assert len(buffer) == 20 * 9 + 2 * 5 * 9
        assert buffer.lost == 20 * 9


def test_a_saved_buffer_goes_on_in_other_shards(cluster: Any, tmp_path: Path) -> None:
    path = tmp_path / "replay"
    options: dict[str, Any] = {"block": 32, "seed": 3, "shards": 2}
    with RayReplayBuffer(700, COLUMNS, **options) as buffer:
        sources = started(buffer, 2)
        finished(buffer, [s.write.remote(500) for s in sources])
        batch = buffer.sample(16)
        buffer.update_priorities(batch.ids, np.arange(16.0))
        buffer.save(path)
        found, facts = stored(buffer), buffer.facts()
        priorities = buffer.sampler.priorities.copy()  # type: ignore[attr-defined]
    with RayReplayBuffer(700, COLUMNS, **options) as again:
        again.load(path)
        assert stored(again) == found
        assert again.facts() == {**facts, "waited": again.waited, "age": again.age}
        np.testing.assert_array_equal(again.sampler.priorities, priorities)  # type: ignore[attr-defined]
        again.check_valid()
        assert {b.shard for b in again._blocks.values()} == {0, 1}
        more = again.writer()
        assert more.number == 2
        sources = started(again, 1)
        finished(again, [sources[0].write.remote(100)])
        assert len(again) == 700
        check_each_once({0: stored(again)[0][-100:]})
        with pytest.raises(NeedReplayError, match="is not empty"):
            again.load(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    with (
        RayReplayBuffer(700, COLUMNS, **options) as damaged,
        pytest.raises(NeedReplayError, match="replay"),
    ):
        damaged.load(path)


def test_a_learner_is_killed(cluster: Any, tmp_path: Path) -> None:
    """Each transition that came is there once, or is counted: see ``ray_learner.learn``."""
    came = tmp_path / "came.json"
    killed_with(cluster, "ray_learner:learn", None, tmp_path, until=came.exists)
    arrived = {int(who): n for who, n in json.loads(came.read_text(encoding="utf-8")).items()}
    for numbers in arrived.values():
        assert numbers == list(range(len(numbers))), "all that came, each once, in order"
        assert len(numbers) >= SAVED + AFTER
    total = sum(len(numbers) for numbers in arrived.values())
    with RayReplayBuffer(**OPTIONS) as again:
        again.load(tmp_path / "replay")
        assert stored(again) == {who: list(range(SAVED)) for who in range(2)}
        assert again.count_in(tmp_path / "arrived") == total - 2 * SAVED
        assert len(again) + again.facts()["lost_with_learner"] == total
        again.save(tmp_path / "later")
        finished(again, [source.write.remote(50) for source in started(again, 2)])
    # Another end without a save, and files of before and after the first one's loss.
    for file, inserted, counted in (
        ("later", 2 * SAVED, total - 2 * SAVED),
        ("replay", 2 * SAVED, 0),
    ):
        with RayReplayBuffer(**OPTIONS) as third:
            third.load(tmp_path / file)
            assert (third.inserted, third.lost_with_learner) == (inserted, counted)
            third.count_in(tmp_path / "arrived")
            assert third.lost_with_learner == total - 2 * SAVED + 100


def test_a_count_that_is_damaged_is_named(cluster: Any, tmp_path: Path) -> None:
    with RayReplayBuffer(100, COLUMNS, block=8) as buffer:
        assert buffer.count_in(tmp_path / "new") == 0
        for wrong in (b"", bytes(7), bytes(16), b"\xff" * 8):
            (tmp_path / "count").write_bytes(wrong)
            with pytest.raises(NeedReplayError, match=r"count' (is damaged|cannot be used)"):
                buffer.count_in(tmp_path / "count")


def test_a_shard_that_stops_for_a_while_delays(cluster: Any) -> None:
    import ray

    with RayReplayBuffer(5_000, COLUMNS, shards=2, block=32) as buffer:
        sources = started(buffer, 2)
        finished(buffer, [s.write.remote(100) for s in sources])
        process = ray.get(buffer._shards[0].handle.facts.remote())["process"]
        os.kill(int(process), signal.SIGSTOP)
        timer = threading.Timer(1.5, os.kill, (int(process), signal.SIGCONT))
        timer.start()
        began = time.monotonic()
        sample_until_done(buffer, [s.write.remote(400) for s in sources])
        timer.join()
        assert time.monotonic() - began > 1.4
        assert stored(buffer) == {who: list(range(500)) for who in range(2)}
        assert buffer.lost == 0


def test_a_full_object_store_delays(cluster: Any) -> None:
    import ray

    columns = {**COLUMNS, "x": (np.float32, (3,)), "big": (np.uint8, (40_000,))}
    with RayReplayBuffer(1_000, columns, shards=1, block=32) as buffer:
        from ray_sources import Big

        big: Any = ray.remote(num_cpus=0)(Big)
        source = big.remote(buffer.writer())
        held = [ray.put(np.zeros(12_000_000, np.uint8)) for _ in range(7)]  # more than it holds
        writing = source.write.remote(200)
        finished(buffer, [writing])
        batch = buffer.sample(64)
        assert (batch["big"] == (batch["number"] % 251)[:, None]).all()
        assert stored(buffer) == {0: list(range(200))}
        del held


def test_ctrl_c_leaves_a_buffer_that_works(cluster: Any) -> None:
    with RayReplayBuffer(2_000, COLUMNS, shards=2, block=32) as buffer:
        sources = started(buffer, 2)
        writing = [s.write.remote(1_500) for s in sources]
        rng = np.random.default_rng(2)

        def learn() -> None:
            while True:
                batch = buffer.sample(16)
                buffer.update_priorities(batch.ids, rng.random(16) + 0.1)

        for seconds in (0.05, 0.11, 0.23, 0.31):
            timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                learn()
            timer.join()
            buffer.check_valid()
        finished(buffer, writing)
        assert buffer.inserted == 3_000
        assert buffer.lost == 0
        found = stored(buffer)
        check_each_once(found)
        for who, numbers in found.items():
            assert numbers == list(range(1_500 - len(numbers), 1_500)), who


def spread_over_two_nodes() -> RayReplayBuffer:
    """A buffer with a shard on each node; Ray may choose otherwise where a node is busy."""
    import ray

    for _ in range(10):
        buffer = RayReplayBuffer(10_000, COLUMNS, shards=2, block=32)
        facts = ray.get([shard.handle.facts.remote() for shard in buffer._shards])
        if len({each["node"] for each in facts}) == 2:
            return buffer
        buffer.close()
    raise AssertionError("Ray puts both shards on one node")


def test_a_node_is_killed(cluster: Any) -> None:
    """The last test of this module: it takes one of the two nodes away, and brings another."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    assert sum(n["Alive"] for n in ray.nodes()) == 2  # type: ignore[no-untyped-call]
    here = ray.get_runtime_context().get_node_id()
    node = next(n for n in cluster.worker_nodes)
    with spread_over_two_nodes() as buffer:
        # Sources stay on this node, and one shard is on the other.
        stay = NodeAffinitySchedulingStrategy(here, soft=False)
        sources = started(buffer, 2, scheduling_strategy=stay)
        finished(buffer, [s.write.remote(400) for s in sources])
        places = [ray.get(s.handle.facts.remote())["node"] for s in buffer._shards]
        writing = [s.write.remote(400) for s in sources]
        cluster.remove_node(node, allow_graceful=False)
        sample_until_done(buffer, writing)
        deadline = time.monotonic() + 60.0  # its processes may go on for a while
        while not buffer.lost and time.monotonic() < deadline:
            buffer.poll()
        sample_until_done(buffer, [s.write.remote(100) for s in sources])
        found = stored(buffer)
        check_each_once(found)
        survivor = places.index(here)
        assert found[survivor] == list(range(900))
        assert found[1 - survivor][-1] == 899
        assert buffer.lost >= 400
        assert len(buffer) + buffer.lost == buffer.inserted == 1_800


def test_what_cannot_be_is_refused(cluster: Any) -> None:
    with pytest.raises(NeedReplayError, match="shards is 0; it must be a whole number, 1 or more"):
        RayReplayBuffer(10, COLUMNS, shards=0)
    with pytest.raises(NeedReplayError, match="block is 64, above capacity 10"):
        RayReplayBuffer(10, COLUMNS)
    with pytest.raises(NeedReplayError, match=r"Shard 0 will hold .* and its machine has"):
        RayReplayBuffer(10**7, {"x": (np.float64, (10**7,))}, block=8, sampler=UniformSampler())
    options: dict[str, Any] = {"samples_per_insert": 1.0, "tolerance": 10.0, "block": 8}
    with RayReplayBuffer(100, COLUMNS, **options) as buffer:
        with pytest.raises(NeedReplayError, match=r"buffer\.writer"):
            buffer.add(**rows(0, 0, 1))
        writer = buffer.writer()
        writer.add(**rows(0, 0, 8))
        buffer.wait_for(8)
        with pytest.raises(NeedReplayError, match="size is 11, above tolerance 10"):
            buffer.sample(11)
        with pytest.raises(NeedReplayError, match=r"^Writer 0: .*x missing"):
            writer.add(who=1, number=2)
        with pytest.raises(NeedReplayError, match=r"^Writer 0: .*shape"):
            writer.add(who=1, number=2, x=np.zeros(4))

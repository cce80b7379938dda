"""How much faster the samplers by need are than a pass over the whole buffer, on one core.

``StateNeedSampler`` (tabular need) against a bare numpy pass; ``FeatureNeedSampler``
against scoring every slot once with one-thread float32 BLAS and a cumulative sum. Ratios of medians
of CPU times over alternating rounds, with intervals:
``python benchmarks/bench_need_sampling.py --json out``.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from itertools import product  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from needreplay import __version__  # noqa: E402
from needreplay._core.rng import stream  # noqa: E402
from needreplay._core.types import AnyArray, FloatArray  # noqa: E402
from needreplay.replay.samplers import FeatureNeedSampler, StateNeedSampler  # noqa: E402
from timing import ratio_of_medians  # noqa: E402

BATCH = 32
N_STATES = 50
CHUNK = 10_000
KINDS = ("dense", "sparse", "local", "signed")
Row = dict[str, Any]


def seconds(action: Callable[[], object], repeats: int) -> float:
    """The median CPU time of ``action``; what other processes take is not counted."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        action()
        times.append(time.process_time() - begin)
    return float(np.median(times))


def alternating(
    actions: dict[str, tuple[Callable[[], object], int]], rounds: int
) -> dict[str, FloatArray]:
    """The time of each action in each round; the first round, which may compile, is not kept."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds + 1):
        for name, (action, repeats) in actions.items():
            times[name].append(seconds(action, repeats))
    return {name: np.array(values[1:]) for name, values in times.items()}


def show_ratio(name: str, values: tuple[float, float, float]) -> str:
    """One ratio in words."""
    return f"{name} {values[0]:.0f}x [{values[1]:.0f}, {values[2]:.0f}]"


def bench_states(n: int, rounds: int) -> Row:
    """One slot, and a change of its priority, by state; one slot by a bare numpy pass."""
    rng = stream(0, "grouped", n)
    states, priorities, need = rng.integers(0, N_STATES, n), rng.random(n), rng.random(N_STATES)
    slots, powers, new = np.arange(n), priorities**0.6, np.array([0.5])
    sampler = StateNeedSampler(N_STATES)
    sampler.allocate(n)
    sampler.set_state(slots, states)
    sampler.set_priorities(slots, priorities)

    def whole_buffer() -> AnyArray:
        cumulative = np.cumsum((need**0.6)[states] * powers)
        sampled: AnyArray = np.searchsorted(cumulative, rng.random(1) * cumulative[-1])
        return sampled

    def cycle() -> None:
        sampler.set_priorities(sampler.sample(1, rng, need).slots, new)

    times = alternating(
        {
            "whole": (whole_buffer, 3 if n >= 10**5 else 50),
            "sample": (lambda: sampler.sample(1, rng, need), 300),
            "cycle": (cycle, 300),
        },
        rounds,
    )
    row: Row = {"sampler": sampler.name, "slots": n, "states": N_STATES, **summary(times)}
    print(
        f"states       N {n:>8}: whole {row['whole_us']:9.1f} us, sample {row['sample_us']:5.1f} "
        f"us, {show_ratio('sample', row['sample_ratio'])}, "
        f"{show_ratio('sample + update', row['cycle_ratio'])}",
        flush=True,
    )
    return row


def summary(times: dict[str, FloatArray]) -> Row:
    """Medians in microseconds, and how many times faster than a pass over the whole buffer."""
    row: Row = {f"{name}_us": float(np.median(values) * 1e6) for name, values in times.items()}
    for name in ("sample", "cycle"):
        row[f"{name}_ratio"] = ratio_of_medians(times["whole"], times[name])
    return row


def features_of(kind: str, rng: np.random.Generator, shape: tuple[int, ...]) -> AnyArray:
    """Gaussian (signed), its positive part (dense), a tenth of that (sparse), one 1 (local)."""
    if kind == "local":
        return np.eye(shape[-1], dtype=np.float32)[rng.integers(0, shape[-1], shape[:-1])]
    values = rng.standard_normal(shape, dtype=np.float32)
    if kind == "signed":
        return values
    np.maximum(values, 0.0, out=values)
    if kind == "sparse":
        values *= rng.random(shape, dtype=np.float32) < 0.1
    return values


def needs_of(kind: str, rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Of the features' own kind; of states on a line, discounted."""
    if kind == "local":
        ahead = np.arange(shape[1]) - rng.integers(0, shape[1], (shape[0], 1))
        return np.where(ahead >= 0, 0.9 ** np.maximum(ahead, 0), 0.0)
    return features_of("signed" if kind == "signed" else "dense", rng, shape).astype(np.float64)


def feature_table(n: int, d: int, kind: str) -> AnyArray:
    """``n`` rows of features."""
    rng = stream(0, "features", kind, d)
    table = np.empty((n, d), dtype=np.float32)
    for begin in range(0, n, CHUNK):
        rows = table[begin : begin + CHUNK]
        rows[:] = features_of(kind, rng, rows.shape)
    return table


def filled(sampler: FeatureNeedSampler, table: AnyArray) -> FeatureNeedSampler:
    """The sampler with a slot for each row of the table."""
    n = len(table)
    sampler.allocate(n)
    sampler.set_priorities(np.arange(n), stream(0, "gain").random(n))
    for begin in range(0, n, CHUNK):
        rows = table[begin : begin + CHUNK]
        sampler.set_features(np.arange(begin, begin + len(rows)), rows)
    return sampler


def bench_features(sampler: FeatureNeedSampler, kind: str, rounds: int) -> Row:
    """A batch, and a batch with 32 new priorities and features, against the whole buffer."""
    d, need_alpha = sampler.n_features, sampler.need_alpha
    rng = stream(1, "queries", kind, d)
    needs = needs_of(kind, rng, (64, d))
    fresh, new = features_of(kind, rng, (64, BATCH, d)), rng.random((64, BATCH))
    vectors = sampler.features.vectors
    powers = (stream(0, "gain").random(len(vectors)) ** sampler.alpha).astype(np.float32)
    turn = 0

    def whole_buffer() -> AnyArray:
        nonlocal turn
        turn = (turn + 1) % 64
        scores = vectors @ needs[turn].astype(np.float32)
        np.maximum(scores, 0.0, out=scores)
        scores *= powers
        cumulative = np.cumsum(scores, dtype=np.float64)
        slots: AnyArray = np.searchsorted(cumulative, rng.random(BATCH) * cumulative[-1])
        return slots

    def sample() -> AnyArray:
        nonlocal turn
        turn = (turn + 1) % 64
        return sampler.sample(BATCH, rng, needs[turn]).slots

    def cycle() -> None:
        slots = np.unique(sample())
        sampler.set_priorities(slots, new[turn, : len(slots)])
        sampler.set_features(slots, fresh[turn, : len(slots)])

    for _ in range(64):
        cycle()
    before = sampler.arrays()["candidates"].copy()
    times = alternating(
        {"whole": (whole_buffer, 3), "sample": (sample, 64), "cycle": (cycle, 64)}, rounds
    )
    accepted, tried = (sampler.arrays()["candidates"] - before).tolist()
    row: Row = {
        "slots": len(powers),
        "features": d,
        "kind": kind,
        "need_alpha": need_alpha,
        "acceptance": accepted / tried if tried else 1.0,
        "exhaustive": sampler.fallbacks.exhaustive,
        "batch": BATCH,
        **summary(times),
    }
    print(
        f"features d {d:>4} {kind:>8} need_alpha {need_alpha:.1f}: "
        f"whole {row['whole_us']:7.0f} us, sample {row['sample_us']:6.0f} us, "
        f"cycle {row['cycle_us']:6.0f} us, "
        f"{show_ratio('sample', row['sample_ratio'])}, {show_ratio('cycle', row['cycle_ratio'])}, "
        f"accepted {row['acceptance']:.2f}",
        flush=True,
    )
    return row


def main() -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=10**6, help="slots of the buffer")
    parser.add_argument("--features", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="where to write the table")
    options = parser.parse_args()
    versions = {
        "needreplay": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    print(", ".join(f"{name} {version}" for name, version in versions.items()), flush=True)
    rows = [bench_states(n, options.rounds) for n in (10**3, 10**4, 10**5, 10**6)]
    for d, kind in product(options.features, options.kinds):
        table = feature_table(options.slots, d, kind)
        for need_alpha in (1.0, 0.6):
            sampler = FeatureNeedSampler(d, need_alpha=need_alpha)
            rows.append(bench_features(filled(sampler, table), kind, options.rounds))
            del sampler
        del table
    if options.json:
        options.json.write_text(json.dumps({"versions": versions, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

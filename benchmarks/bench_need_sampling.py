"""How much faster the need draws are than going over the whole memory, on one core.

StateNeedSampler against the sweep (tabular need); vector tree and norm tree against scoring every
slot once with one-thread float32 BLAS and a cumulative sum (need from features). Ratios of medians
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
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numba  # noqa: E402
import numpy as np  # noqa: E402

from needreplay import __version__  # noqa: E402
from needreplay.bench.replay import ratio_of_medians  # noqa: E402
from needreplay.core.rng import stream  # noqa: E402
from needreplay.core.types import AnyArray, FloatArray  # noqa: E402
from needreplay.replay.samplers.norm_tree import FeatureNeedSampler  # noqa: E402
from needreplay.replay.samplers.state_need import StateNeedSampler  # noqa: E402
from needreplay.replay.samplers.vector_tree import VectorTreeSampler  # noqa: E402

BATCH = 32
N_STATES = 50
CHUNK = 10_000
KINDS = ("dense", "sparse", "local", "signed")
Row = dict[str, Any]
Tree = VectorTreeSampler | FeatureNeedSampler


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


def bench_grouped(n: int, rounds: int) -> Row:
    """One slot, and a gain change of it, by the grouped draw; one slot by a bare numpy sweep."""
    rng = stream(0, "grouped", n)
    states, gain, need = rng.integers(0, N_STATES, n), rng.random(n), rng.random(N_STATES)
    slots, mass, new = np.arange(n), gain**0.6, np.array([0.5])
    grouped = StateNeedSampler(N_STATES)
    grouped.allocate(n)
    grouped.set_state(slots, states)
    grouped.set_priorities(slots, gain)

    def sweep() -> AnyArray:
        cumulative = np.cumsum((need**0.6)[states] * mass)
        drawn: AnyArray = np.searchsorted(cumulative, rng.random(1) * cumulative[-1])
        return drawn

    def cycle() -> None:
        grouped.set_priorities(grouped.sample(1, rng, need).slots, new)

    times = alternating(
        {
            "sweep": (sweep, 3 if n >= 10**5 else 50),
            "draw": (lambda: grouped.sample(1, rng, need), 300),
            "cycle": (cycle, 300),
        },
        rounds,
    )
    row: Row = {"draw": "grouped", "slots": n, "states": N_STATES}
    row |= {f"{name}_us": float(np.median(values) * 1e6) for name, values in times.items()}
    row |= {
        f"{name}_ratio": ratio_of_medians(times["sweep"], times[name]) for name in ("draw", "cycle")
    }
    print(
        f"grouped      N {n:>8}: sweep {row['sweep_us']:9.1f} us, draw {row['draw_us']:5.1f} us, "
        f"{show_ratio('draw', row['draw_ratio'])}, "
        f"{show_ratio('draw + update', row['cycle_ratio'])}",
        flush=True,
    )
    return row


def features_of(kind: str, rng: np.random.Generator, shape: tuple[int, ...]) -> AnyArray:
    """Gaussian (signed), its positive part (dense), a tenth of that (sparse), or one 1 (local)."""
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
    """Of the features' own kind; where these are local, discounted along a line of states."""
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


def filled(tree: Tree, table: AnyArray) -> Tree:
    """The tree with a slot for each row of the table."""
    n = len(table)
    tree.allocate(n)
    tree.set_priorities(np.arange(n), stream(0, "gain").random(n))
    for begin in range(0, n, CHUNK):
        rows = table[begin : begin + CHUNK]
        tree.set_features(np.arange(begin, begin + len(rows)), rows)
    return tree


def bench_tree(tree: Tree, kind: str, rounds: int) -> Row:
    """A draw, and a draw with its gain changes and refreshes, against the whole buffer."""
    d, need_alpha = tree.n_features, tree.need_alpha
    rng = stream(1, "queries", kind, d)
    needs = needs_of(kind, rng, (64, d))
    fresh, gains = features_of(kind, rng, (64, BATCH, d)), rng.random((64, BATCH))
    vectors = tree.features.vectors
    mass = (stream(0, "gain").random(len(vectors)) ** tree.alpha).astype(np.float32)
    turn = 0

    def whole_buffer() -> AnyArray:
        nonlocal turn
        turn = (turn + 1) % 64
        scores = vectors @ needs[turn].astype(np.float32)
        np.maximum(scores, 0.0, out=scores)
        scores *= mass
        cumulative = np.cumsum(scores, dtype=np.float64)
        slots: AnyArray = np.searchsorted(cumulative, rng.random(BATCH) * cumulative[-1])
        return slots

    def sample() -> AnyArray:
        nonlocal turn
        turn = (turn + 1) % 64
        return tree.sample(BATCH, rng, needs[turn]).slots

    def cycle() -> None:
        slots = np.unique(sample())
        tree.set_priorities(slots, gains[turn, : len(slots)])
        tree.set_features(slots, fresh[turn, : len(slots)])

    for _ in range(64):
        cycle()
    before = tree.arrays()["candidates"].copy()
    times = alternating(
        {"whole": (whole_buffer, 3), "draw": (sample, 64), "cycle": (cycle, 64)}, rounds
    )
    accepted, tried = (tree.arrays()["candidates"] - before).tolist()
    row: Row = {"draw": tree.name, "slots": len(mass), "features": d, "kind": kind}
    row |= {"need_alpha": need_alpha, "acceptance": accepted / tried}
    row |= {"by_sweep": tree.fallbacks.by_sweep, "batch": BATCH}
    row |= {f"{name}_us": float(np.median(values) * 1e6) for name, values in times.items()}
    row |= {
        f"{name}_ratio": ratio_of_medians(times["whole"], times[name]) for name in ("draw", "cycle")
    }
    print(
        f"{tree.name:<11}  d {d:>4} {kind:>6} b {need_alpha:.1f}: "
        f"whole {row['whole_us']:7.0f} us, draw {row['draw_us']:6.0f} us, "
        f"cycle {row['cycle_us']:6.0f} us, "
        f"{show_ratio('draw', row['draw_ratio'])}, {show_ratio('cycle', row['cycle_ratio'])}, "
        f"accepted {row['acceptance']:.2f}",
        flush=True,
    )
    return row


def main() -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=10**6, help="slots under the trees")
    parser.add_argument("--features", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="where to write the table")
    options = parser.parse_args()
    versions = {
        "needreplay": __version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "python": platform.python_version(),
    }
    print(", ".join(f"{name} {version}" for name, version in versions.items()), flush=True)
    rows = [bench_grouped(n, options.rounds) for n in (10**3, 10**4, 10**5, 10**6)]
    for d in options.features:
        for kind in options.kinds:
            table = feature_table(options.slots, d, kind)
            for make in (
                (FeatureNeedSampler,)
                if kind == "signed"
                else (VectorTreeSampler, FeatureNeedSampler)
            ):
                for b in (1.0, 0.6):
                    tree = filled(make(d, need_alpha=b), table)
                    rows.append(bench_tree(tree, kind, options.rounds))
                    del tree
            del table
    if options.json:
        options.json.write_text(json.dumps({"versions": versions, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

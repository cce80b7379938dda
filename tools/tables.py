"""Write the tables of the README and the docs from results/: ``make tables``.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end of table -->``; a test compares.
"""

from __future__ import annotations

import csv
import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from needlab.core.tables import read_table
from needlab.report.aggregate import geometric_ratio, stratified_difference
from needlab.report.statistics import Interval, percentile_interval, resampled, student_interval
from needreplay._core.rng import stream

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "results/bench"
NOT_NEGATIVE = "cannot be negative"
VALUES, PRODUCT = ROOT / "results/value-of-backup/data.csv", "gain x need"
ENDS = ("low", "high")
BLOCK = re.compile(r"(<!-- table: ([a-z0-9-]+) -->\n).*?(<!-- end of table -->)", re.S)
PAGES = tuple(
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))
    if BLOCK.search(page.read_text(encoding="utf-8"))
)

README_ROWS = (
    ("sample 32, gather, update 32", "cpprb"),
    ("sample 256, gather, update 256", "tianshou"),
    ("add one", "stable-baselines3"),
    ("step of one environment (3-step, ends)", "stable-baselines3"),
    ("84 x 84 x 4 stacks: sample 32, update 32, N = 100,000", "cpprb"),
)
KINDS = {
    "dense": "dense ReLU",
    "sparse": "sparse ReLU",
    "local": "one-hot",
    "signed": "signed",
}
SB3_REPLAYS = {
    "sb3": "Stable-Baselines3's own",
    "per": "`PrioritizedReplay()`",
    "need": "`NeedReplay()`",
}
DECIDING = (
    ("successor_step_size", "0.5", "0.1"),
    ("successor_discount", "0.95", "the task's"),
    ("trace_reset", "never", "on each return to the start"),
    ("negative_need", "row shifted by −min + 1e-3", "counts as 0 (does not occur)"),
    ("random_need: also the M that `need` starts from", "rows of T sum to 1.5", "to 1"),
    ("optimal_need", "rows of T sum to 2", "to 1, right only"),
    ("fall", "teleports, bootstraps from the start", "ends the episode"),
    ("strings: in the buffer", "all of it: n 2^n transitions", "until a fall: 2^(n+1) − 2"),
    ("q_start_std", "0", "0.1"),
    ("priority_floor", "1e-3", "1e-6"),
    ("need_from", "after the step", "before it"),
    ("epsilon", "0.05", "0.1"),
    ("trace_reset", "on each return to the start", "after an episode"),
    ("optimal_need", "true", "greedy now"),
    ("judged", "sum of squares over right actions", "mean square over all Q"),
    ("tested", "at the goal", "at each update"),
    ("right_actions", "always the first", "alternate"),
    ("discount_offset: γ", "1 − 1/(n + 1)", "1 − 1/n"),
)
"""Settings of the cliffwalk's presets: the first six differ from released to corrected."""


def readme_speed() -> list[str]:
    """The fewest rows that say what is fast."""
    head, *rows = replay_cells()
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    shown = []
    for words, peer in README_ROWS:
        ratio = re.search(r"\((\S+)x (\[.*\])\)", found[words][peer])
        assert ratio is not None
        shown.append([words, peer, f"{ratio[1]} {ratio[2]}"])
    return table(["", "against", "times faster [95%]"], shown)


def replay_speed() -> list[str]:
    """The table of ``benchmarks/bench_replay.py``."""
    head, *rows = replay_cells()
    lines = table(head, rows)
    lines[1] = "|---|" + "---:|" * (len(head) - 1)
    return lines


def training_share() -> list[str]:
    """What replay is of a training step, over the runs of the benchmark."""
    found = re.findall(
        r"^(.*), N = 10\^\d: replay (\d+) us, .* share (\S+)%$", text("training_share.txt"), re.M
    )
    rows = []
    for name in dict.fromkeys(name for name, _, _ in found):
        times = sorted(int(time) for each, time, _ in found if each == name)
        shares = sorted(float(share) for each, _, share in found if each == name)
        rows.append([name, f"{times[0]} to {times[-1]}", f"{shares[0]} to {shares[-1]}%"])
    return table(["", "us of a step", "share of the step"], rows)


def machines_batches() -> list[str]:
    """The learner's processor time for a batch of one replay on Ray, by shards."""
    found = re.findall(
        r"^(.*): (\d) shards, prefetch 2: .*?, of it (\S+) ms of the learner",
        text("distributed.txt"),
        re.M,
    )
    sizes = {"small rows": 256, "stacks": 32}
    rows = [
        [f"{size} {kind}", *(f"{ms} ms" for name, _, ms in found if name == kind)]
        for kind, size in sizes.items()
    ]
    return table(["", "1 shard", "4 shards"], rows)


def machines_saturate() -> list[str]:
    """What many actors ask of each part, by the processor time that was measured of it.

    Each actor, each shard and the learner have a core. A step is one of Pong with an action of the
    Nature network, and an add; a block has 64 steps, a batch 32.
    """
    (line,) = re.findall(r"^(add_us .*)$", text("distributed.txt"), re.M)
    part = {name: float(value) for name, value in (each.split() for each in line.split(", "))}
    step = part["act_us"] + part["env_us"] + part["add_us"]
    rows = []
    for actors in (1, 4, 16, 64, 256):
        steps = actors * 1e6 / step
        index = steps / 64 * part["index_us_per_block"] / 1e6
        store = steps / 64 * part["store_us_per_block"] / 1e6
        free = max(0.0, 1.0 - index)
        batches = [free * 1e6 / (part["sample_us"] + update) for update in (part["update_us"], 0)]
        per_step = [32 * each / steps for each in batches]
        read = batches[1] * part["read_us"] / 1e6
        rows.append(
            [
                str(actors),
                f"{steps:,.0f}",
                f"{index:.1%}",
                f"{store:.1%}",
                f"{read:.0%}",
                *(f"{each:.2g}" for each in per_step),
            ]
        )
    head = ["actors", "steps a second", "index, of the learner", "storing, of a shard"]
    head += ["reading, of a shard", "samples a step", "without the network's time"]
    return table(head, rows)


def machines_peers() -> list[str]:
    """One replay on Ray beside other libraries'."""
    rows = []
    for row in json.loads(text("distributed_peers.json")):
        ratios = [row[f"{job} ratio"] for job in ("add", "sample")]
        rows.append(
            [
                row["kind"],
                row["library"],
                *(f"{row[f'{job} rows a second']:,.0f}" for job in ("add", "sample")),
                *(f"{median:.2g} [{low:.2g}, {high:.2g}]" for median, low, high in ratios),
            ]
        )
    head = ["rows", "library", "added a second", "sampled a second", "time to add, ratio"]
    return table([*head, "time to sample, ratio"], rows)


def need_sampling() -> list[str]:
    """Need by features against a pass over all slots."""
    rows = []
    for row in need_rows():
        if "features" in row:
            head = [str(row["features"]), KINDS[row["kind"]], f"{row['need_alpha']:g}"]
            head += [f"{row['acceptance']:.2f}", f"{row['whole_us'] / 1e3:.1f} ms"]
            times = [f"{row['sample_us']:.0f} us", f"{row['cycle_us']:.0f} us"]
            rows.append(
                [*head, *times, interval(row["sample_ratio"]), interval(row["cycle_ratio"])]
            )
    head = ["d", "features", "need_alpha", "accepted", "full pass", "sample", "cycle"]
    return table([*head, "sample, ratio", "cycle, ratio"], rows)


def need_sampling_worst() -> list[str]:
    """The smallest ratios over all kinds of features."""
    found = [row for row in need_rows() if "features" in row]
    sample, cycle = (min(row[f"{name}_ratio"][0] for row in found) for name in ("sample", "cycle"))
    return [
        f"A sample is at least {sample:.0f} times faster than a full pass for every kind of "
        f"features, a cycle {cycle:.0f}."
    ]


def need_cycle() -> list[str]:
    """Need of a trained model beside PER: batch and priorities, and add."""
    rows = []
    for world, row in json.loads(text("need_cycle.json"))["worlds"].items():
        times = [f"{us:.1f}" for us in row["us"].values()]
        ratios = [interval(row[name].values(), 1) for name in ("cycle", "add")]
        rows.append([world, f"{row['accepted']:.2f}", *times[:2], ratios[0], *times[2:], ratios[1]])
    cells = ["us, PER", "us, need", "times as long [95%]"]
    return table(["world", "accepted", *cells, "us, PER's `add`", "with need", cells[2]], rows)


def state_need() -> list[str]:
    """Need by state against a pass over all slots."""
    rows = []
    for row in need_rows():
        if "states" in row:
            times = [f"{row['slots']:,}", f"{row['whole_us']:.1f} us", f"{row['sample_us']:.1f} us"]
            ratios = (interval(row[name], 1) for name in ("sample_ratio", "cycle_ratio"))
            rows.append([*times, *ratios])
    head = ["N", "pass", "sample", "sample, ratio", "sample and new priority, ratio"]
    return table(head, rows)


def sweeping() -> list[str]:
    """The compiled kernel against plain Python."""
    found = re.findall(
        r"^(needreplay, compiled|plain Python|numpy Q) +(\S+) .*?  (\S+(?: \[.*\])?)$",
        text("sweeping.txt"),
        re.M,
    )
    return table(["", "ms a trial", "times slower [95%]"], [list(row) for row in found])


def growth() -> list[str]:
    """Microseconds by the size of the maze."""
    lines = text("growth.txt")
    ratio = r"(\S+ \[\S+ \S+\])"
    rows = re.findall(
        rf"^(\d+) +(\S+) +(\S+) +\d+ +(\S+) +(\S+) +{ratio} +\d+ +(\S+) +(\S+) +{ratio}$",
        lines,
        re.M,
    )
    powers = re.findall(r"grows like states\^(\S+)", lines)
    assert rows
    assert len(powers) == 6
    shown = [[f"{int(states):,}", *rest] for states, *rest in rows]
    last = ["states to the", *powers[:4], "", *powers[4:], ""]
    head = ["states", "PS step", "PS-SR step", "M on live rows", "M dense", "dense / live [95%]"]
    return table([*head, "a pop", "by scanning all pairs", "scan / pop [95%]"], [*shown, last])


def deep() -> list[str]:
    """Steps per second of deep agents."""
    part = text("deep.txt").split("$ ")[1]
    found = re.findall(r"^(per.*?)  +(\d+) +(\S+ \[\S+ \S+\])$", part, re.M)
    return table(["agent", "steps/s", "times as long as PER [95%]"], [list(row) for row in found])


def atari() -> list[str]:
    """What plain DQN and need cost on Pong."""
    lines = text("atari.txt")
    ratio = r"(\S+ \[\S+ \S+\])"
    plain = re.findall(rf"^(Stable-B\S+|CleanRL's loop) +(\S+) +{ratio}$", lines, re.M)
    ours = re.findall(r"^(needreplay|PER) +(\S+)$", lines, re.M)
    need = re.findall(rf"^(PER-SR.*?)  +(\S+) +{ratio}", lines, re.M)
    rows = [["DQN, needreplay", ours[0][1], "1"], *([f"DQN, {n}", v, r] for n, v, r in plain)]
    rows += [["PER, needreplay", ours[1][1], "1"], *(list(row) for row in need)]
    return table(["", "steps/s", "times as long [95%]"], rows)


def hindsight() -> list[str]:
    """Success on BitFlippingEnv: the mean over seeds, the lowest and the highest."""
    found = rows_of("hindsight/bit_flipping.csv")
    steps = list(dict.fromkeys(row["steps"] for row in found))
    rows = []
    for arm in dict.fromkeys(row["arm"] for row in found):
        cells = []
        for step in steps:
            rates = [float(r["success"]) for r in found if (r["arm"], r["steps"]) == (arm, step)]
            cells.append(f"{statistics.mean(rates):.2f} [{min(rates):.2f}, {max(rates):.2f}]")
        rows.append([arm, *cells])
    return table(["steps", *(f"{int(step):,}" for step in steps)], rows)


def sb3_speed() -> list[str]:
    """Steps per CPU second of the Stable-Baselines3 classes."""
    rows: list[list[str]] = []
    found = json.loads(text("sb3.json"))
    for name, words in (("cartpole", "DQN, CartPole"), ("pendulum", "SAC, Pendulum")):
        for replay in ("sb3", "per", "need"):
            row = found[f"{name} {replay}"]
            ratio = "1" if replay == "sb3" else "{median:.2f} [{low:.2f}, {high:.2f}]"
            speed = f"{row['steps_per_second']:.0f}"
            rows.append([words, SB3_REPLAYS[replay], speed, ratio.format(**row)])
    return table(["", "replay", "steps/s", "times as long [95%]"], rows)


def sb3_returns() -> list[str]:
    """Mean returns of the Stable-Baselines3 classes, and the difference of paired seeds."""
    found = rows_of("sb3/returns.csv")
    rows = []
    for task, replay in dict.fromkeys((row["task"], row["replay"]) for row in found):
        mine = [row for row in found if (row["task"], row["replay"]) == (task, replay)]
        own = {row["seed"]: row for row in found if (row["task"], row["replay"]) == (task, "sb3")}
        cells = []
        for field in ("return", "all"):
            values = [float(row[field]) for row in mine]
            error = statistics.stdev(values) / len(values) ** 0.5
            cells.append(f"{statistics.mean(values):.0f} ± {error:.0f}")
            base = [float(own[row["seed"]][field]) for row in mine]
            gap = stratified_difference([values], [base]).interval
            cells.append("" if replay == "sb3" else between(gap, "+.0f"))
        rows.append(
            [task, SB3_REPLAYS[replay], f"{int(mine[0]['steps']):,}", str(len(mine)), *cells]
        )
    head = ["task", "replay", "steps", "seeds", "return, last tenth", "difference [95%]"]
    return table([*head, "return, all episodes", "difference [95%]"], rows)


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file of results."""
    with (ROOT / "results" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def need_accuracy() -> list[str]:
    """The last AUC of each learner beside the best trivial score, by world."""
    return accuracy_rows("auc")


def need_past() -> list[str]:
    """The same against the own episode's past, where recency does not count."""
    return accuracy_rows("auc_past")


def need_time() -> list[str]:
    """The same against other episodes at the same time steps."""
    return accuracy_rows("auc_time")


LEARNERS = {"the paper's": "the paper's", "linear": "`linear`", "spectral": "`spectral`",
            "cosine": "`cosine`"}  # fmt: skip


def accuracy_rows(number: str) -> list[str]:
    """Worlds down; the best trivial score, then the learners."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows_of("need-quality/accuracy.csv"):
        if row["preset"] in ("minatar", "rows", "atari") and row["number"] == number:
            found.setdefault(row["world"], {})[row["need"]] = row
    rows = []
    for world, own in found.items():
        best = own["cosine"]
        cells = [f"{float(own[need]['found']):.3f}" for need in LEARNERS]
        trivial = f"{float(best['trivial']):.3f} ({best['trivial_score']})"
        rows.append([world, trivial, *cells])
    return table(["world", "best trivial score", *LEARNERS.values()], rows)


def need_seeds() -> list[str]:
    """`cosine` and `spectral` with another seed."""
    found: dict[str, dict[tuple[str, str], str]] = {}
    for row in rows_of("need-quality/accuracy.csv"):
        if row["preset"] == "another-seed":
            cell = f"{float(row['found']):.3f}"
            found.setdefault(row["world"], {})[row["need"], row["number"]] = cell
    numbers = {"auc": "auc", "auc_past": "past", "auc_time": "time"}
    columns = [(need, number) for need in ("cosine", "spectral") for number in numbers]
    heads = [f"`{need}`, {numbers[number]}" for need, number in columns]
    rows = [[world, *map(own.__getitem__, columns)] for world, own in found.items()]
    return table(["world, seed 1", *heads], rows)


def need_paper() -> list[str]:
    """The AUC of the paper's need by preset, and of `linear` on the same features, of all seeds."""
    needs = ("successor", "successor, m solved 0.9", "successor, m solved 0.99")
    last: dict[tuple[str, str, str], dict[str, dict[str, str]]] = {}
    for row in rows_of("need-quality/data.csv"):
        if row["need"] in needs:
            run = row["preset"], row["world"], row["seed"]
            last.setdefault(run, {})[row["need"]] = row
    found: dict[tuple[str, str, int], list[list[float]]] = {}
    for (preset, world, _), own in last.items():
        agent = preset if preset in ("printed", "released") else "corrected"
        key = world, agent, int(own["successor"]["steps"])
        found.setdefault(key, []).append([float(own[need]["auc"]) for need in needs])
    rows = []
    for (world, preset, steps), runs in sorted(found.items()):
        columns = [span([f"{one:.2f}" for one in sorted(part)]) for part in zip(*runs, strict=True)]
        rows.append([world, preset, f"{steps:,}", str(len(runs)), *columns])
    names = ["the paper's m", "`linear` on the same φ, γ = 0.9", "the same, γ = 0.99"]
    return table(["world", "preset", "steps", "runs", *names], rows)


def minatar_ratios() -> list[str]:
    """Comparisons of ``minatar-need``: by training and by evaluation return."""
    planned = {(row["arm"], row["rival"]): row for row in rows_of("minatar-need/tests.csv")}
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows_of("minatar-need/ratios.csv"):
        cells = found.setdefault((row["arm"], row["rival"]), [])
        cells += [between(interval_of(row, "ratio")), f"{float(row['p']):.2g}"]
    rows = [
        [
            f"{pair[0]} / {pair[1]}",
            *cells,
            f"{float(planned[pair]['p_holm']):.2g}" if pair in planned else "not planned",
        ]
        for pair, cells in found.items()
    ]
    head = [
        "comparison",
        "training return, ratio [95%]",
        "p",
        "evaluation return, ratio [95%]",
        "p",
    ]
    return table([*head, "planned: p of training return, Holm"], rows)


def minatar_areas() -> list[str]:
    """Training area and quality of need, arms down and games across."""
    return area_rows("area", "low", "high")


def minatar_eval_areas() -> list[str]:
    """Evaluation area, arms down and games across."""
    return area_rows("eval_area", "eval_low", "eval_high")


def area_rows(*names: str) -> list[str]:
    """A table of areas.csv."""
    found = {(row["arm"], row["game"]): row for row in rows_of("minatar-need/areas.csv")}
    games = list(dict.fromkeys(game for _, game in found))
    quality = names[0] == "area"
    rows = []
    for arm in dict.fromkeys(arm for arm, _ in found):
        own = [found[arm, game] for game in games]
        cells = [between(Interval(*(float(row[name]) for name in names))) for row in own]
        lowest = min(float(row["need_auc_lowest"]) for row in own)
        last = ["" if math.isnan(lowest) else f"{lowest:.2f}"] if quality else []
        rows.append([arm, *cells, *last])
    heads = [game.removeprefix("minatar/").replace("_", " ") for game in games]
    return table(["arm", *heads, *(["lowest AUC of need"] if quality else [])], rows)


def linear_need() -> list[str]:
    """Goals of linear agents by gain x need, as ratios to the other arms, and the cost."""
    found = rows_of("linear-need/differences.csv")
    worlds = list(dict.fromkeys(row["task"] for row in found))
    rows = []
    for rival in dict.fromkeys(row["rival"] for row in found):
        own = [row for row in found if row["rival"] == rival]
        cells = [between(interval_of(row, "ratio")) for row in own]
        rows.append(
            [rival, *cells, f"{float(own[-1]['p']):.2g}", two_digits(float(own[-1]["cpu_ratio"]))]
        )
    return table(["gain x need against", *worlds, "p (Holm)", "CPU time"], rows)


def value_of_backup() -> list[str]:
    """By class of functions: locality of updates, and what predicts their effect."""
    own = read_table(VALUES).where(effect="first order", seen_from="present")
    tasks = list(dict.fromkeys(own["task"].tolist()))
    rows = []
    for name in dict.fromkeys(own["function"].tolist()):
        cells = [own.where(task=task, function=name) for task in tasks]
        local = np.mean([cell["locality"].mean() for cell in cells])
        predicted = [
            ", ".join(f"{cell[f'size: {factor}'].mean():.2f}" for factor in ("gain", PRODUCT))
            for cell in cells
        ]
        rows.append([name, f"{local:.2f}", *predicted])
    return table(["", "locality", *tasks], rows)


def value_of_backup_effects() -> list[str]:
    """The advantage of gain x need over gain, by how the effect is measured, over three tasks."""
    data = read_table(VALUES)
    rows = []
    for effect in dict.fromkeys(data["effect"].tolist()):
        cells = []
        for name in ("table", "network 64"):
            for view in ("present", "starts"):
                own = data.where(effect=effect, function=name, seen_from=view)
                ahead = own[f"size: {PRODUCT}"] - own["size: gain"]
                seeds = [ahead[own["seed"] == seed].mean() for seed in np.unique(own["seed"])]
                cells.append(between(student_interval(np.array(seeds)), "+.2f"))
        rows.append([effect, *cells])
    views = [f"{name}, from {view}" for name in ("table", "network") for view in ("here", "starts")]
    return table(["effect of an update", *views], rows)


def ladder() -> list[str]:
    """Steps with need, rung by rung."""
    summary = rows_of("ladder/summary.csv")
    rows = [
        [
            row["rung"], f"{float(row['locality']):.2f}", between(interval_of(row, "ratio")),
            between(interval_of(other, "ratio")),
        ]
        for row in summary if row["ratio_of"] == "need / none"
        for other in summary
        if (other["ratio_of"], other["rung"]) == ("need / shuffled", row["rung"])
    ]  # fmt: skip
    return table(["rung", "locality", "steps: need / none", "need / shuffled"], rows)


def similar_states() -> list[str]:
    """How alike and recurrent MinAtar's states are, beside what need adds to shuffled need."""
    areas = {(row["game"], row["arm"]): row for row in rows_of("minatar-need/areas.csv")}
    measured = {row["world"]: row for row in rows_of("similar-states/data.csv")}
    rows = []
    for game in dict.fromkeys(game for game, _ in areas):
        shown = [f"{float(measured[game][name]):.2f}" for name in ("similarity", "recurrence")]
        for area in ("area", "eval_area"):
            own, control = (
                float(areas[game, f"gain x {need}, .25 uniform"][area])
                for need in ("need", "shuffled need")
            )
            shown.append(f"{own / control:.2f}")
        rows.append([game.removeprefix("minatar/").replace("_", " "), *shown])
    rows.sort(key=lambda row: float(row[2]))
    return table(["", "similarity", "recurrence", "training", "evaluation"], rows)


def exact_need() -> list[str]:
    """The planned comparisons with exact need: differences in area, intervals and p."""
    folders = ("exact-need", "exact-need-large", "exact-need-long")
    found: dict[str, dict[str, list[str]]] = {}
    for folder in folders:
        areas: dict[tuple[str, str], list[float]] = {}
        for row in rows_of(f"{folder}/data.csv"):
            areas.setdefault((row["task"], row["arm"]), []).append(float(row["area"]))
        tasks = list(dict.fromkeys(task for task, _ in areas))
        claims = json.loads((ROOT / f"results/{folder}/claims.json").read_text(encoding="utf-8"))
        for claim in claims:
            arm, _, rival = claim["statement"].partition(" learns faster than ")
            p = re.search(r"p = ([\d.e-]+)", claim["measured"])
            assert p is not None
            a, b = ([areas[task, one] for task in tasks] for one in (arm, rival))
            ahead = sum(np.mean(x) > np.mean(y) for x, y in zip(a, b, strict=True))
            cells = [between(stratified_difference(a, b).interval, "+.3f"), f"{ahead}", p[1]]
            found.setdefault(f"{arm} - {rival}", {})[folder] = cells
    rows = [
        [pair, *(cell for folder in folders for cell in cells.get(folder, [""] * 3))]
        for pair, cells in found.items()
    ]
    blocks = ("four tasks", "five tasks", "four tasks, 48,000 steps")
    return table(["comparison", *(c for b in blocks for c in (f"{b} [95%]", "ahead", "p"))], rows)


def need_pays() -> list[str]:
    """In how many worlds of the map learned need saves or costs steps."""
    found: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in rows_of("when-need-pays/data.csv"):
        if row["arm"] == "ps-sr .95":
            key = row["slip"], row["step_size"], row["updates"]
            found.setdefault(key, []).append(row)
    rows = []
    for (slip, step_size, updates), worlds in sorted(found.items(), key=lambda item: item[0][:2]):
        decided = [row for row in worlds if float(row["p_holm"]) < 0.05]
        fewer = sum(float(row["ratio"]) < 1.0 for row in decided)
        ratios = [f"{one:.2f}" for one in sorted(float(row["ratio"]) for row in worlds)]
        counts = [str(len(worlds)), str(fewer), str(len(decided) - fewer)]
        rows.append([slip, f"{float(step_size):g}", updates, *counts, span(ratios)])
    head = ["slip", "step size", "updates a step", "worlds", "fewer steps", "more"]
    return table([*head, "ratio of steps, range"], rows)


def mazes_factor() -> list[str]:
    """Median updates of Dyna-Q / PS with full backups; a trial that finds no path is infinite."""
    found: dict[tuple[int, str], list[float]] = {}
    for row in rows_of("mazes/data.csv"):
        if row["step_size"] == "1.0" and row["agent"] in ("dyna-q", "ps"):
            updates = float(row["updates"]) if row["found"] == "true" else math.inf
            found.setdefault((int(row["states"]), row["agent"]), []).append(updates)
    rows = []
    for states in dict.fromkeys(states for states, _ in found):
        both = np.array([found[states, agent] for agent in ("dyna-q", "ps")])
        medians = np.median(both, axis=1)
        if np.isfinite(medians).all():
            drawn = resampled(both.shape[1], stream(0, "mazes", states))
            dyna, ps = np.median(both[:, drawn], axis=2)
            ratios = np.divide(dyna, ps, out=np.zeros(len(ps)), where=np.isfinite(ps))
            ratio = percentile_interval(float(medians[0] / medians[1]), ratios)
            counts = [f"{int(np.isfinite(row).sum())} of {len(row)}" for row in both]
            rows.append([f"{states:,}", *counts, between(ratio, ".0f")])
    head = ["cells", "Dyna-Q found a path", "PS found a path"]
    return table([*head, "median updates, Dyna-Q / PS [95%]"], rows)


def minatar_printed() -> list[str]:
    """The preset `printed` with its own and with PSER's replay parameters."""

    def arm(config: dict[str, Any]) -> tuple[str, ...]:
        replay = "PSER's" if "gain" in config["overrides"] else "`printed`"
        return f"`{config['agent']}`", replay

    heads = ["agent", "replay parameters"]
    return returns_of("minatar-printed", arm, lambda own: (own[0], "`printed`"), heads, "`printed`")


def ablation_need() -> list[str]:
    """Three ways with negative need, as ratios to need that cannot be negative."""

    def arm(config: dict[str, Any]) -> tuple[str, ...]:
        return (config["overrides"].get("negative", NOT_NEGATIVE),)

    return returns_of("ablation-need", arm, lambda _: (NOT_NEGATIVE,), ["negative need"], "it")


def returns_of(
    study: str,
    arm_of: Callable[[dict[str, Any]], tuple[str, ...]],
    control_of: Callable[[tuple[str, ...]], tuple[str, ...]],
    heads: list[str],
    control: str,
) -> list[str]:
    """Mean returns of a sweep's runs by arm and game, and ratios to the arm's control."""
    metrics = {"training": "train_return", "evaluation": "eval_return"}
    areas: dict[tuple[str, tuple[str, ...], str], dict[int, float]] = {}
    for config, rows in runs_of(study):
        for metric, column in metrics.items():
            mean = statistics.mean(float(row[column]) for row in rows)
            key = metric, arm_of(config), config["world"]
            areas.setdefault(key, {})[config["seed"]] = mean
    games = sorted({game for _, _, game in areas})

    def order(arm: tuple[str, ...]) -> tuple[str, bool, tuple[str, ...]]:
        return control_of(arm)[0].strip("`"), arm != control_of(arm), arm

    shown = []
    for metric in metrics:
        for arm in sorted({arm for _, arm, _ in areas}, key=order):
            own, base = (
                [list(areas[metric, each, game].values()) for game in games]
                for each in (arm, control_of(arm))
            )
            cells = [between(student_interval(np.array(one))) for one in own]
            ratio = geometric_ratio(own, base, stream(0, study.replace("-", " ")))
            last = "1" if arm == control_of(arm) else between(ratio)
            shown.append([f"{metric} return", *arm, *cells, last])
    names = [game.removeprefix("minatar/").replace("_", " ") for game in games]
    return table(["", *heads, *names, f"ratio to {control} [95%]"], shown)


def runs_of(study: str) -> list[tuple[dict[str, Any], list[dict[str, str]]]]:
    """Configuration and metrics of the runs of a sweep, by seed."""
    found = []
    for done in (ROOT / "results" / study / "runs").glob("*/done.json"):
        path = done.parent
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        found.append((config, rows_of(f"{study}/runs/{path.name}/metrics.csv")))
    return sorted(found, key=lambda one: (one[0]["agent"], one[0]["world"], one[0]["seed"]))


def cliffwalk_corrected() -> list[str]:
    """Each difference between `released` and `corrected`, changed alone."""
    return deciding("released", "corrected", DECIDING[:6])


def cliffwalk_printed() -> list[str]:
    """Each difference between `corrected` and `printed`, changed alone."""
    return deciding("corrected", "printed", DECIDING[6:])


def deciding(one: str, other: str, settings: Iterable[tuple[str, str, str]]) -> list[str]:
    """Three ratios at 11 states with one setting changed, in either preset."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows_of("fig3/deciding.csv"):
        if row["states"] == "11":
            cell = between(interval_of(row, "ratio"), "two")
            star = "" if row["not_converged"] == "0" else "*"
            key = row["preset"], row["setting"], row["value_of"]
            found.setdefault(key, []).append(cell + star)
    rows = [
        ["", "nothing", "", "", *(", ".join(found[name, "nothing", name]) for name in (one, other))]
    ]
    first = 1 if other == "corrected" else 8
    for number, (setting, own, changed) in enumerate(settings, first):
        name = f"`{setting.partition(':')[0]}`{''.join(setting.partition(':')[1:])}"
        cells = [found[one, setting.partition(":")[0], other]]
        cells += [found[other, setting.partition(":")[0], one]]
        rows.append([str(number), name, own, changed, *(", ".join(cell) for cell in cells)])
    names = [f"alone in `{one}`", f"alone back in `{other}`"]
    return table(["", "setting", one, other, *names], rows)


def need_age() -> list[str]:
    """The AUC of stored vectors by their age in updates, at several moments of a run on MinAtar."""
    ages, found = ["", "3750", "7500", "11250"], {}
    for row in rows_of("need-quality/data.csv"):
        name, _, age = row["need"].partition(", age ")
        if name == "cosine/4" and row["preset"] == "minatar":
            found[row["world"], int(row["steps"]), age] = f"{float(row['auc']):.2f}"
    rows = [
        [world, f"{steps:,}", *(found.get((world, steps, age), "") for age in ages)]
        for world, steps in dict.fromkeys(key[:2] for key in found)
        if (world, steps, ages[1]) in found
    ]
    return table(
        ["world", "steps", "new", *(f"{int(age):,} updates old" for age in ages[1:])], rows
    )


def replay_heights() -> list[str]:
    """Published axes, and changes in rats, beside the heights of ``mattar-daw``."""
    rows = []
    for row in rows_of("mattar-daw/heights.csv"):
        if row["preset"] == "published":
            low, high = float(row["published_low"]), float(row["published_high"])
            rats = row["kind"] == "animals"
            said = f"rats {low:+.0f}%" if rats else f"axis {low:.0f} to {high:.0f}"
            ours = [f"{float(row[end]):{'+.0f' if rats else '.3f'}}" for end in ("ours", *ENDS)]
            shown = f"{ours[0]}{'%' * rats} ({ours[1]} to {ours[2]})"
            rows.append([row["figure"], row["quantity"].removesuffix(", in percent"), said, shown])
    return table(["", "", "published", "here"], rows)


def per_episode(row: dict[str, str]) -> str:
    """Events per episode with their interval; bold where there was none at all."""
    values = [float(row[name]) for name in ("mean", *ENDS)]
    if not any(values):
        return "**0**"
    digits = 2 if values[0] >= 1 else 3 if values[0] >= 0.005 else 4
    shown = [f"{value:.{digits}f}" for value in values]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


def events_by(name: str, across: str) -> list[str]:
    """Events per episode in both worlds, one row for each value of a column of ``name``."""
    found = {
        (row[across], row["world"], row["direction"]): per_episode(row)
        for row in rows_of(f"mattar-daw/{name}")
        if row["preset"] == "published" and row["count"] == "states"
    }
    places = list(dict.fromkeys(key[1:] for key in found))
    rows = [
        [in_words(value), *(found[value, *place] for place in places)]
        for value in dict.fromkeys(key[0] for key in found)
    ]
    heads = [f"{world}: {direction}" for world, direction in places]
    return table([across.replace("floor", "smallest gain"), *heads], rows)


def in_words(change: str) -> str:
    """A change of ``mattar-daw``, or a smallest gain; a bar would end the cell."""
    if re.fullmatch(r"[\d.e-]+", change):
        return f"{float(change):.0e}".replace("e-0", "e-")
    return change.replace("|TD|", "the TD error").replace("beta", "β =")


def replay_rules() -> list[str]:
    """Reverse events by pairs and by states."""
    found = {
        (row["change"], row["world"], row["count"]): per_episode(row)
        for row in rows_of("mattar-daw/deciding.csv")
        if row["preset"] == "published" and row["direction"] == "reverse"
    }
    rows = [
        [in_words(change), world, *(found[change, world, rule] for rule in ("pairs", "states"))]
        for change in ("none", "need from the goal", "gain by |TD|", "|TD| x need alone")
        for world in ("linear track", "open field")
    ]
    return table(["change", "world", "pairs", "states"], rows)


def rivals_explain() -> list[str]:
    """Which model shows which phenomenon; bold where all of the interval is above 0."""
    return crossed(
        "rivals/explains.csv", "phenomenon", "agent", "difference",
        lambda row, shown: f"**{shown}**" if row["verdict"] == "holds" else shown,
    )  # fmt: skip


def rivals_learning() -> list[str]:
    """Mean steps in an episode, by world and model."""
    return crossed("rivals/learning.csv", "agent", "world", "steps", lambda _, shown: shown)


def crossed(
    name: str, down: str, across: str, value: str, mark: Callable[[dict[str, str], str], str]
) -> list[str]:
    """Numbers and intervals of a CSV file, one column down, another across."""
    rows = rows_of(name)
    shown = {
        (row[down], row[across]): mark(row, f"{float(row[value]):.2f}")
        + f" ({float(row['low']):.2f} to {float(row['high']):.2f})"
        for row in rows
    }
    heads = list(dict.fromkeys(row[across] for row in rows))
    sides = dict.fromkeys(row[down] for row in rows)
    return table(["", *heads], [[side, *(shown[side, head] for head in heads)] for side in sides])


def rivals_recovery() -> list[str]:
    """What fits of simulations found again."""
    rows = [
        [
            row["simulated"], row["parameter"], f"{float(row['truth']):g}",
            f"{float(row['mean_estimate']):.2f}", f"{float(row['spread']):.2f}",
            f"{row['inside']} of {row['fits']}",
        ]
        for row in rows_of("rivals/recovery.csv")
    ]  # fmt: skip
    return table(
        ["simulated", "parameter", "truth", "mean estimate", "spread", "intervals with the truth"],
        rows,
    )


def pairs() -> list[str]:
    """Which features of the buffer work together, by the test of each pair."""
    sys.path.insert(0, str(ROOT / "tests/fakes"))
    from pairs import FEATURES, outcome

    rows = [
        [name, *[""] * i, *("works" if outcome((name, other))[0] else "raises" for other in later)]
        for i, name in enumerate(FEATURES[:-1])
        if (later := FEATURES[i + 1 :])
    ]
    return table(["", *FEATURES[1:]], rows)


TABLES: dict[str, Callable[[], list[str]]] = {
    "pairs": pairs,
    "replay-deciding": lambda: events_by("deciding.csv", "change"),
    "replay-floors": lambda: events_by("floors.csv", "floor"),
    "replay-heights": replay_heights,
    "replay-rules": replay_rules,
    "rivals-explain": rivals_explain,
    "rivals-learning": rivals_learning,
    "rivals-recovery": rivals_recovery,
    "readme-speed": readme_speed,
    "replay-speed": replay_speed,
    "training-share": training_share,
    "machines-batches": machines_batches,
    "machines-saturate": machines_saturate,
    "machines-peers": machines_peers,
    "need-sampling": need_sampling,
    "need-sampling-worst": need_sampling_worst,
    "need-cycle": need_cycle,
    "state-need": state_need,
    "sweeping": sweeping,
    "growth": growth,
    "deep": deep,
    "need-accuracy": need_accuracy,
    "need-past": need_past,
    "need-time": need_time,
    "need-seeds": need_seeds,
    "need-age": need_age,
    "need-paper": need_paper,
    "minatar-ratios": minatar_ratios,
    "minatar-areas": minatar_areas,
    "minatar-eval-areas": minatar_eval_areas,
    "minatar-printed": minatar_printed,
    "ablation-need": ablation_need,
    "linear-need": linear_need,
    "value-of-backup": value_of_backup,
    "value-of-backup-effects": value_of_backup_effects,
    "ladder": ladder,
    "similar-states": similar_states,
    "exact-need": exact_need,
    "need-pays": need_pays,
    "mazes-factor": mazes_factor,
    "cliffwalk-corrected": cliffwalk_corrected,
    "cliffwalk-printed": cliffwalk_printed,
    "atari": atari,
    "hindsight": hindsight,
    "sb3-speed": sb3_speed,
    "sb3-returns": sb3_returns,
}


def text(name: str) -> str:
    """A file of results/bench."""
    return (BENCH / name).read_text(encoding="utf-8")


def replay_cells() -> list[list[str]]:
    """The table in replay.txt: its head and its rows."""
    lines = [line for line in text("replay.txt").splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if "---" not in line
    ]


def need_rows() -> list[dict[str, Any]]:
    """The rows of need_sampling.json."""
    rows: list[dict[str, Any]] = json.loads(text("need_sampling.json"))["rows"]
    return rows


def feature_row(d: int, kind: str, need_alpha: float) -> dict[str, Any]:
    """One row of need_sampling.json."""
    wanted = {"features": d, "kind": kind, "need_alpha": need_alpha}
    (row,) = (row for row in need_rows() if wanted.items() <= row.items())
    return row


def interval(values: Iterable[float], digits: int = 0) -> str:
    """A ratio with its interval."""
    ratio, low, high = (f"{value:.{digits}f}" for value in values)
    return f"{ratio} [{low}, {high}]"


def interval_of(row: dict[str, str], name: str) -> Interval:
    """An interval from the columns ``name``, low, high."""
    return Interval(float(row[name]), float(row["low"]), float(row["high"]))


def between(found: Interval, form: str = ".2f") -> str:
    """A number with its interval; ``two``: with at least two digits of each."""
    numbers = (found.estimate, found.low, found.high)
    shown = [two_digits(one) if form == "two" else f"{one:{form}}" for one in numbers]
    # An estimate that rounds to 0 has no sign.
    shown = [re.sub(r"^[+-](0(\.0+)?)$", r"\1", one) for one in shown]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]"


def two_digits(value: float) -> str:
    """At least two digits: 0.0045, 0.13, 2.1, 29.8, 425."""
    if value >= 100.0:
        return f"{value:.0f}"
    if value >= 10.0:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:#.2g}"


def span(shown: list[str]) -> str:
    """The first and the last of sorted numbers; one, if they are the same."""
    return shown[0] if shown[0] == shown[-1] else f"{shown[0]} to {shown[-1]}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def written(page: str) -> str:
    """A page with its tables made from the data."""
    return BLOCK.sub(lambda m: m[1] + "\n" + "\n".join(TABLES[m[2]]()) + "\n\n" + m[3], page)


def main() -> None:
    """Write every page."""
    for name in PAGES:
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        path.write_text(written(page), encoding="utf-8")
        print(f"{name}: {len(BLOCK.findall(page))} tables", file=sys.stderr)


if __name__ == "__main__":
    main()

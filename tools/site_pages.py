"""The pages of the site that are made from the code and from results/: no number is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import griffe

import tutorials
from needlab.report.claims import Claim, claim_from

ROOT = Path(__file__).resolve().parents[1]

API: dict[str, tuple[str, tuple[str, ...]]] = {
    "replay": (
        "Buffer and samplers",
        (
            "needreplay.replay.buffer",
            "needreplay.replay",
            "needreplay.replay.samplers",
            "needreplay.replay.samplers.base",
        ),
    ),
    "need": ("Need models", ("needreplay.need", "needreplay.need.networks")),
    "distributed": ("One replay on Ray", ("needreplay.distributed",)),
    "integrations": (
        "Stable-Baselines3 and Minari",
        ("needreplay.integrations.sb3", "needreplay.integrations.minari"),
    ),
    "equations": ("Equations", ("needreplay.equations", "needlab.tabular.successor")),
    "core": ("Errors and random streams", ("needreplay._core.errors", "needreplay._core.rng")),
    "tabular": (
        "Tabular agents",
        (
            "needlab.tabular.agents",
            "needlab.tabular.settings",
            "needlab.tabular.trial",
            "needlab.tabular.evb",
            "needlab.tabular.replay_events",
            "needlab.tabular.decoded",
            "needlab.tabular.pynapple",
            "needlab.tabular.replay_files",
            "needlab.report.replay_log",
            "needlab.report.recording:record",
        ),
    ),
    "fit": (
        "Fits and rivals",
        (
            "needlab.tabular.fit",
            "needlab.tabular.rivals",
            "needlab.report.fit_page:write_fit_page",
        ),
    ),
    "linear": ("Linear agents", ("needlab.linear",)),
    "deep": ("Deep agents", ("needlab.deep",)),
    "worlds": (
        "Worlds",
        (
            "needlab.worlds",
            "needlab.worlds.named",
            "needlab.worlds.text",
            "needlab.worlds.changes",
            "needlab.worlds.ratinabox",
            "needlab.worlds.tabular:Schedule,START_RULES",
        ),
    ),
    "training": (
        "Training",
        ("needlab.runs.config", "needlab.runs.run", "needlab.runs.evaluation"),
    ),
    "sweeps": ("Sweeps", ("needlab.runs", "needlab.runs.local:LocalEngine")),
    "studies": (
        "Studies and statistics",
        (
            "needlab.studies.study",
            "needlab.runs.trials",
            "needlab.studies.cliffwalk.settings:cliffwalk_preset,PAPER_METHODS",
            "needlab.studies.cliffwalk.cases:cases_of,run_cases",
            "needlab.studies.cliffwalk.agent:run_trial",
            "needlab.report.claims",
            "needlab.report.statistics",
            "needlab.core.tables:Table,long_table",
        ),
    ),
}
"""The pages of the API: title and modules, or ``module:name,name``."""
PACKAGES = ("needreplay", "needlab")
NOT_API = ("needlab.cli",)


def pages() -> dict[str, str]:
    """Every generated page, by its address in the site."""
    made = {"results.md": results(), "reference/cli.md": cli()}
    made |= {"reference/settings.md": settings(), "reference/metrics.md": metrics()}
    for name in tutorials.NAMES:
        if not (tutorials.FOLDER / f"{name}.md").exists():
            parts = tutorials.parts_of((tutorials.FOLDER / f"{name}.py").read_text("utf-8"))
            footer = "Its output is missing here: `make tutorials` runs it and writes this page."
            made[f"tutorials/{name}.md"] = tutorials.page_of(parts, name, footer)
    return made | api()


# The API.


def api() -> dict[str, str]:
    """A page for each entry of ``API``; refuses public names without a page or a docstring."""
    packages: dict[str, griffe.Module] = {}
    top: dict[str, str] = {}
    for name in PACKAGES:
        package = griffe.load(name, search_paths=[ROOT / "src"], docstring_parser="google")
        assert isinstance(package, griffe.Module)
        packages[name] = package
    for name, package in packages.items():
        for public in public_names(package):
            if public[0] != "_":
                top[package[public].final_target.path] = f"{name}.{public}"
    shown: set[str] = set()
    faults: list[str] = []
    made: dict[str, str] = {}
    for page, (title, modules) in API.items():
        lines = [f"# {title}", ""]
        for entry in modules:
            path, _, part = entry.partition(":")
            name, _, below = path.partition(".")
            module = packages[name][below]
            assert module.docstring is not None, module.path
            new = []
            for name in part.split(",") if part else public_names(module):
                target = _final(module[name])
                if target.path not in shown:
                    shown.add(target.path)
                    faults += undocumented(target)
                    new.append(top.get(target.path, f"{module.path}.{name}"))
            if new:
                lines += [f"**`{module.path}`**: {_plain(module.docstring.value)}", ""]
                lines += [f"::: {path}\n" for path in new]
        made[f"reference/{page}.md"] = "\n".join(lines)
    faults += [f"{top[path]} is in __all__ and on no page of the API" for path in set(top) - shown]
    listed = {entry for _, modules in API.values() for entry in modules}
    faults += [
        f"{module.path} has __all__ and is on no page of the API (tools/site_pages.py, API)"
        for package in packages.values()
        for module in _modules(package)
        if module.exports is not None
        and module is not package
        and not {_final(module[str(name)]).path for name in module.exports} <= shown
        and module.path not in listed
        and not module.path.startswith(NOT_API)
    ]
    if faults:
        raise SystemExit("The API reference is not complete:\n" + "\n".join(sorted(faults)))
    return made


def public_names(module: Any) -> list[str]:
    """``__all__``, or else the functions, classes and documented constants that it defines."""
    if module.exports is not None:
        return [str(name) for name in module.exports]
    return [
        name
        for name, member in module.members.items()
        if not (name.startswith("_") or member.is_alias or member.is_module)
        and (not member.is_attribute or member.has_docstring)
    ]


def undocumented(target: Any) -> Iterator[str]:
    """What a public object lacks: docstrings of its own and of its methods, and type hints."""
    if target.is_module:
        return
    if not target.has_docstring:
        yield f"{target.path} has no docstring"
    if target.is_function:
        for parameter in target.parameters:
            if parameter.name not in ("self", "cls") and parameter.annotation is None:
                yield f"{target.path}: {parameter.name} has no type"
    if target.is_class:
        for name, member in target.members.items():
            if not name.startswith("_") and member.is_function:
                yield from undocumented(member)


def _final(member: Any) -> Any:
    return member.final_target if member.is_alias else member


def _modules(module: Any) -> Iterator[Any]:
    yield module
    for below in module.modules.values():
        if not below.is_alias:
            yield from _modules(below)


def _plain(docstring: str) -> str:
    """The first paragraph."""
    return " ".join(docstring.split("\n\n")[0].split()).replace("``", "`")


# The command line.


def cli() -> str:
    """What every command prints for ``--help``."""
    from needlab.cli.command import COMMANDS

    lines = ["# Command line", "", "What each command prints for `--help`.", ""]
    for command in ["", *(name for commands in COMMANDS.values() for name in commands)]:
        text = _help(command) if command else _help()
        lines += [f"## needreplay {command}".rstrip(), "", "```text", text.rstrip(), "```", ""]
    return "\n".join(lines)


def _help(*words: str) -> str:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "90", "PYTHONUTF8": "1"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-c", "from needlab.cli import main; main()", *words, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Settings.


def settings() -> str:
    """Tables of every dataclass of settings."""
    from needlab.core.presets import flat
    from needlab.deep.presets import deep_preset
    from needlab.deep.settings import Network
    from needlab.runs.config import PROTOCOLS, ActorSettings, Protocol, explained
    from needlab.tabular.settings import DynaSettings, LearningSettings, SweepingSettings
    from needlab.worlds.named import WorldSettings

    lines = [
        "# Settings",
        "",
        "Every setting has the same name in Python, in `--set NAME=VALUE` and in a sweep file. "
        "These tables are made from the code.",
        "",
        "## Deep agents",
        "",
        "The values are those of the agent `per-sr`; where presets differ, in the order default / "
        "printed / released / corrected. `needreplay train --world NAME --agent NAME --settings` "
        "prints those of any other run.",
        "",
    ]
    networks: dict[str, Network] = {"MinAtar": "minatar", "Atari": "nature", "other": "vector"}
    presets = ("default", "printed", "released", "corrected")
    columns = {
        world: [deep_preset(p, network, "per-sr") for p in presets]
        for world, network in networks.items()
    }
    rows = [
        [f"`{each.name}`", each.meaning + _choices(each.choices)]
        + [_shared(flat(made)[each.name] for made in column) for column in columns.values()]
        for each in explained(columns["MinAtar"][0])
    ]
    lines += table(["setting", "meaning", *columns], rows)
    lines += ["", "## Worlds", "", "For `needreplay train` and sweeps of deep agents.", ""]
    lines += _field_rows(WorldSettings)
    lines += ["", "## Evaluation and checkpoints", "", "By kind of world.", ""]
    rows = [
        [
            f"`{each.name}`",
            each.meaning,
            *(_value(getattr(p, each.name)) for p in PROTOCOLS.values()),
        ]
        for each in explained(Protocol())
    ]
    lines += table(["setting", "meaning", *PROTOCOLS], rows)
    lines += ["", "## Actors and shards", ""]
    lines += ["Of [a run by many processes](../many_machines.md).", ""]
    lines += _field_rows(ActorSettings)
    for kind in (LearningSettings, DynaSettings, SweepingSettings):
        lines += ["", f"## {kind.__name__}", "", _plain(kind.__doc__ or ""), ""]
        lines += _field_rows(kind)
    return "\n".join(lines) + "\n"


def _shared(values: Iterable[Any]) -> str:
    words = [_value(value) for value in values]
    return words[0] if len(set(words)) == 1 else " / ".join(words)


def _field_rows(kind: Any) -> list[str]:
    """A dataclass, with its parents' fields: name, docstring and default of each."""
    from needlab.runs.config import field_docs

    meanings: dict[str, str] = {}
    for parent in reversed(kind.__mro__[:-1]):
        meanings |= field_docs(parent)
    rows = [[f"`{f.name}`", meanings[f.name], _value(f.default)] for f in fields(kind)]
    return table(["setting", "meaning", "default"], rows)


def _choices(words: Iterable[str]) -> str:
    listed = ", ".join(f"`{word}`" for word in words if word != "None")
    return f" ({listed})" if listed else ""


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows
    ]


# Metrics.


def metrics() -> str:
    """The columns of metrics.csv."""
    from needlab.runs.metrics import COLUMNS, OF_ACTORS

    lines = [
        "# Metrics",
        "",
        "## A training run",
        "",
        "Columns of `metrics.csv`, one row per iteration. An empty cell is not known, or not part "
        "of this agent. All but the counts and `epsilon` are means over the iteration.",
        "",
        *table(
            ["column", "meaning"], ([f"`{name}`", meaning] for name, meaning in COLUMNS.items())
        ),
        "",
        "A run with [actors](../many_machines.md) has these, too:",
        "",
        *table(
            ["column", "meaning"], ([f"`{name}`", meaning] for name, meaning in OF_ACTORS.items())
        ),
        "",
        "`done.json` has the best and the final return of training and of evaluation, and the "
        "mean of the last ten iterations.",
        "",
        "## Studies and sweeps",
        "",
        "The page of each study explains its columns: [the maze](../maze.md#files), [the "
        "cliffwalk](../cliffwalk_settings.md#what-every-column-means). [The "
        "statistics](../sweeps.md#the-statistics) of a sweep are those of Agarwal et al. 2021.",
    ]
    return "\n".join(lines) + "\n"


# Results.


def results() -> str:
    """Every claim with its verdict for each preset, from ``results/*/claims.json``."""
    lines = [
        "# Results",
        "",
        "Every claim that we test, with its verdict under each preset: `printed` is the paper's "
        "text, `released` its code, `corrected` its code without its faults. This page is made "
        "from `results/`; each verdict follows from the 95% interval or the test beside it.",
        "",
        "## The paper's claims at a glance",
        "",
    ]
    studies = [(folder, *_read(folder)) for folder in _studies()]
    for folder, claims, meta in studies:
        of_paper = [claim for claim in claims if claim.source.startswith("paper")]
        if of_paper:
            presets = list(dict.fromkeys(claim.preset for claim in of_paper))
            rows = [
                [statement, source, *(found[p].full_verdict if p in found else "" for p in presets)]
                for statement, source, found in _grouped(of_paper)
            ]
            lines += [f"**[{meta['title']}](#{folder.name})**", ""]
            lines += [*table(["claim", "source", *presets], rows), ""]
    for folder, claims, meta in studies:
        lines += ["", f"## {folder.name}", "", f"**{meta['title']}.** {meta['question']}", ""]
        lines += [f"![{meta['title']}](../results/{folder.name}/{p})\n" for p in _figures(folder)]
        for statement, source, found in _grouped(claims):
            lines += [f"**{statement}** ({source})", ""]
            cells = [[p, f"**{c.full_verdict}**", c.measured, c.detail] for p, c in found.items()]
            lines += [*table(["preset", "verdict", "measured", "how"], cells), ""]
        cpu, cores = meta["machine"]["processor"], meta["machine"]["cores"]
        lines += [
            f"Made by `{meta['command']}` on {meta['date'][:10]}, {cpu}, {cores} cores, at commit "
            f"{meta['commit']}.",
            "",
            *_left_out(folder, meta),
            f"More: [{meta['documentation']}](../{meta['documentation']})",
        ]
    return "\n".join(lines) + "\n"


def _left_out(folder: Path, meta: Mapping[str, Any]) -> list[str]:
    missing = [name for name in meta.get("files", ()) if not (folder / name).exists()]
    return [f"Not in `results/{folder.name}`: {', '.join(missing)}.", ""] if missing else []


def _studies() -> list[Path]:
    order = ["fig1", "fig2", "fig3", "fig5"]
    folders = [path.parent for path in (ROOT / "results").glob("*/claims.json")]
    return sorted(folders, key=lambda f: (f.name not in order, f.name))


def _read(folder: Path) -> tuple[list[Claim], Mapping[str, Any]]:
    claims, meta = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("claims", "meta")
    )
    return [claim_from(claim) for claim in claims], meta


def _grouped(claims: Iterable[Claim]) -> list[tuple[str, str, dict[str, Claim]]]:
    """Statement, source, and the claims by preset."""
    grouped: dict[tuple[str, str], dict[str, Claim]] = {}
    for claim in claims:
        grouped.setdefault((claim.statement, claim.source), {})[claim.preset] = claim
    return [(*key, found) for key, found in grouped.items()]


def _figures(folder: Path) -> list[str]:
    return sorted(
        (p.name for p in folder.glob("*.png")), key=lambda name: (name != "figure.png", name)
    )

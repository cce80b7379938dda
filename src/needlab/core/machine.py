"""What results depend on besides config and seed: the type of CPU, and versions of libraries.

torch and LLVM choose instructions by the CPU, and wider vectors add in another order. So the same
bits are promised only for the same type of CPU and the same versions.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from needlab.core.tables import read_json, write_json
from needlab.core.types import JsonObject
from needreplay._core.errors import NeedReplayError
from needreplay._version import __version__

HISTORY = "history.json"


def machine() -> dict[str, str]:
    """This machine's type of CPU, as LLVM and torch (if it is used) see it, and versions."""
    import llvmlite.binding as llvm
    import numba

    settings: Any = numba.config
    found = {
        "cpu": f"{platform.machine()} {settings.CPU_NAME or llvm.get_host_cpu_name()}",
        "needreplay": __version__,
        "python": platform.python_version(),
    }
    found |= {library: version(library) for library in ("numpy", "numba", "gymnasium")}
    # Looked up, not imported: it takes seconds, and tabular runs do without.
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = version("torch")
        # The vector instructions that torch uses: DEFAULT, AVX2, AVX512, ...
        found["vectors"] = torch.backends.cpu.get_cpu_capability()
    return found


def machines_of(folder: Path) -> list[JsonObject]:
    """The machines that worked on the run in ``folder``, in order; none if nothing says so."""
    path = folder / HISTORY
    if not path.exists():
        return []
    found = read_json(path)
    machines = found.get("machines") if isinstance(found, dict) else None
    if not isinstance(machines, list) or not all(isinstance(each, dict) for each in machines):
        raise NeedReplayError(f"{str(path)!r} is damaged: it lists no machines.")
    return machines


def cpu_types(machines: Iterable[JsonObject]) -> list[str]:
    """The types of CPU among machines.

    Only a run that used torch knows torch's instructions, so a run that does not name them is of no
    type of its own.

    >>> cpu_types([{"cpu": "x86_64 znver3"}, {"cpu": "x86_64 znver3", "vectors": "AVX2"}])
    ['x86_64 znver3 AVX2']
    """
    vectors: dict[str, set[str]] = {}
    for each in machines:
        vectors.setdefault(str(each.get("cpu")), set()).add(str(each.get("vectors", "")))
    return sorted(
        f"{cpu} {one}".strip() for cpu, found in vectors.items() for one in found - {""} or {""}
    )


def record_machine(folder: Path) -> str:
    """Add this machine to the run's history; return a warning if another one began the run."""
    earlier, here = machines_of(folder), machine()
    if here in earlier[-1:]:
        return ""
    content = read_json(folder / HISTORY) if earlier else {}
    write_json(folder / HISTORY, {**content, "machines": [*earlier, here]})
    if not earlier:
        return ""
    before = earlier[-1]
    # What only one of them used is no change: a tabular run does without torch.
    changes = [
        f"{name} {before[name]} -> {here[name]}"
        for name in here
        if name in before and before[name] != here[name]
    ]
    if not changes:
        return ""
    return (
        f"the run in {str(folder)!r} continues with {', '.join(changes)}: its results are no "
        "longer the same bits as those of a run on one machine."
    )

"""The engine ``ray``: items as tasks of a Ray cluster, one task each.

A node that sees the folder works in it, and after the loss of a node the item resumes there. A node
that does not see it sends back what it made.
"""

from __future__ import annotations

import io
import math
import secrets
import shutil
import tarfile
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from needlab.core.tables import write_text
from needlab.runs.runner import Ended, Item, do, error_lines
from needreplay._core.cluster import connect, imported
from needreplay._core.errors import NeedReplayError
from needreplay._version import __version__

_TOKEN = ".shared"


class Returned(NamedTuple):
    """What a task returns: how the item ended, and the folder if it is not shared."""

    ended: Ended
    archive: bytes | None


class RayEngine:
    """Items on a cluster.

    Args:
        folder: of the sweep; the items' folders are in it.
        address: of a running cluster ("auto": the one on this machine); ``None`` starts one here.
        workers: runs at once; ``None``: as many as the cluster's resources allow.
        cpus_per_run: CPUs that a run reserves.
        gpus_per_run: GPUs that a run reserves, or a share of one.
        bring_back: send every folder back, without looking for a shared one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        address: str | None = None,
        workers: int | None = None,
        cpus_per_run: float = 1,
        gpus_per_run: float = 0,
        bring_back: bool = False,
    ) -> None:
        if workers is not None and workers < 1:
            raise NeedReplayError(f"workers must be at least 1, not {workers}.")
        self._ray = ray = imported("--engine ray (the other is local)")
        # All of them: the cluster starts those that fit.
        self.slots = workers or 10_000
        self._tasks: dict[Any, Item] = {}
        self._token = secrets.token_hex(16)
        self._folder = folder.resolve()
        if not bring_back:
            write_text(self._folder / _TOKEN, self._token)
        connect(ray, address, num_cpus=_cpus(workers, cpus_per_run))
        # The runner starts lost items again, on every engine alike; so Ray must not.
        self._task = ray.remote(
            num_cpus=cpus_per_run, num_gpus=gpus_per_run, max_retries=0, max_calls=1
        )(_task)
        self._check_size(cpus_per_run, gpus_per_run)

    def _check_size(self, cpus: float, gpus: float) -> None:
        """Ray would wait forever for resources that no node has."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(n.get("CPU", 0) >= cpus and n.get("GPU", 0) >= gpus for n in nodes):
            self.close()
            raise NeedReplayError(
                f"No node of the cluster has {cpus:g} CPUs and {gpus:g} GPUs, which one run needs; "
                "change --cpus-per-run or --gpus-per-run."
            )

    def start(self, item: Item) -> None:
        """Submit an item."""
        relative = str(item.path.parent.resolve().relative_to(self._folder))
        task = self._task.remote(item, str(self._folder), relative, self._token, __version__)
        self._tasks[task] = item

    def wait(self, seconds: float) -> list[Ended]:
        """Return the runs whose task ended."""
        if not self._tasks:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        return [self._fetch(task) for task in ready]

    def _fetch(self, task: Any) -> Ended:
        item = self._tasks.pop(task)
        try:
            returned: Returned = self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            return Ended(item.name, "raised", error_lines(error.as_instanceof_cause()))
        except self._ray.exceptions.RayError as error:
            first = (str(error).strip().splitlines() or [""])[0]
            return Ended(item.name, "lost", (f"{type(error).__name__}: {first}",))
        if returned.archive is not None:
            try:
                _unpack(returned.archive, item.path)
            except (OSError, tarfile.TarError) as error:
                return Ended(item.name, "raised", (f"Its results cannot be written: {error}.",))
        return returned.ended

    def close(self) -> None:
        """Cancel all tasks and leave the cluster; one that was started here ends."""
        for task in self._tasks:
            self._ray.cancel(task, force=True)
        self._tasks.clear()
        self._ray.shutdown()
        (self._folder / _TOKEN).unlink(missing_ok=True)


def _cpus(workers: int | None, each: float) -> int | None:
    return None if workers is None else max(1, math.ceil(workers * each))


def _task(item: Item, root: str, relative: str, token: str, version: str) -> Returned:
    """On a node: work in the shared folder, or in a temporary one and send it back."""
    if version != __version__:
        # Results must not depend on the machine that makes them.
        raise NeedReplayError(
            f"The sweep was started by needreplay {version}, but this machine has {__version__}; "
            "install the same version on every machine."
        )
    with suppress(OSError):
        if (Path(root) / _TOKEN).read_text(encoding="utf-8") == token:
            return Returned(do(item, Path(root) / relative), None)
    own = Path(tempfile.mkdtemp(prefix="needreplay-"))
    try:
        return Returned(do(item, own), _packed(own))
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _packed(folder: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for path in sorted(folder.iterdir()):
            if path.name != ".lock":
                archive.add(path, arcname=path.name)
    return packed.getvalue()


def _unpack(archive: bytes, path: Path) -> None:
    """Put what the item made into the folder of ``path``, and ``path`` last."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent.parent, prefix=".back-") as place:
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(place, filter="data")
        for found in sorted(Path(place).iterdir(), key=lambda each: each.name == path.name):
            target = path.with_name(found.name)
            if target.is_dir():
                shutil.rmtree(target)
            found.replace(target)

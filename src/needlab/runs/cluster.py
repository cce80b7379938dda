"""The engine ``ray``: the runs of a sweep as tasks of a Ray cluster, one task per run.

A node that sees the sweep's folder works in it, and after the loss of a node the run resumes there.
A node that does not see it sends the folder of the finished run back.
"""

from __future__ import annotations

import io
import math
import os
import secrets
import shutil
import tarfile
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from needlab.core.tables import write_text
from needlab.runs.execute import errors_of, last_lines
from needlab.runs.sweep_file import RunSpec
from needlab.runs.sweep_loop import Ended
from needreplay._core.errors import NeedReplayError
from needreplay._version import __version__

_TOKEN = ".shared"


class Returned(NamedTuple):
    """What a task returns: the lines of an error, and the folder if it is not shared."""

    lines: tuple[str, ...]
    archive: bytes | None


class RayEngine:
    """The runs of a sweep on a cluster.

    Args:
        folder: the sweep's.
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
        self._ray = ray = _imported()
        # All of them: the cluster starts those that fit.
        self.slots = workers or 10_000
        self._tasks: dict[Any, tuple[str, Path]] = {}
        self._token = secrets.token_hex(16)
        self._folder = folder.resolve()
        if not bring_back:
            write_text(self._folder / _TOKEN, self._token)
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address is None:
            settings |= {"include_dashboard": False, "num_cpus": _cpus(workers, cpus_per_run)}
        try:
            ray.init(address=address or "local", **settings)
        except Exception as error:
            if address is None:
                raise NeedReplayError(f"Ray does not start on this machine: {error}") from error
            raise NeedReplayError(
                f"No Ray cluster answers at {address}: {error} If Ray reports InvalidAuthToken "
                "above, copy the head's ~/.ray/auth_token to this machine and put "
                "RAY_AUTH_MODE=token before the command."
            ) from error
        # The sweep starts lost runs again, on every engine alike; so Ray must not.
        self._task = ray.remote(
            num_cpus=cpus_per_run, num_gpus=gpus_per_run, max_retries=0, max_calls=1
        )(_task)
        self._refuse_too_large(cpus_per_run, gpus_per_run)

    def _refuse_too_large(self, cpus: float, gpus: float) -> None:
        """Ray would wait forever for resources that no node has."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(n.get("CPU", 0) >= cpus and n.get("GPU", 0) >= gpus for n in nodes):
            self.close()
            raise NeedReplayError(
                f"No node of the cluster has {cpus:g} CPUs and {gpus:g} GPUs, which one run needs; "
                "change --cpus-per-run or --gpus-per-run."
            )

    def start(self, spec: RunSpec, folder: Path) -> None:
        """Submit a run."""
        relative = str(folder.resolve().relative_to(self._folder))
        task = self._task.remote(spec, str(self._folder), relative, self._token, __version__)
        self._tasks[task] = (spec.name, folder)

    def wait(self, seconds: float) -> list[Ended]:
        """Return the runs whose task ended."""
        if not self._tasks:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        return [self._fetch(task) for task in ready]

    def _fetch(self, task: Any) -> Ended:
        name, folder = self._tasks.pop(task)
        try:
            returned: Returned = self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            return Ended(name, "raised", last_lines(error.as_instanceof_cause()))
        except self._ray.exceptions.RayError as error:
            first = (str(error).strip().splitlines() or [""])[0]
            return Ended(name, "lost", (f"{type(error).__name__}: {first}",))
        if returned.archive is not None:
            try:
                _unpack(returned.archive, folder)
            except (OSError, tarfile.TarError) as error:
                return Ended(name, "raised", (f"Its results cannot be written: {error}.",))
        return Ended(name, "raised" if returned.lines else "done", returned.lines)

    def close(self) -> None:
        """Cancel all tasks and leave the cluster; one that was started here ends."""
        for task in self._tasks:
            self._ray.cancel(task, force=True)
        self._tasks.clear()
        self._ray.shutdown()
        (self._folder / _TOKEN).unlink(missing_ok=True)


def _imported() -> Any:
    # Ray would look for a server for its usage statistics; a sweep reports nothing to anyone.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Silences a warning of Ray 2 about GPUs that does not concern us.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as missing:
        raise NeedReplayError(
            "The engine ray needs Ray, which is not installed; install it with: "
            "pip install ray, or choose --engine local."
        ) from missing
    return ray


def _cpus(workers: int | None, each: float) -> int | None:
    return None if workers is None else max(1, math.ceil(workers * each))


def _task(spec: RunSpec, sweep: str, relative: str, token: str, version: str) -> Returned:
    """On a node: work in the shared folder, or in a temporary one and send it back."""
    with suppress(OSError):
        if (Path(sweep) / _TOKEN).read_text(encoding="utf-8") == token:
            return Returned(errors_of(spec, Path(sweep) / relative, version), None)
    own = Path(tempfile.mkdtemp(prefix="needreplay-"))
    try:
        lines = errors_of(spec, own / spec.name, version)
        return Returned(lines, _packed(own / spec.name))
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _packed(folder: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for path in sorted(folder.iterdir()):
            if path.name != ".lock":
                archive.add(path, arcname=path.name)
    return packed.getvalue()


def _unpack(archive: bytes, folder: Path) -> None:
    """Put the run's files into its folder, done.json last."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".back-") as place:
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(place, filter="data")
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(Path(place).iterdir(), key=lambda path: path.name == "done.json"):
            target = folder / path.name
            if target.is_dir():
                shutil.rmtree(target)
            path.replace(target)

"""Trials on processes: in order, cached, the same for any number of workers, and robust."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.runs import trials
from needlab.runs.display import Display, Report
from needlab.runs.local import LocalEngine
from needlab.runs.runner import RunState
from needlab.runs.trials import TrialRunner
from needreplay._core.errors import NeedReplayError


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch, fakes_folder: Path) -> None:
    monkeypatch.syspath_prepend(str(fakes_folder))


class Recording(Display):
    """Remembers what would be shown."""

    def __init__(self) -> None:
        super().__init__(visible=False)
        self.lines: list[str] = []
        self.done = 0.0

    @contextmanager
    def showing(self, label: str, slots: int | None, expected: float | None = None) -> Any:
        report = Report(label, slots, expected)

        def watch(state: RunState) -> None:
            self.lines.append(report.line(state))
            self.done = sum(item.units for item in state.done)

        yield watch


SILENT = Display(visible=False)


@contextmanager
def runner(cache: Path, workers: int = 1, display: Display = SILENT) -> Iterator[Any]:
    """``run(cases, trials, seconds)`` of fake trials."""
    from fake_trials import trial

    with closing(LocalEngine(workers, reuse=True)) as engine:

        def run(cases: Any, count: Any, seconds: Any = 1.0) -> list[Any]:
            runner = TrialRunner(engine, cache, display)
            found = runner.run(trial, cases, count, label="test", seconds=seconds)
            return [columns["steps"].tolist() for columns in found.values()]

        yield run


def case(agent: str = "ps", **how: Any) -> Any:
    from fake_trials import Case

    return Case(seed=1, preset="printed", agent=agent, **how)


def test_trials_are_in_order_for_any_number_of_workers(tmp_path: Path) -> None:
    from fake_trials import trial

    cases, counts = [case("ps"), case("ps-sr"), case("dyna-q")], [5, 23, 7]
    expected = [
        [trial(c, n)["steps"].tolist() for n in range(count)]
        for c, count in zip(cases, counts, strict=True)
    ]
    for workers in (1, 2):
        display = Recording()
        with runner(tmp_path / str(workers), workers, display) as run:
            assert run(cases, counts, [1.0, 0.5, 100.0]) == expected
        # 716.5 seconds are expected, in the first moment and on both workers.
        assert display.done == 5 + 23 * 0.5 + 7 * 100.0
        assert display.lines[0] == f"test: 0%, {12 // workers} min to finish"
        assert display.lines[-1] == "test: 100%"
    # Chunks are cut by time, not by workers: 1 of 5 trials, 3 of up to 10, 7 of one.
    names = [sorted(p.name for p in (tmp_path / workers).iterdir()) for workers in ("1", "2")]
    assert names[0] == names[1]
    assert len(names[0]) == 1 + 3 + 7


def test_a_case_that_stands_twice_raises(tmp_path: Path) -> None:
    run = TrialRunner(LocalEngine(1), tmp_path).run
    with pytest.raises(NeedReplayError, match="squares has a case twice"):
        run(lambda _case, _trial: {}, [1, 2, 1], 1, label="squares")


def test_finished_chunks_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.mkdir()
    monkeypatch.setenv("FAKE_LOG", str(log))
    mended = tmp_path / "mended"
    cases = [case("ps-sr"), case("ps", bad=11, mended=str(mended))]
    with runner(tmp_path / "cache") as run:
        with pytest.raises(NeedReplayError, match=r"^The maze has no goal\.$"):
            run(cases, 12)
        mended.touch()
        found = run(cases, 12)
        # Only the chunk with the bad trial, of two trials, runs again; then none.
        assert len(list(log.iterdir())) == 24 + 2
        assert run(cases, 12) == found
        assert len(list(log.iterdir())) == 24 + 2
    with runner(tmp_path / "undisturbed") as run:
        assert run([case("ps-sr"), case("ps")], 12) == found


def test_a_damaged_chunk_is_run_again(tmp_path: Path) -> None:
    with runner(tmp_path) as run:
        found = run([case()], 8)
        first, second = sorted(tmp_path.iterdir())
        first.write_bytes(first.read_bytes()[:-30])
        # The other chunk's trials, and a chunk that lacks some: neither is taken.
        np.savez(second.with_suffix(""), steps=np.zeros((2, 20)))
        assert run([case()], 8) == found


def test_a_chunk_that_holds_code_is_not_loaded(tmp_path: Path) -> None:
    with runner(tmp_path) as run:
        found = run([case()], 3)
        (chunk,) = tmp_path.iterdir()
        np.savez(chunk.with_suffix(""), steps=np.array([object()] * 3))
        assert run([case()], 3) == found


def test_a_worker_that_dies_is_reported_and_its_trials_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mended = tmp_path / "mended"
    once = case(bad=2, how="die once", mended=str(mended))
    with runner(tmp_path / "once", 2) as run:
        found = run([once, case("ps-sr")], 3)
    assert mended.exists()
    assert "needreplay: test-0-0 was lost with its process" in capsys.readouterr().err
    with runner(tmp_path / "never") as run:
        assert run([case(), case("ps-sr")], 3) == found
    with (
        runner(tmp_path / "always") as run,
        pytest.raises(NeedReplayError, match=r"^test: a worker process died .*, 3 times\."),
    ):
        run([case(bad=2, how="die")], 3)


def test_without_a_folder_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fake_trials import trial

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with trials.trial_runner() as run:
        assert len(run.run(trial, [case()], 2, label="test")[case()]["steps"]) == 2
        assert len(list(tmp_path.glob("needreplay-*/*.npz"))) == 1
    assert list(tmp_path.iterdir()) == []

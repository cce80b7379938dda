"""Trials as runs of a sweep: cut by their work, in order, kept, and named when they fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needreplay.core.errors import NeedReplayError
from needreplay.core.progress import Bar, Progress
from needreplay.core.tables import Table
from needreplay.studies import runs
from needreplay.studies.base import Request
from needreplay.studies.runs import Experiment, cut_into_chunks, how_many_chunks, run_experiments

REQUEST = Request((), trials=None, seed=0, workers=1, size="quick")


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch, fakes_folder: Path) -> None:
    monkeypatch.syspath_prepend(str(fakes_folder))


class Counting(Progress):
    """A bar that is only added up."""

    def __init__(self) -> None:
        super().__init__(visible=False)
        self.total = self.done = 0.0

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Bar]:  # noqa: ARG002
        self.total = total

        def moved(amount: float) -> None:
            self.done += amount

        yield Bar(moved)


def fake(agent: str, trials: int, seconds: float = 1.0, **config: Any) -> Experiment:
    plain = {"seed": 1, "preset": "printed", "agent": agent, **config}
    return Experiment("fake_trials:KIND", plain, trials, seconds)


def lived(experiments: list[Experiment], request: Request = REQUEST) -> list[Table]:
    return run_experiments(experiments, request, Progress(visible=False), "test")


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.floats(1e-3, 30.0, allow_nan=False)),
        min_size=1,
        max_size=6,
    )
)
def test_every_trial_is_in_one_chunk_and_chunks_are_even(asked: list[tuple[int, float]]) -> None:
    experiments = [Experiment("maze", {}, trials, seconds) for trials, seconds in asked]
    chunks = cut_into_chunks(experiments)
    held = [
        (part.experiment, part.first + i)
        for chunk in chunks
        for part in chunk
        for i in range(part.trials)
    ]
    assert sorted(held) == [(n, i) for n, (trials, _) in enumerate(asked) for i in range(trials)]
    total = sum(trials * seconds for trials, seconds in asked)
    share = total / how_many_chunks(total)
    longest = max(seconds for _, seconds in asked)
    for chunk in chunks:
        work = sum(part.trials * asked[part.experiment][1] for part in chunk)
        assert work <= (share + longest) * (1 + 1e-9)


def test_chunks_by_hand() -> None:
    short, long = Experiment("maze", {}, 3, 1.0), Experiment("maze", {}, 4, 5.0)
    # 23 seconds are three chunks of 7.67: trials begin at 0, 5 | 10, 15 | 20, 21, 22.
    assert cut_into_chunks([short, long]) == [
        [runs.Part(1, 0, 2)],
        [runs.Part(1, 2, 2)],
        [runs.Part(0, 0, 3)],
    ]
    assert cut_into_chunks([Experiment("maze", {}, 3, 1.0)]) == [[runs.Part(0, 0, 3)]]
    assert [how_many_chunks(s) for s in (3.9, 4, 20, 21, 160, 640, 680)] == [1, 2, 2, 3, 16, 16, 17]


def test_rows_stand_in_order_whatever_the_workers() -> None:
    asked = [fake("ps", 5), fake("ps-sr", 25, seconds=0.5), fake("ps", 7, preset="released")]
    assert len(cut_into_chunks(asked)) == 3
    one = lived(asked)
    progress = Counting()
    two = run_experiments(asked, replace(REQUEST, workers=2), progress, "test")
    assert (progress.total, progress.done) == (37.0, 37.0)
    from fake_trials import EPISODES, trials_of

    for experiment, a, b in zip(asked, one, two, strict=True):
        config = {**experiment.config, "first_trial": 0, "trials": experiment.trials}
        whole = trials_of(config)
        steps = np.concatenate([whole.rows_of(trial)["steps"] for trial in whole.cases])
        assert a["trial"].tolist() == np.repeat(range(experiment.trials), EPISODES).tolist()
        assert a["steps"].tolist() == b["steps"].tolist() == steps.tolist()


def test_a_trial_that_fails_ends_it_and_is_mended(tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    bad = fake("ps", 12, bad=11, how="raise", mended=str(mended))
    kept = replace(REQUEST, runs_folder=tmp_path / "runs")
    asked = [fake("ps-sr", 12, seconds=1.5), bad]
    with pytest.raises(
        NeedReplayError,
        match=r"^the run \w{16} \(fake_trials:KIND, \d parts?\) failed: The maze has no goal\.$",
    ):
        lived(asked, kept)
    folders = list((tmp_path / "runs" / "runs").iterdir())
    assert sum((folder / "done.json").exists() for folder in folders) == len(folders) - 1 == 2
    mended.touch()
    found = lived(asked, kept)
    assert found[1]["steps"].tolist() == lived([fake("ps", 12)])[0]["steps"].tolist()


def test_a_failure_stops_what_has_not_begun(tmp_path: Path) -> None:
    bad = fake("ps", 40, bad=0, how="raise", mended=str(tmp_path / "never"))
    assert len(cut_into_chunks([bad])) == 4
    with pytest.raises(NeedReplayError, match="failed: The maze has no goal"):
        lived([bad], replace(REQUEST, runs_folder=tmp_path / "runs"))
    assert list((tmp_path / "runs" / "runs").glob("*/done.json")) == []


def test_a_worker_that_is_killed_is_started_again(tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    once = fake("ps", 3, bad=2, how="die once", mended=str(mended))
    assert lived([once])[0]["steps"].tolist() == lived([fake("ps", 3)])[0]["steps"].tolist()
    assert mended.exists()
    always = fake("ps", 3, bad=2, how="die", mended="")
    with pytest.raises(NeedReplayError, match=r"failed: Its process ended with signal 9\.$"):
        lived([always])


def test_without_a_folder_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lived([fake("ps", 1)])
    with pytest.raises(KeyboardInterrupt) as stop, runs.runs_folder(REQUEST):
        raise KeyboardInterrupt("what is done is kept")
    assert str(stop.value) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_complete_run_that_lacks_rows_is_refused(tmp_path: Path) -> None:
    request = replace(REQUEST, runs_folder=tmp_path / "runs")
    lived([fake("ps", 3)], request)
    (metrics,) = tmp_path.glob("runs/runs/*/metrics.csv")
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(NeedReplayError, match="lacks rows of its trials; remove that folder"):
        lived([fake("ps", 3)], request)


def test_a_worker_of_another_source_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a file of needreplay is saved between the first chunk and the second."""
    request = replace(REQUEST, runs_folder=tmp_path / "runs")
    monkeypatch.setattr(runs, "source_digest", lambda: "what it was before")
    with pytest.raises(NeedReplayError, match="needreplay's own files were changed while this ran"):
        lived([fake("ps", 1)], request)
    assert list(tmp_path.glob("runs/runs/*/metrics.csv")) == []

"""The bar on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

from needlab.core.progress import Progress, time_left


def test_a_bar_shows_label_share_and_time(capfd: pytest.CaptureFixture[str]) -> None:
    progress = Progress(visible=True)
    with progress.task("fig2 [printed]", total=4) as bar:
        bar.advance()
        bar.advance(3)
    out, err = capfd.readouterr()
    assert out == ""
    assert "fig2 [printed]" in err
    assert "100%" in err
    assert "to finish" in err


def test_tasks_nest_and_follow_each_other(capfd: pytest.CaptureFixture[str]) -> None:
    progress = Progress(visible=True)
    with progress.task("outer", total=1), progress.task("inner", total=2) as bar:
        bar.advance(2)
    with progress.task("next", total=1) as bar:
        bar.advance()
    err = capfd.readouterr().err
    assert "inner" in err
    assert "outer" not in err[err.index("next") :]


def test_a_bar_ends_with_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    progress = Progress(visible=True)
    with pytest.raises(KeyboardInterrupt), progress.task("a", total=1):
        raise KeyboardInterrupt
    assert progress._drawn is None
    capfd.readouterr()


def test_a_log_gets_a_line_now_and_then(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("needlab.core.progress.time.monotonic", lambda: now)
    with Progress().task("fig2", total=200) as bar:
        for now in (101.0, 129.0, 131.0, 140.0, 161.0, 195.0):
            bar.advance(40 if now < 195.0 else 0)
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "fig2: 60%, 21 s to finish\n"
    with Progress(visible=False).task("fig2", total=200) as bar:
        now = 1000.0
        bar.advance(40)
    assert capfd.readouterr().err == ""


def test_nothing_is_printed_or_loaded_for_a_short_task() -> None:
    script = (
        "import sys; from needlab.core.progress import Progress\n"
        "with Progress().task('fig2', total=3) as bar: bar.advance(3)\n"
        "assert 'rich' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_the_time_to_finish_is_sane_from_the_start_and_follows_what_is_measured() -> None:
    # 100 s of work expected. Kernels compile for 10 s, then work goes at half of the speed.
    assert time_left(100, done=0, elapsed=0, speed=1) == 100
    assert 100 < time_left(100, done=0, elapsed=10, speed=1) == 150
    assert 100 < time_left(100, done=0.1, elapsed=10.2, speed=1) < 151
    # Without the expectation the same moment says almost three hours.
    assert time_left(100, done=0.1, elapsed=10.2, speed=0) > 10_000
    assert time_left(100, done=90, elapsed=190, speed=1) == pytest.approx(10 * 210 / 110)
    assert time_left(100, done=0, elapsed=3, speed=0) == float("inf")
    assert time_left(100, done=100, elapsed=300, speed=1) == 0


def test_a_long_task_says_its_time_at_the_start(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress().task("mattar-daw", total=200, speed=2):
        assert capfd.readouterr().err == "mattar-daw: about 100 s to finish\n"
    with Progress().task("short", total=50, speed=2):
        assert capfd.readouterr().err == ""
    with Progress(visible=True).task("mattar-daw", total=200, speed=2):
        pass
    assert "100 s to finish" in capfd.readouterr().err

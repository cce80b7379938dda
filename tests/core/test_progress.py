"""The bar: seen on a terminal, silent elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

from needreplay.core.progress import Progress


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


def test_nothing_is_printed_or_loaded_where_nobody_watches() -> None:
    script = (
        "import sys; from needreplay.core.progress import Progress\n"
        "with Progress().task('fig2', total=3) as bar: bar.advance(3)\n"
        "assert 'rich' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")

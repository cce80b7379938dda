"""Progress on a terminal and elsewhere, and a time to finish from the first moment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from needlab.runs.display import Display, Report
from needlab.runs.runner import Item, RunState, Worked


def item(folder: Path, name: str, units: float, like: str = "") -> Item:
    return Item(name, print, None, folder / f"{name}.npz", units, like)


def progress(one: Item, units: float, seconds: float) -> None:
    one.progress.write_text(json.dumps({"units": units, "seconds": seconds}))


def test_expected_seconds_give_way_to_measured_ones(tmp_path: Path) -> None:
    """Four items of 100 s; they take twice as long as expected."""
    items = [item(tmp_path, name, 100.0) for name in "abcd"]
    state, report = RunState.of(items), Report("[fig2]", 2, expected=1.0)
    assert report.line(state) == "[fig2]: 0%, 3 min to finish"
    for _ in range(2):
        started = state.waiting.popleft()
        state.running[started.name] = started
        progress(started, 49.0, 98.0)
    # (49 + 49 + 20) units in (98 + 98 + 20) s: 1.83 s a unit, and 302 of 400 are left for two.
    assert report.line(state) == "[fig2]: 24%, 5 min to finish"
    ended = state.running.pop("a")
    state.done.append(ended)
    state.worked["a"] = Worked(100.0, 200.0)
    assert report.line(state).startswith("[fig2]: 37%, ")
    state.done += [state.running.pop("b"), *state.waiting]
    state.waiting.clear()
    assert report.line(state) == "[fig2]: 100%"


def test_items_of_another_speed_are_counted_by_their_own(tmp_path: Path) -> None:
    """A slow kind that nothing is known of yet makes the time a lower bound."""
    slow, fast = item(tmp_path, "slow", 10.0, "slow"), item(tmp_path, "fast", 1_000.0, "fast")
    state = RunState(running={"slow": slow, "fast": fast})
    report = Report("mixed", 2)
    assert report.line(state) == "mixed: 0%", "nothing is known yet"
    progress(fast, 500.0, 5.0)
    assert report.line(state) == "mixed: 50%, more than 5 s to finish"
    progress(slow, 1.0, 10.0)
    # 9 units at 10 s each are the longest.
    assert report.line(state) == "mixed: 50%, 90 s to finish"


def test_a_log_gets_a_line_now_and_then(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("needlab.runs.display.time.monotonic", lambda: now)
    state = RunState.of([item(tmp_path, "a", 60.0)])
    with Display().showing("fig2", 1, expected=1.0) as watch:
        for now in (101.0, 129.0, 131.0, 140.0, 161.0):  # noqa: B007
            watch(state)
    # At once, because it takes long, and after 31 and 61 s.
    assert capfd.readouterr() == ("", "fig2: 0%, 60 s to finish\n" * 3)
    with Display(visible=False).showing("fig2", 1) as watch:
        now = 1_000.0
        watch(state)
    assert capfd.readouterr() == ("", "")


def test_a_terminal_sees_the_last_state(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Brackets in a label are no markup, and standard output stays for data."""
    state = RunState(done=[item(tmp_path, "a", 1.0)])
    with Display(visible=True).showing("[red]fig2", 1) as watch:
        watch(state)
    out, err = capfd.readouterr()
    assert out == ""
    assert "[red]fig2: 100%" in err


def test_nothing_is_printed_or_loaded_for_a_short_task() -> None:
    script = (
        "import sys; from needlab.runs.display import Display; "
        "from needlab.runs.runner import RunState\n"
        "with Display().showing('fig2', 1) as watch: watch(RunState())\n"
        "assert 'rich' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")

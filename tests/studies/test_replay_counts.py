"""Events of every agent: the rules, the tables, one's own maze."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.cli import main
from needlab.studies import replay_counts
from needlab.studies.replay_counts import COUNTS, Case, run_case
from needlab.studies.study import Options
from needreplay._core.errors import NeedReplayError

STATES, PAIRS, WITH_STAYS = (COUNTS.index(name) for name in ("states", "pairs", "pairs and stays"))


def test_evb_never_replays_a_stay_and_sweeping_mostly_goes_back_and_forth() -> None:
    """The percentages of docs/replay_events.md, of two trials."""
    found: dict[str, Any] = {}
    for agent, backups in (("evb", 20), ("ps-sr", 5), ("ps", 5)):
        trials = [run_case(Case("dyna-maze", agent, backups, 0), i) for i in range(2)]
        events = np.sum([np.asarray(trial["events"]) for trial in trials], axis=0)
        short = np.sum([np.asarray(trial["short"]) for trial in trials], axis=0)
        found[agent] = events, short
        assert events[WITH_STAYS].sum() * 50 == pytest.approx(short[:, 1].sum())
    events, short = found["evb"]
    np.testing.assert_array_equal(events[PAIRS], events[WITH_STAYS])
    assert short[:, 0].sum() <= 0.05 * short[:, 1].sum()
    assert events[..., 2].sum() == 0, "it replays before and after runs only"
    for agent in ("ps-sr", "ps"):
        events, short = found[agent]
        assert short[1, 0] > 0.6 * short[1, 1] > 5
        assert events[STATES].sum() < 0.5 * events[WITH_STAYS].sum()


def test_in_ones_own_maze(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("maze.txt").write_text("S.....G\n", encoding="utf-8")
    words = [
        "reproduce",
        "replay-counts",
        "--world",
        "maze.txt",
        "--trials",
        "2",
        "--workers",
        "1",
        "--out",
        "out",
    ]
    assert main(words) == 0
    folder = tmp_path / "out" / "replay-counts"
    first = (folder / "rates.csv").read_text(encoding="utf-8")
    assert first.splitlines()[1].startswith("maze.txt,evb,5,states,forward,")
    assert len(first.splitlines()) == 1 + 3 * 2 * 3 * 2
    Path("maze.txt").write_text("S....G\n", encoding="utf-8")
    assert main(words) == 0
    assert (folder / "rates.csv").read_text(encoding="utf-8") != first, "the file changed"


def test_an_unknown_world_is_a_sentence() -> None:
    options = Options(("default",), 1, 0, 1, "quick", world="nowhere")
    with pytest.raises(NeedReplayError, match="There is no world 'nowhere'"):
        replay_counts.run(options, None)  # type: ignore[arg-type]

"""``needreplay diagnose`` on a short run: two sentences, and a page."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from needlab.cli import main


@pytest.mark.parametrize("agent", ["per", "per-sr-sampling"])
def test_a_run_is_diagnosed(agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, page = tmp_path / "run", tmp_path / "page.html"
    train = f"train --world CartPole-v1 --agent {agent} --steps 200 --out {run}"
    assert main([*train.split(), "--set", "min_history=60"]) == 0
    capsys.readouterr()
    told = ["diagnose", str(run), "--updates", "12", "--queries", "3", "--page", str(page)]
    assert main(told) == 0
    said = capsys.readouterr().out
    assert said.startswith("Of the change that one update makes, ")
    assert "12 updates, 3 present states" in said
    assert said.splitlines()[0] in page.read_text(encoding="utf-8")
    assert main(told) == 0
    assert capsys.readouterr().out == said
    assert main(["diagnose", str(tmp_path / "nothing")]) == 2

"""The pages on the Blind Cliffwalk: their code runs, every difference and column is named."""

from __future__ import annotations

import re
from pathlib import Path

from needlab.core.tables import read_table
from needlab.studies.cliffwalk.settings import METHODS, differences

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/cliffwalk.md").read_text(encoding="utf-8")
APPENDIX = (ROOT / "docs/cliffwalk_settings.md").read_text(encoding="utf-8")


def test_the_code_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/cliffwalk.md", "exec"), {"__name__": "__main__"})


def test_every_difference_and_method_is_named() -> None:
    differing = {*differences("released", "corrected"), *differences("corrected", "printed")}
    for name in (*differing, *METHODS):
        assert f"`{name}`" in PAGE + APPENDIX, name


def test_the_committed_data_has_the_columns_that_are_promised() -> None:
    data = read_table(ROOT / "results/fig3/data.csv")
    assert data.names == ("preset", "method", "states", "trial", "updates", "converged")
    need_row = read_table(ROOT / "results/fig3/need_row.csv")
    assert need_row.names == ("preset", "method", "states", "state", "occupancy")
    for stem in ("summary", "successor", "deciding", "magnitude"):
        for name in read_table(ROOT / f"results/fig3/{stem}.csv").names:
            plain = name.removesuffix("_low").removesuffix("_high")
            assert plain in APPENDIX.lower() or plain in ("low", "high"), (stem, name)

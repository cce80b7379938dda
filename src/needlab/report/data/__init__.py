"""Numbers from public sources that ship with the package; ``README.md`` names the sources."""

from __future__ import annotations

from importlib.resources import as_file, files

from needlab.core.tables import Table, read_table


def shipped_table(name: str) -> Table:
    """The table ``name``.csv of this folder."""
    with as_file(files("needlab.report.data") / f"{name}.csv") as path:
        return read_table(path)

"""Figures: the same bytes each time, and nothing of the user's matplotlib touched."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from needlab.report.figures import (
    AGENT_COLORS,
    PALETTE,
    colors_of,
    draw_band,
    house_style,
    label_of,
    new_figure,
    save_figure,
)
from needlab.report.statistics import Band


def picture() -> Figure:
    figure, axes = new_figure(1, 2)
    with house_style():
        ramp = np.arange(3.0)
        draw_band(axes[0, 0], ramp, Band(ramp, ramp - 1, ramp + 1), color="red", label="a")
        image = axes[0, 1].imshow([[1, 2], [3, 4]])
        figure.colorbar(image)
        axes[0, 0].legend()
    return figure


def test_the_same_figure_is_the_same_bytes(tmp_path: Path) -> None:
    figure = picture()
    save_figure(figure, tmp_path, "a")
    save_figure(figure, tmp_path, "b")
    save_figure(picture(), tmp_path, "c")
    for kind in ("svg", "pdf", "png"):
        first = (tmp_path / f"a.{kind}").read_bytes()
        assert first == (tmp_path / f"b.{kind}").read_bytes()
        assert first == (tmp_path / f"c.{kind}").read_bytes()


def test_files_are_what_they_say(tmp_path: Path) -> None:
    save_figure(picture(), tmp_path)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    drawing = (tmp_path / "figure.svg").read_text()
    assert ElementTree.fromstring(drawing).tag.endswith("svg")
    (words,) = (text for text in re.findall(r"<text[^>]*>a</text>", drawing))
    assert "sans-serif" in words, "a reader without our font has one of the kind"
    document = (tmp_path / "figure.pdf").read_bytes()
    assert document.startswith(b"%PDF")
    # TrueType, which drawing programs edit; Type 3 is shapes.
    assert b"/CIDFontType2" in document
    assert b"/Type3" not in document
    assert all((tmp_path / f"figure.{kind}").stat().st_size < 100_000 for kind in ("svg", "pdf"))
    assert "<dc:date>" not in drawing


def test_the_users_style_neither_leaks_in_nor_is_changed(tmp_path: Path) -> None:
    save_figure(picture(), tmp_path, "plain")
    with mpl.rc_context({"lines.linewidth": 9, "font.size": 30, "axes.facecolor": "black"}):
        before = dict(mpl.rcParams)
        save_figure(picture(), tmp_path, "styled")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "plain.png").read_bytes() == (tmp_path / "styled.png").read_bytes()


def test_pyplot_stays_out() -> None:
    script = (
        "import sys; from needlab.report.figures import new_figure, save_figure\n"
        "import tempfile; save_figure(new_figure()[0], tempfile.mkdtemp())\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_open_band_is_not_drawn(tmp_path: Path) -> None:
    figure, axes = new_figure()
    infinite = np.full(3, np.inf)
    draw_band(axes[0, 0], range(3), Band(np.ones(3), -infinite, infinite), color="red", label="a")
    save_figure(figure, tmp_path)
    low, high = axes[0, 0].get_ylim()
    assert np.isfinite([low, high]).all()


def test_an_agent_has_one_color_everywhere() -> None:
    assert colors_of(["ps", "ps-sr"])["ps"] == colors_of(["ps", "x"])["ps"] == AGENT_COLORS["ps"]
    many = colors_of(["ps-sr", "a", "ps", "b", "c", "d", "e", "f"])
    assert len(set(many.values())) == len(PALETTE)
    assert len(colors_of([str(i) for i in range(20)])) == 20
    assert (label_of("ps-sr"), label_of("mine")) == ("PS-SR", "mine")


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (2, 3)])
def test_axes_are_always_a_grid(shape: tuple[int, int]) -> None:
    assert new_figure(*shape)[1].shape == shape

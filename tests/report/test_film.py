"""The film: pictures, bars of need beside them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from needreplay.core.errors import NeedReplayError
from needreplay.report.film import HEIGHT, MARGIN, PANEL, joined, write_film

BLUE, RED, WHITE = (0x44, 0x77, 0xAA), (0xCC, 0x33, 0x11), (255, 255, 255)
PICTURE = np.full((20, 20, 3), 7, dtype=np.uint8)
TOP, BOTTOM = 3 * MARGIN, HEIGHT - 2 * MARGIN


def column(image: Image.Image, place: float) -> list[tuple[int, ...]]:
    """The pixels of the panel's column at ``place`` from 0 (oldest) to 1 (now)."""
    x = HEIGHT + MARGIN + round(place * (PANEL - 2 * MARGIN))
    return [image.getpixel((x, y)) for y in range(TOP, BOTTOM)]  # type: ignore[misc]


def test_bars_are_as_high_as_need_with_the_present_on_the_right() -> None:
    whole = joined(PICTURE, np.array([0.0, 1.0, 2.0]), scale=2.0, width=3)
    assert whole.size == (HEIGHT + PANEL, HEIGHT)
    oldest, middle, now = (column(whole, place).count(BLUE) for place in (1 / 6, 3 / 6, 5 / 6))
    assert oldest == 0
    assert now == pytest.approx(BOTTOM - TOP, abs=2)
    assert middle == pytest.approx((BOTTOM - TOP) / 2, abs=2)


def test_negative_need_is_red_and_hangs_down() -> None:
    whole = joined(PICTURE, np.array([-1.0, 1.0]), scale=1.0, width=2)
    below, above = column(whole, 0.25), column(whole, 0.75)
    assert below.count(RED) == pytest.approx((BOTTOM - TOP) / 2, abs=2)
    assert below.index(RED) > above.index(BLUE)
    assert RED not in above


def test_a_young_episode_fills_the_panel_from_the_right() -> None:
    whole = joined(PICTURE, np.array([1.0]), scale=1.0, width=10)
    assert BLUE in column(whole, 0.95)
    assert BLUE not in column(whole, 0.85)


def test_without_need_there_is_only_the_picture() -> None:
    assert joined(PICTURE, np.zeros(0), scale=0.0, width=0).size == (HEIGHT, HEIGHT)


def test_a_film_has_every_picture(tmp_path: Path) -> None:
    pictures = [np.full((5, 10, 3), 60 * k, dtype=np.uint8) for k in range(4)]
    needs = [np.linspace(0.0, 1.0, k + 1) for k in range(4)]
    write_film(tmp_path / "film.gif", pictures, needs, per_second=10.0)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 4  # type: ignore[attr-defined]
        assert film.size == (2 * HEIGHT + PANEL, HEIGHT)
        assert film.info["duration"] == 100


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NeedReplayError, match=r"name it \*.gif"):
        write_film(tmp_path / "film.mp4", [PICTURE], [np.zeros(0)], 10.0)
    with pytest.raises(NeedReplayError, match="cannot be written: No such file"):
        write_film(tmp_path / "no" / "film.gif", [PICTURE], [np.zeros(0)], 10.0)

"""An episode as an animated GIF, with the need of recent steps beside each picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray

if TYPE_CHECKING:
    from PIL.Image import Image

HEIGHT = 240
PANEL = 260
MARGIN = 14
_INK, _PAPER, _BAR, _NEGATIVE, _LINE = "#222222", "#ffffff", "#4477aa", "#cc3311", "#999999"


def write_film(
    path: Path, pictures: Sequence[AnyArray], needs: Sequence[AnyArray], per_second: float
) -> None:
    """Write ``pictures`` as a GIF, each with the bars of its ``needs`` if there are any.

    Bars run from the oldest step on the left to the present on the right; their scale is that of
    the film, so that pictures can be compared.
    """
    if path.suffix.lower() != ".gif":
        raise NeedReplayError(f"A film is written as a GIF, so name it *.gif, not {path.name!r}.")
    scale = max((float(np.abs(need).max()) for need in needs if len(need)), default=0.0)
    width = max((len(need) for need in needs), default=0)
    frames = [
        joined(picture, need, scale, width) for picture, need in zip(pictures, needs, strict=True)
    ]
    try:
        frames[0].save(
            path,
            save_all=True,
            append_images=frames[1:],
            # Most viewers slow down anything faster than 50 pictures a second.
            duration=max(20, round(1000 / per_second)),
            loop=0,
        )
    except OSError as error:
        said = error.strerror or error
        raise NeedReplayError(f"{str(path)!r} cannot be written: {said}.") from error


def joined(picture: AnyArray, need: AnyArray, scale: float, width: int) -> Image:
    """One picture of the film; ``scale`` is the largest need in it, ``width`` how many bars."""
    from PIL import Image

    shown = Image.fromarray(np.ascontiguousarray(picture))
    left = shown.resize((max(1, round(shown.width * HEIGHT / shown.height)), HEIGHT))
    if not width:
        return left
    frame = Image.new("RGB", (left.width + PANEL, HEIGHT), _PAPER)
    frame.paste(left, (0, 0))
    _draw_bars(frame, left.width + MARGIN, need, scale, width)
    return frame


def _draw_bars(frame: Image, left: int, need: AnyArray, scale: float, width: int) -> None:
    from PIL import ImageDraw

    pen = ImageDraw.Draw(frame)
    top, bottom = 3 * MARGIN, HEIGHT - 2 * MARGIN
    space = PANEL - 2 * MARGIN
    lowest = min(0.0, float(need.min(initial=0.0)))
    unit = (bottom - top) / (scale - lowest) if scale > 0.0 else 0.0
    zero = round(bottom + lowest * unit)
    pen.text((left, MARGIN // 2), "need of the last steps,", fill=_INK)
    pen.text((left, MARGIN // 2 + 12), f"from now (top: {scale:.3g})", fill=_INK)
    pen.line((left, zero, left + space, zero), fill=_LINE)
    each = space / width
    for place, value in enumerate(need[::-1]):
        right = left + space - place * each
        end = zero - round(float(value) * unit)
        box = (round(right - each), min(zero, end), round(right) - 2, max(zero, end))
        pen.rectangle(box, fill=_NEGATIVE if value < 0.0 else _BAR)
    pen.text((left, HEIGHT - MARGIN - 2), f"{width - 1} steps ago", fill=_INK)
    pen.text((left + space - 20, HEIGHT - MARGIN - 2), "now", fill=_INK)

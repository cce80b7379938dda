"""One offline page that plays an episode of a trained agent beside its replay buffer.

At every step it shows the stored transitions that need ranks first, last and at random, how need is
spread over the buffer, and what the run's own sampler draws.
"""

from __future__ import annotations

import base64
import io
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from needlab.core.types import JsonObject
from needlab.report.page import write_page
from needlab.report.viewer import packed, script_data
from needlab.worlds.minatar import colored
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from needlab.runs.evaluation import Player
    from needreplay.need import Need

SHOWN = 6
"""Transitions in the rows of one step."""
MOST = 12
"""Transitions in the row of the whole episode."""
BATCHES = 16
"""Drawn at every step."""
LOOKED = 20_000
"""Stored transitions whose need is computed; of a larger buffer as many at random."""
CHUNK = 1024
EDGES = 2.0 ** np.arange(-6, 7)
"""Of the histogram of need / its mean; both ends are open."""
LARGEST_SHEET = 3_000_000
"""Bytes of all frames; larger ones are halved until they fit."""
LARGEST_FRAME = 128
BAR = 40
"""Height of the bars that stand for a row of numbers."""


def write_deep_page(
    path: Path,
    player: Player,
    *,
    seed: int = 0,
    most_steps: int = 500,
    notes: Sequence[str] = (),
    command: str = "",
) -> Path:
    """Play the first episode of ``seed`` and write the page ``path``. It loads nothing.

    Args:
        path: of the page.
        player: an agent with its buffer: ``load_player(folder, with_buffer=True)``.
        seed: of the episode.
        most_steps: of the episode that are shown.
        notes: paragraphs below the title.
        command: that made the page.
    """
    agent, buffer = player.agent, player.agent.buffer
    if not len(buffer):
        raise NeedReplayError("The run's buffer is empty, so nothing is replayed; train longer.")
    store = player.empty_store(most_steps)
    player.play(1, seed, store=store, most_steps=most_steps)
    played = store.read(np.arange(len(store)))
    drawn = [_draws(player, obs) for obs in played["obs"]]
    often = [_first(counts, SHOWN) for counts in drawn]
    total = sum(drawn, Counter())
    most = _first(total, MOST)
    pool = np.arange(buffer.oldest_id, buffer.next_id)
    if len(pool) > LOOKED:
        pool = np.sort(stream(seed, "deep page").choice(pool, LOOKED, replace=False))
    rows: dict[str, list[list[int]]] = {"drawn": often}
    quantities: JsonObject = {}
    need_of: dict[int, FloatArray] = {}
    if agent.need is not None:
        others = {*most, *(i for row in often for i in row)} - {*pool.tolist()}
        ids = np.concatenate([pool, np.array(sorted(others), np.int64)])
        need, distinct = _needs(player, agent.need, played["obs"], ids)
        size = np.abs(need[:, : len(pool)]).mean(axis=1, keepdims=True)
        share = need / np.maximum(size, 1e-30)
        distinct = distinct[distinct < len(pool)]
        order = np.argsort(-share[:, distinct], axis=1, kind="stable")
        chance = stream(seed, "deep page", "random").integers(len(pool), size=(len(order), SHOWN))
        rows["needed"] = pool[distinct[order[:, :SHOWN]]].tolist()
        rows["least"] = pool[distinct[order[:, ::-1][:, :SHOWN]]].tolist()
        rows["random"] = pool[chance].tolist()
        need_of = dict(zip(ids.tolist(), share.T, strict=True))
        quantities = _spread(share[:, : len(pool)])
    shown = sorted({*most, *(i for row in rows.values() for each in row for i in each)})
    stored = buffer.read(np.array(shown))
    sheet, numbers = _sheet(
        _pictures(np.concatenate([played["obs"], stored["obs"]]), agent.settings.frame_stack)
    )
    place = {ident: len(store) + i for i, ident in enumerate(shown)}

    def described(listed: list[list[int]], counts: Sequence[Counter[int]], moment: bool) -> Any:
        """The columns of tiles, one after the other."""
        flat = [(i, step) for step, row in enumerate(listed) for i in row]
        needs = [
            need_of[i][step] if moment else need_of[i].mean() for i, step in flat if i in need_of
        ]
        return {
            "begin": packed(np.cumsum([0, *map(len, listed)])),
            "id": packed(np.array([i for i, _ in flat])),
            "frame": packed(numbers[[place[i] for i, _ in flat]]),
            "reward": packed(stored["reward"][[place[i] - len(store) for i, _ in flat]]),
            "drawn": packed(np.array([counts[step][i] for i, step in flat])),
            "need": packed(np.array(needs, np.float64)),
        }

    data = {
        "sheet": sheet,
        "steps": {
            "frame": packed(numbers[: len(store)]),
            "action": packed(played["action"]),
            "reward": packed(played["reward"]),
        },
        "rows": {name: described(listed, drawn, True) for name, listed in rows.items()},
        "most": described([most], [total], False),
        "draws": BATCHES * agent.settings.batch_size,
        "n_step": agent.settings.n_step,
        "edges": packed(EDGES),
        **quantities,
    }
    return write_page(
        path,
        "deep.html",
        agent=player.config.agent,
        world=player.config.world,
        steps=player.steps,
        stored=len(buffer),
        looked=len(pool),
        uses_need=agent.settings.uses_need,
        scales=agent.settings.uses_need and not agent.settings.samples_by_need,
        shuffles=agent.settings.shuffle,
        draws=data["draws"],
        notes=notes,
        command=command,
        data=script_data(data),
    )


def _draws(player: Player, obs: AnyArray) -> Counter[int]:
    """How often the run's sampler draws each transition now."""
    from needreplay.need import NeedBuffer

    agent, counts = player.agent, Counter[int]()
    size, query = agent.settings.batch_size, None
    if isinstance(agent.replay, NeedBuffer):
        query = agent.replay.look(size, obs)
    for _ in range(BATCHES):
        counts.update(agent.buffer.sample(size, need=query).ids.tolist())
    return counts


def _first(counts: Counter[int], number: int) -> list[int]:
    """The ids that were drawn most; the newest among equals."""
    return sorted(counts, key=lambda ident: (-counts[ident], -ident))[:number]


def _needs(
    player: Player, need: Need, currents: AnyArray, ids: IntArray
) -> tuple[FloatArray, IntArray]:
    """[step, transition], and the places of transitions with distinct observations."""
    parts, places = [], dict[int, int]()
    for begin in range(0, len(ids), CHUNK):
        columns = player.agent.buffer.read(ids[begin : begin + CHUNK])
        parts.append(need.needs_of(currents, columns))
        for place, obs in enumerate(columns["obs"], begin):
            places.setdefault(hash(obs.tobytes()), place)
    needs = np.concatenate(parts, axis=1).astype(np.float64)
    return needs, np.array(list(places.values()))


def _spread(share: FloatArray) -> JsonObject:
    """The histogram of need / its mean at every step, and how many transitions need selects."""
    places = np.searchsorted(EDGES, share, side="right")
    bins = np.stack([np.bincount(row, minlength=len(EDGES) + 1) for row in places])
    positive = np.maximum(share, 0.0)
    squares = np.maximum((positive**2).sum(axis=1), 1e-300)
    return {"bins": packed(bins), "effective": packed(positive.sum(axis=1) ** 2 / squares)}


def _pictures(obs: AnyArray, frame_stack: int) -> AnyArray:
    """[observation, row, column, RGB] of rows of numbers, planes, or images."""
    if obs.ndim == 2:
        return _bars(obs)
    channels = obs.shape[1]
    if not frame_stack and channels not in (1, 3):
        return colored(obs)
    if obs.dtype != np.uint8:
        low, high = float(obs.min()), float(obs.max())
        obs = ((obs - low) * (255.0 / ((high - low) or 1.0))).astype(np.uint8)
    if frame_stack or channels == 1:
        obs = np.repeat(obs[:, -1:], 3, axis=1)
    pictures = obs.transpose(0, 2, 3, 1)
    while max(pictures.shape[1:3]) > LARGEST_FRAME:
        pictures = _halved(pictures)
    return pictures


def _bars(rows: AnyArray) -> AnyArray:
    """A bar for every number, from the smallest to the largest that it is in any row."""
    rows = rows.astype(np.float64)
    low, high = rows.min(axis=0), rows.max(axis=0)
    heights = 1 + (BAR - 1) * (rows - low) / np.where(high > low, high - low, 1.0)
    lit = np.arange(BAR)[::-1, np.newaxis] < heights[:, np.newaxis, :]
    wide = max(1, 60 // rows.shape[1])
    gray = np.full((len(rows), BAR, rows.shape[1], wide + 1), 255, np.uint8)
    gray[..., :wide] = np.where(lit, 60, 225)[..., np.newaxis]
    return np.repeat(gray.reshape(len(rows), BAR, -1, 1), 3, axis=3)


def _halved(pictures: AnyArray) -> AnyArray:
    count, height, width, colors = pictures.shape
    even = pictures[:, : height // 2 * 2, : width // 2 * 2]
    blocks = even.reshape(count, height // 2, 2, width // 2, 2, colors)
    smaller: AnyArray = blocks.mean(axis=(2, 4)).astype(np.uint8)
    return smaller


def _sheet(pictures: AnyArray) -> tuple[JsonObject, IntArray]:
    """All frames as one PNG, equal ones once, and where each picture is in it."""
    from PIL import Image

    found: dict[bytes, int] = {}
    numbers = np.array([found.setdefault(each.tobytes(), len(found)) for each in pictures])
    frames = pictures[np.unique(numbers, return_index=True)[1]]
    while True:
        count, height, width, _ = frames.shape
        columns = math.ceil(math.sqrt(count))
        lines = math.ceil(count / columns)
        whole = np.zeros((lines * columns, height, width, 3), np.uint8)
        whole[:count] = frames
        grid = whole.reshape(lines, columns, height, width, 3).swapaxes(1, 2)
        file = io.BytesIO()
        flat = np.ascontiguousarray(grid.reshape(lines * height, columns * width, 3))
        Image.fromarray(flat).save(file, format="PNG", optimize=True)
        if len(file.getvalue()) <= LARGEST_SHEET or min(height, width) < 2 * SHOWN:
            break
        frames = _halved(frames)
    address = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    return {"address": address, "width": width, "height": height, "columns": columns}, numbers

"""What is noticed: mistakes that would make replay wrong in silence, each one warning a buffer.

Kernels look at the steps that are added, and tell a ``Watch`` what is wrong. After 500, 1,000,
2,000, ... batches it looks at all that is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from needreplay._core.errors import warn
from needreplay._core.types import FloatArray, IntArray
from needreplay.replay._kernels.continuity import Continuity
from needreplay.replay.episodes import EpisodeWriter
from needreplay.replay.validation import FIRST_PRIORITY

if TYPE_CHECKING:
    from needreplay.replay.samplers.base import Sampler
    from needreplay.replay.storage import Ring, Writer

FORGOTTEN = 1_000
"""So many batches without a call that they take are a mistake."""
LONG = 30_000
"""More steps than any time limit of Gymnasium's own environments and of Atari's (27,000)."""
PASS_FLAGS = "Pass terminated and truncated as the environment returns them"


class Watch:
    """What a buffer notices.

    Args:
        ring: of what is sampled.
        writer: of the rows.
        sampler: the buffer's.
        max_seen: the largest priority so far.
    """

    def __init__(self, ring: Ring, writer: Writer, sampler: Sampler, max_seen: FloatArray) -> None:
        self._ring, self._writer, self._sampler, self._max_seen = ring, writer, sampler, max_seen
        self._batches = FORGOTTEN // 2
        self.until_look: IntArray = np.array([self._batches], dtype=np.int64)
        """After how many batches ``look`` is called, counted down by kernels."""
        self._mark = 0
        """The id that was the next one at the last look."""
        self._said = set[str]()
        self.is_updated = False
        """Whether priorities were ever updated."""
        self.time_limit: int | None = None
        """The steps after which the environment ends an episode, if that is known."""
        self.advice = (
            "Call update_priorities(batch.ids, absolute TD errors) after each batch. To sample "
            "without priorities, use UniformSampler(), or alpha=0 with need."
        )
        """What to do where priorities are never updated."""
        self.continuity, looked_at = None, {"obs", "next_obs", "reward"}
        if isinstance(writer, EpisodeWriter):
            self.continuity = Continuity(writer.windows, writer.obs_pairs, writer.frame_stack > 0)
            looked_at.remove("reward")  # which add rejects
        names = [column.name for column in writer.layout.columns]
        self.observed = [name for name in names if name.split("/")[0] in looked_at]
        """Columns in which NaN and infinity are noticed."""

    def forget(self, env: int | None = None) -> None:
        """The next step of ``env``, or of all, need not follow the one before."""
        if self.continuity is not None:
            self.continuity.forget(env)

    def _warn(self, what: str, message: str) -> None:
        if what not in self._said:
            self._said.add(what)
            warn(message)

    # Called by kernels ---------------------------------------------------------------------------

    def not_finite(self, name: str, row: int) -> None:
        """The column ``name`` of a step that is added has NaN or infinity."""
        where = "row" if self.continuity is None else "environment"
        self._warn(
            "finite",
            f"{name} of {where} {row} has NaN or infinity, and a network that learns from it "
            "returns NaN from then on. Replace such values before add, in a wrapper of the "
            "environment for example.",
        )

    def wrong_resets(self, env: int) -> None:
        """Every end of an episode was another than ``autoreset`` says."""
        if self._writer.windows.skips_resets:
            message = (
                "obs was not the next_obs before, so the environment is reset at once, "
                "and autoreset='next_step' leaves out the first step of every episode. Make the "
                "buffer with autoreset='same_step'."
            )
        else:
            message = (
                "obs was still the next_obs before. If the step after the end only "
                "resets (gymnasium.make_vec by default), make the buffer with autoreset="
                "'next_step'. If next_obs is the first of the new episode, pass the true last one "
                "instead (info['final_obs'])."
            )
        self._warn("resets", f"Whenever an episode ended (environment {env}), the next {message}")

    def jumps(self, env: int) -> None:
        """Observations do not follow each other, though no episode ended."""
        self._warn(
            "jumps",
            f"Often obs was not the next_obs before (environment {env}), though no episode had "
            f"ended. {PASS_FLAGS}, and call cut where you reset it in between.",
        )

    def look(self) -> None:
        """Look at what is stored."""
        self.until_look[0] = self._batches
        if self._batches >= FORGOTTEN:
            self._look_at_priorities()
        self._look_for_need()
        self._look_at_time_limit()
        self._mark = self._ring.next_id
        self._batches *= 2

    # What is stored ------------------------------------------------------------------------------

    def _look_at_priorities(self) -> None:
        sampler: Any = self._sampler
        priorities = getattr(sampler, "priorities", None)
        if (
            priorities is not None
            and not self.is_updated
            and getattr(sampler, "alpha", 0.0) > 0.0
            and self._max_seen[0] == FIRST_PRIORITY
            and (priorities[sampler.occupied] == FIRST_PRIORITY).all()
        ):
            self._warn(
                "priorities",
                f"{self._batches:,} batches were sampled, and every priority is still 1, as if "
                "update_priorities was never called, so replay is not prioritized. " + self.advice,
            )

    def _look_for_need(self) -> None:
        """Transitions that were stored before the last look, and have no need yet."""
        described = getattr(self._sampler, "described", None)
        if described is None or not described.any():  # with none at all the sampler says so
            return
        slots = np.arange(self._ring.oldest_id, self._mark) % self._ring.capacity
        if missing := int(len(slots) - described[slots].sum()):
            mixed = getattr(self._sampler, "uniform_mix", 0.0) > 0.0
            self._warn(
                "need",
                f"{missing:,} of {len(self._ring):,} transitions have no state or features, so "
                f"their need is 0 and they are sampled {'only uniformly' if mixed else 'never'}. "
                "Pass features= (or state=) to add with every step, or call set_features (or "
                "set_states) for the ids that it returns; NeedBuffer does this by itself.",
            )

    def _look_at_time_limit(self) -> None:
        if not isinstance(self._writer, EpisodeWriter):
            return
        steps = self._writer.steps_of_episodes()
        if self.time_limit is None:
            # In other modes observations tell that flags are not passed.
            if self._writer.windows.skips_resets and steps.min() > LONG:
                self._warn(
                    "limit",
                    f"Every environment is in an episode of more than {LONG:,} steps, as if flags "
                    f"were never passed. {PASS_FLAGS}; if episodes are that long, pass time_limit.",
                )
            return
        if steps.max() > self.time_limit:
            self._warn(
                "limit",
                f"The episode of environment {int(steps.argmax())} has {steps.max():,} steps so "
                f"far, and its time limit is {self.time_limit:,}. {PASS_FLAGS}.",
            )

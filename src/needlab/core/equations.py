"""The equations of ``needreplay.equations`` that the laboratory's kernels call, compiled."""

from __future__ import annotations

from needlab.core.jit import compiled_in_place, jit
from needreplay import equations

absolute_gain = jit(equations.absolute_gain)
backward_need = compiled_in_place(equations.backward_need)
combine = jit(equations.combine)
forward_need = compiled_in_place(equations.forward_need)
importance_weight = jit(equations.importance_weight)
moved_towards = jit(equations.moved_towards)
power = jit(equations.power)
pser_decayed = jit(equations.pser_decayed)
pser_priority = jit(equations.pser_priority)
successor_row = jit(equations.successor_row)
td_error = jit(equations.td_error)
uniform_index = jit(equations.uniform_index)

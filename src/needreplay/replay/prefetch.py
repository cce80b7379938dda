"""Prefetch: start loading what a kernel reads soon, so that many reads of a batch overlap.

A kernel that reads a million slots at random waits for main memory at each of them. A processor
looks ahead a few dozen instructions only: one or two members of a batch.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

LINE = 64
"""Bytes of a cache line."""

_BYTE = ir.IntType(8).as_pointer()
_INT = ir.IntType(32)
_FOR_READING, _KEEP_IN_ALL_CACHES, _DATA = _INT(0), _INT(3), _INT(1)


def _prefetch(_context: Any, array: Any, _offset: Any) -> Any:
    """For numba: LLVM's own instruction."""

    def generated(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        where = builder.gep(builder.bitcast(first, _BYTE), [arguments[1]])
        kind = ir.FunctionType(ir.VoidType(), [_BYTE, _INT, _INT, _INT])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", (_BYTE,), kind)
        builder.call(instruction, [where, _FOR_READING, _KEEP_IN_ALL_CACHES, _DATA])
        return context.get_dummy_value()

    return numba.types.void(array, numba.types.intp), generated


def _nothing(_array: Any, _offset: int) -> None:
    """Without the compiler there is nothing to prefetch."""


_settings: Any = numba.config
prefetch: Any = _nothing if _settings.DISABLE_JIT else intrinsic(_prefetch)
"""prefetch(array, offset): in a kernel, start loading the cache line ``offset`` bytes after the
array's start. It changes no value, and an offset outside the array is harmless."""

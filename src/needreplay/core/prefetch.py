"""Asking the memory for what will be read soon, so that many of a batch's reads wait at once.

A kernel that goes to a million slots at random waits for the memory at each of them; a processor
looks ahead only a few dozen instructions, and that is one or two members of a batch.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

LINE = 64
"""Bytes that come from the memory at once."""

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
    """Uncompiled, there is nothing to gain."""


_settings: Any = numba.config
prefetch: Any = _nothing if _settings.DISABLE_JIT else intrinsic(_prefetch)
"""prefetch(array, offset): in a kernel, the line ``offset`` bytes after the array's beginning will
be read soon. It changes nothing, and nothing happens if that is outside of the array."""

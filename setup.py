"""The one part of needreplay that is built: a small extension in C, left out where that fails."""

import sys

import numpy
from setuptools import Extension, setup

FOLDER = "src/needreplay/memory/native"
# Products and sums are not fused, so that results are those of the kernels in Python, bit for bit.
FLAGS = [] if sys.platform == "win32" else ["-O2", "-ffp-contract=off"]

setup(
    ext_modules=[
        Extension(
            "needreplay.memory.native._native",
            sources=[f"{FOLDER}/{name}.c" for name in ("module", "gains", "columns")],
            depends=[f"{FOLDER}/{name}.h" for name in ("native", "sumtree")],
            include_dirs=[numpy.get_include()],
            extra_compile_args=FLAGS,
            optional=True,
        )
    ]
)

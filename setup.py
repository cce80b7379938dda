"""The one part of needreplay that is built: a small extension in C, left out where that fails."""

import hashlib
import sys
from pathlib import Path

import numpy
from setuptools import Extension, setup

FOLDER = Path("src/needreplay/replay/native")
FILES = sorted(FOLDER.glob("*.[ch]"))
SOURCE = hashlib.sha256(b"".join(file.read_bytes() for file in FILES)).hexdigest()
# Products and sums are not fused, so that results are those of the kernels in Python, bit for bit.
FLAGS = [] if sys.platform == "win32" else ["-O2", "-ffp-contract=off", "-fno-fast-math"]

setup(
    ext_modules=[
        Extension(
            "needreplay.replay.native._native",
            sources=[str(file) for file in FILES if file.suffix == ".c"],
            depends=[str(file) for file in FILES if file.suffix == ".h"],
            include_dirs=[numpy.get_include()],
            define_macros=[("NEEDREPLAY_SOURCE", f'"{SOURCE}"')],
            extra_compile_args=FLAGS,
            optional=True,
        )
    ]
)

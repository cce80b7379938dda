"""Builds the C extension of the replay buffer; where that fails, needreplay works without it."""

import hashlib
import sys
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

FOLDER = Path("src/needreplay/replay/native")
FILES = sorted(FOLDER.glob("*.[ch]"))
SOURCE = hashlib.sha256(b"".join(file.read_bytes() for file in FILES)).hexdigest()
# No fused multiply-add: C rounds as the Python kernels do (``pow`` may differ in the last bit).
FLAGS = [] if sys.platform == "win32" else ["-O2", "-ffp-contract=off", "-fno-fast-math"]


class Wheel(bdist_wheel):
    """A wheel for this platform, or, where the extension cannot be built, for every platform."""

    def run(self) -> None:
        """Build the extension first, since the wheel's tag depends on it."""
        outputs = [Path(name) for name in self.get_finalized_command("build_ext").get_outputs()]
        for output in outputs:
            output.unlink(missing_ok=True)
        self.run_command("build_ext")
        if not all(output.exists() for output in outputs):
            self.warn(
                "the C extension of needreplay was not built, since there is no C compiler that "
                "works. This wheel is for every platform; all of it works, the buffer is slower."
            )
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()


setup(
    cmdclass={"bdist_wheel": Wheel},
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
    ],
)

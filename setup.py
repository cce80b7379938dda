"""Builds the compiled kernels of the replay buffer: one module for each file in ``_kernels``."""

import os
import sys
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError

FOLDER = Path("src/needreplay/replay/_kernels")
# No fused multiply-add: every processor rounds in the same way. No debug information: it would be
# three quarters of the size.
FLAGS = [] if sys.platform == "win32" else ["-O3", "-g0", "-ffp-contract=off", "-fno-fast-math"]
# make sanitize: "address,undefined".
if sanitizers := os.environ.get("NEEDREPLAY_SANITIZE"):
    FLAGS = ["-O1", "-g", f"-fsanitize={sanitizers}", "-fno-omit-frame-pointer"]


class Build(build_ext):
    """Says what to install where there is no compiler."""

    def run(self) -> None:
        """Build, or end with the one line that helps."""
        try:
            super().run()
        except (CCompilerError, ExecError, PlatformError) as error:
            raise SystemExit(
                f"{error}\nneedreplay is compiled when it is installed from source, and that "
                "failed. Install a C compiler (Debian and Ubuntu: apt install gcc; macOS: "
                "xcode-select --install; Windows: Visual Studio Build Tools), or a wheel: "
                "pip install --only-binary needreplay needreplay"
            ) from error


def kernel(source: Path) -> Extension:
    """The extension module of one file."""
    return Extension(
        ".".join(source.relative_to("src").with_suffix("").parts),
        sources=[str(source)],
        depends=[str(header) for header in sorted(FOLDER.glob("*.h"))],
        include_dirs=[numpy.get_include(), str(FOLDER)],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=FLAGS,
        extra_link_args=[f"-fsanitize={sanitizers}"] if sanitizers else [],
    )


setup(
    cmdclass={"build_ext": Build},
    ext_modules=cythonize(
        [kernel(source) for source in sorted(FOLDER.glob("*.pyx"))],
        build_dir="build/kernels",
        include_path=["src"],
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "cdivision": True,
            "initializedcheck": False,
        },
        quiet=True,
    ),
)

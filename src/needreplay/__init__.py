"""needreplay: experience replay prioritised by gain x need.

Importing this package is instant: numba, gymnasium, matplotlib and the rest load when a name that
needs them is first used.
"""

from needreplay._version import __version__

__all__ = ["__version__"]

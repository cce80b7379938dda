"""The version, read by the build and by ``needreplay --version``; CITATION.cff repeats it."""

__version__ = "0.3.0"

"""The version, read by the build and by ``needreplay --version``."""

__version__ = "0.1.0"

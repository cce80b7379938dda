"""The command ``needreplay``: one file per subcommand.

Everything heavy is imported by the subcommand that runs, so that help is instant.
"""

from needlab.cli.command import main

__all__ = ["main"]

"""The command line as ``python -m impinge`` and as the script ``impinge``: Ctrl-C is heard while it still loads."""

from __future__ import annotations

import sys


def main() -> None:
    """Load and run the command line; interrupted at any time, exit as shells report SIGINT."""
    try:
        from impinge.app import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

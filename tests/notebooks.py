"""Notebooks in a kernel of their own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

PATIENCE_S = 1800
"""Seconds to wait for a kernel, and for each cell, on a busy machine."""


def run_notebook(notebook: Any, folder: Path) -> None:
    """Run all cells in a folder; the kernel is reached by files, for a port that was free may be taken by others."""
    import nbclient
    from traitlets.config import Config

    with tempfile.TemporaryDirectory() as place:  # short, as names of sockets have to be
        nbclient.NotebookClient(
            notebook,
            timeout=PATIENCE_S,
            startup_timeout=PATIENCE_S,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
            config=Config({"KernelManager": {"transport": "ipc", "ip": str(Path(place) / "kernel")}}),
        ).execute()

"""Commands that are struck by a signal in mid-run, right after they have written some frames, however quick."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = """
import os, signal, sys
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell without job control lets it be ignored
    from impinge.runs import simulation_run
    from impinge.app.cli import main
    from impinge.runs import store
    left, number, plain = [int(sys.argv[1])], int(sys.argv[2]), store.write_whole
    def write_whole(path, data):
        plain(path, data)
        left[0] -= path.parent.name == "frames"
        if left[0] == 0:
            left[0] = -1
            if number == signal.SIGINT:
                os.killpg(0, number)  # all processes of a terminal get it
            else:
                os.kill(os.getpid(), number)
    store.write_whole = simulation_run.write_whole = write_whole
    del sys.argv[1:3]
    main()
"""


def strike(
    folder: Path, *args: Any, after: int, by: signal.Signals, cwd: Path, env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command that is struck after it has written ``after`` files of frames; its script goes into ``folder``."""
    script = folder / "impinge"
    script.write_text(SCRIPT)
    command = [sys.executable, script, str(after), str(int(by)), *map(str, args)]
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, start_new_session=True
    )

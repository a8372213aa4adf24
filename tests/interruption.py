"""Commands interrupted by a signal after a given number of frames, independent of speed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = """
import os, signal, sys
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell without job control ignores it
    from impinge.app.cli import main
    from impinge.runs import store
    left, number, plain = [int(sys.argv[1])], int(sys.argv[2]), store.write_whole
    def write_whole(path, write):
        plain(path, write)
        left[0] -= path.parent.name == "frames"
        if left[0] == 0:
            left[0] = -1
            if number == signal.SIGINT:
                os.killpg(0, number)  # as a terminal signals all its processes
            else:
                os.kill(os.getpid(), number)
    store.write_whole = write_whole
    del sys.argv[1:3]
    main()
"""


def strike(
    folder: Path, *args: Any, after: int, by: signal.Signals, cwd: Path, env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command and signal it after ``after`` frame files; its script is written to ``folder``."""
    script = folder / "impinge"
    script.write_text(SCRIPT)
    command = [sys.executable, script, str(after), str(int(by)), *map(str, args)]
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, start_new_session=True
    )

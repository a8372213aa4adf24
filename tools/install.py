"""Install packages with pip, with a progress bar: pip itself prints nothing while it unpacks.

    python tools/install.py -- --constraint constraints.txt numba scipy

Packages are counted as pip collects them, then as they appear in the environment. Without a terminal, each phase is one
line. Bytecode is written when a module is first imported, not for all modules here, which halves the time; unless
Python may not write it then. On failure, the output of pip is printed.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from queue import Empty, Queue
from time import monotonic

WIDTH = 30
PIP = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
if not sys.flags.dont_write_bytecode:
    PIP.append("--no-compile")


class Bar:
    """One line of a terminal: a bar, a text and the elapsed seconds."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self.began = monotonic()
        self.last = ""

    def show(self, share: float, text: str) -> None:
        """Draw the bar; without a terminal, print a line for each new first word."""
        if self.is_terminal:
            filled = round(WIDTH * share)
            elapsed = f"{monotonic() - self.began:3.0f} s"
            sys.stdout.write(f"\r\033[K[{'#' * filled}{'.' * (WIDTH - filled)}] {elapsed}  {text}")
        elif text.split(maxsplit=1)[0] != self.last:
            self.last = text.split(maxsplit=1)[0]
            sys.stdout.write(f"{text} ...\n")
        sys.stdout.flush()

    def close(self) -> None:
        """Clear the line."""
        if self.is_terminal:
            sys.stdout.write("\r\033[K")


def installed_count() -> int:
    """Number of packages in the environment."""
    return sum(1 for _ in Path(sysconfig.get_path("purelib")).glob("*.dist-info"))


def main(arguments: list[str]) -> int:
    """Run pip with these arguments; return its exit code."""
    bar, before = Bar(), installed_count()
    pip = subprocess.Popen([*PIP, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines: Queue[str] = Queue()

    def read() -> None:
        for line in pip.stdout or ():
            lines.put(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    output: list[str] = []
    collected, wanted, name = 0, 0, ""
    bar.show(0.0, "collecting packages")
    while reader.is_alive() or not lines.empty():
        try:
            line = lines.get(timeout=0.2)
        except Empty:
            line = ""
        output.append(line)
        words = line.split()
        if words[:1] == ["Collecting"]:
            collected, name = collected + 1, words[1]
        elif line.startswith("Installing collected packages:"):
            wanted = line.count(",") + 1
        if wanted:
            done = min(installed_count() - before, wanted)
            bar.show(0.5 + 0.5 * done / wanted, f"installing {wanted} packages{f': {done}' if bar.is_terminal else ''}")
        else:
            bar.show(0.5 * (1.0 - 0.95**collected), f"collecting {collected} packages: {name}".rstrip(": "))
    bar.close()
    code = pip.wait()
    if code:
        sys.stdout.write("".join(output))
    return code


if __name__ == "__main__":
    sys.exit(main([each for each in sys.argv[1:] if each != "--"]))

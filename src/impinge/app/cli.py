"""The command line: all commands joined, and the last line of defence.

Commands are functions in ``impinge.app.commands``; a new one gets a line in ``COMMANDS``.
Exit codes: 0 clear (or done), 1 colliding, 2 bad input. Errors are one sentence on stderr, never a traceback.
Names of files are printed as they are: no markup, no emoji codes, and no line breaks that a pipe would trip over.
"""

from __future__ import annotations

import _thread
import io
import os
import sys
import threading
import warnings
from typing import Annotated, Any, NoReturn

import typer

import impinge
from impinge.app.commands.console import (
    BAD_INPUT,
    CLEAR,
    COLLIDING,
    INTERRUPTED,
    NO_READER,
    err,
    out,
)
from impinge.app.commands.live import live
from impinge.app.commands.machine import demo, info, scenes, warmup
from impinge.app.commands.meshes import check, validate
from impinge.app.commands.runs import clash, sequence
from impinge.app.commands.simulate import simulate

__all__ = ["app", "main", "BAD_INPUT", "CLEAR", "COLLIDING", "INTERRUPTED", "NO_READER"]

AGAIN_S = 0.05
"""Until an interrupt that was dropped is raised again."""

app = typer.Typer(
    name="impinge",
    help="Collision detection between deformable bodies. Exit codes: 0 clear, 1 colliding, 2 bad input.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        out.print(f"impinge {impinge.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Tell the version and exit.")
    ] = False,
) -> None:
    pass


COMMANDS = (check, validate, sequence, clash, simulate, live, demo, scenes, warmup, info)
"""In the order of the help."""
for _command in COMMANDS:
    app.command()(_command)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    err.print(f"warning: {message}", soft_wrap=True)


def _keep_interrupts(unraisable: Any) -> None:
    """Raise an interrupt again that Python dropped, and printed, because it came in the middle of a call from C.

    Loading kernels is such a call. From here it cannot be raised, so that a thread does it a moment later.
    """
    if unraisable.exc_type is KeyboardInterrupt:
        again = threading.Timer(AGAIN_S, _thread.interrupt_main)
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(unraisable)


def main() -> None:
    """Run the command line; turn every failure into one sentence and an exit code."""
    warnings.showwarning = _show_warning
    sys.unraisablehook = _keep_interrupts
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot show is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except impinge.ImpingeError as error:
        _fail(str(error).replace("validate='drop'", "--drop"))
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(INTERRUPTED)
    except MemoryError:
        _fail("the memory of this machine does not suffice; use smaller meshes or fewer at a time")
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except Exception as error:  # the last line of defence: no traceback reaches a user
        if os.environ.get("IMPINGE_TRACEBACK"):
            raise
        _fail(f"unexpected {type(error).__name__}: {error}; set IMPINGE_TRACEBACK=1 to see where, and please report it")


def _fail(sentence: str) -> NoReturn:
    err.print(f"error: {sentence}", soft_wrap=True)
    sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main()

"""The command line: registration of the commands, and conversion of errors to messages and exit codes.

Commands are functions in ``impinge.app.commands``; ``COMMANDS`` lists them.
Exit codes: 0 clear (or done), 1 colliding, 2 bad input. An error is one sentence on stderr, never a traceback.
File names are printed literally: no markup, no emoji codes, no line breaks.
"""

from __future__ import annotations

import _thread
import functools
import io
import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

import impinge
from impinge.app.commands.console import BAD_INPUT, CLEAR, COLLIDING, INTERRUPTED, NO_READER, err, out
from impinge.app.commands.live import live
from impinge.app.commands.machine import demo, info, scenes, warmup
from impinge.app.commands.meshes import check, validate
from impinge.app.commands.runs import clash, sequence, simulate

__all__ = ["app", "main", "BAD_INPUT", "CLEAR", "COLLIDING", "INTERRUPTED", "NO_READER"]

RETRY_S = 0.05
"""Delay after which a dropped interrupt is raised again."""

app = typer.Typer(
    name="impinge",
    help="Collision detection between deformable bodies. Exit codes: 0 clear, 1 colliding, 2 bad input.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        out.print(f"impinge {impinge.__version__}")
        raise typer.Exit


_VERSION = typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")


@app.callback()
def _options(_: Annotated[bool, _VERSION] = False) -> None:
    pass


COMMANDS = (check, validate, sequence, clash, simulate, live, demo, scenes, warmup, info)
"""Commands in the order of the help."""


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """A command that says so and exits with ``INTERRUPTED`` after Ctrl-C; typer would exit without a word."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        try:
            command(**options)
        except KeyboardInterrupt as stop:
            err.print(str(stop) or "stopped")
            raise typer.Exit(INTERRUPTED) from stop

    return run


for _command in COMMANDS:
    app.command()(_interruptible(_command))


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    err.print(f"warning: {message}", soft_wrap=True)


def _keep_interrupts(unraisable: Any) -> None:
    """Raise an interrupt again that Python dropped because it arrived in a callback from C, such as kernel loading.

    This hook cannot raise; a timer thread interrupts the main thread shortly after.
    """
    if unraisable.exc_type is KeyboardInterrupt:
        retry = threading.Timer(RETRY_S, _thread.interrupt_main)
        retry.daemon = True
        retry.start()
    else:
        sys.__unraisablehook__(unraisable)


def main() -> None:
    """Run the command line; convert every failure to one sentence and an exit code."""
    warnings.showwarning = _show_warning
    sys.unraisablehook = _keep_interrupts
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escape names that the terminal cannot encode
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except impinge.ImpingeError as error:
        _fail(str(error).replace("validate='drop'", "--drop"))
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(INTERRUPTED)
    except MemoryError:
        _fail("out of memory; use smaller meshes or fewer at a time")
    except OSError as error:
        name = error.filename or "standard output"  # files that the package writes are named; streams have no name
        _fail(f"{name}: {error.strerror or error}")
    except Exception as error:  # no traceback reaches a user
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11 and older wrap it where a class is created
            err.print("stopped")
            sys.exit(INTERRUPTED)
        if os.environ.get("IMPINGE_TRACEBACK"):
            raise
        kind = type(error).__name__
        _fail(f"unexpected {kind}: {error}; set IMPINGE_TRACEBACK=1 for a traceback and please report it")


def _fail(sentence: str) -> NoReturn:
    err.print(f"error: {sentence}", soft_wrap=True)
    sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main()

"""The entry point. It imports next to nothing, because the broker's start-up and memory are
features: click alone costs 45 ms and 5 MB on top of a broker, and `start` needs none of it."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from ottla import __version__
from ottla.cli.early_exit import exit_at_once
from ottla.cli.endless_commands import is_endless
from ottla.cli.errors import ExitCode, Failure, ReaderGone, warn

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(argv: Sequence[str] | None = None) -> int:
    """Without `argv` it has the process to itself, with its signals, and ends it."""
    args = list(sys.argv[1:] if argv is None else argv)
    when_interrupted = ExitCode.OK if is_endless(args) else ExitCode.INTERRUPTED
    if argv is not None:
        return _exit_code_of(args, when_interrupted)
    exit_at_once(when_interrupted)
    open_closed_streams()
    claim_end = _nothing
    if args[:1] != ["start"]:
        from ottla.cli import interrupts

        interrupts.watch(when_interrupted)
        claim_end = interrupts.claim_end
    exit_code = _exit_code_of(args, when_interrupted, claim_end)
    claim_end()
    # Without the interpreter's own shutdown: it gives signals back to the system before it is
    # done, complains of a reader that has gone, and has nothing to do for us.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(exit_code)


def open_closed_streams() -> None:
    """Of a process that was started without them (`>&-`). Else the next file or socket would take
    their place, and get what is printed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest free number: those below it are open by now. Children have it as well.
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, "w" if number else "r", closefd=False))


def _nothing() -> None:
    pass


def _exit_code_of(
    args: list[str], when_interrupted: int, claim_end: Callable[[], None] = _nothing
) -> int:
    """`claim_end` is called before it says what went wrong."""
    try:
        exit_code = _run(args)
        sys.stdout.flush()
    except Failure as failure:
        claim_end()
        warn(str(failure))
        exit_code = failure.exit_code
    except KeyboardInterrupt:
        return when_interrupted
    except (BrokenPipeError, ReaderGone):
        return ExitCode.BROKEN_PIPE
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        where = "" if error.filename is None else f" {error.filename}"
        claim_end()
        warn(f"could not write{where}: {error.strerror}")
        return ExitCode.FAILED
    return when_interrupted if exit_code == ExitCode.INTERRUPTED else exit_code


def _run(args: list[str]) -> int:
    if args == ["--version"]:
        print(f"ottla {__version__}")
        return ExitCode.OK
    if args[:1] == ["start"]:
        from ottla.cli.start import parse, run

        settings = parse(args[1:])
        if settings is not None:
            return run(settings)
    from ottla.cli.group import run_group

    return run_group(args)


if __name__ == "__main__":
    sys.exit(main())

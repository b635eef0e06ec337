"""The entry point. It imports next to nothing, because the broker's start-up and memory are
features: click alone costs 45 ms and 5 MB on top of a broker, and `start` needs none of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ottla import __version__
from ottla.cli.errors import ExitCode, Failure, ReaderGone, warn


def main(argv: Sequence[str] | None = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        exit_code = _run(args)
        sys.stdout.flush()
        return exit_code
    except Failure as failure:
        warn(str(failure))
        return failure.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except (BrokenPipeError, ReaderGone):
        # The interpreter flushes standard output once more at exit, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.BROKEN_PIPE


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

"""Which commands go on until somebody ends them. For these Ctrl-C is the ordinary way to end, and
their exit code is 0 then; for all others it cuts work short, which is 130. Known before anything is
imported, so that it holds from the first moment on."""

from __future__ import annotations

from collections.abc import Sequence

_ENDLESS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("start",): (),
    ("demo",): (),
    ("zookeeper",): (),
    ("consume",): ("-n", "--max", "-e", "--until-end"),
    ("generate",): ("--count", "--seconds"),
    ("pipeline", "run"): ("--once",),
}
"""The commands, and the options that give them an end of their own."""
_WATCH = ("-w", "--watch")
_FLAGS_BEFORE = "-b"
"""What may stand before a letter in one word."""
_WATCH_ENDS = ("--samples",)


def is_endless(args: Sequence[str]) -> bool:
    for command, ends in _ENDLESS.items():
        if tuple(args[: len(command)]) == command:
            return not _has_any(args, ends)
    return _has_any(args, _WATCH) and not _has_any(args, _WATCH_ENDS)


def _has_any(args: Sequence[str], options: Sequence[str]) -> bool:
    return any(_is(arg, option) for arg in args for option in options)


def _is(arg: str, option: str) -> bool:
    """Whether it is the option, or has it in it: `--max=5`, `-n5`, `-be`."""
    if option.startswith("--") or arg.startswith("--"):
        return arg.partition("=")[0] == option
    return arg.startswith("-") and arg.lstrip(_FLAGS_BEFORE).startswith(option[1])

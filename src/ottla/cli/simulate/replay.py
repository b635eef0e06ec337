"""The command that runs a seed once more, with all its faults or with some of them."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.command_line import command_line

NO_FAULTS = "none"
"""Stands for an empty list of faults."""


def faults_of(text: str | None) -> tuple[str, ...] | None:
    """Names as --faults takes them. None: all faults of the seed.

    >>> faults_of("kill:1,pause:2"), faults_of("none"), faults_of(None)
    (('kill:1', 'pause:2'), (), None)
    """
    if text is None:
        return None
    return () if text == NO_FAULTS else tuple(name.strip() for name in text.split(","))


def replay_command(seed: int, faults: Sequence[str] | None) -> str:
    named = "" if faults is None else f" --faults {','.join(faults) or NO_FAULTS}"
    return command_line(f"simulate --seed {seed}{named} --trace")

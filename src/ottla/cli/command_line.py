"""What to type next: hints and remedies name commands as this user types them."""

from __future__ import annotations

import os


def command_line(arguments: str) -> str:
    """With `ottla` before the arguments; with ./ottla, or another path, where a clone's script of
    that path was run, since nothing is installed then.

    >>> command_line("topics list")
    'ottla topics list'
    """
    path = os.environ.get("OTTLA_COMMAND")
    if path is None:
        return f"ottla {arguments}"
    import shlex  # the broker does without it

    return f"{shlex.quote(path)} {arguments}"

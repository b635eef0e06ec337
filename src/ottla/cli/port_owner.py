"""Which process listens on a port, as far as the system tells."""

from __future__ import annotations

import glob
import os
import re

_LISTENING = "0A"
_COMMAND_LENGTH_MAX = 60


def port_owner(port: int) -> str | None:
    """Its command and its id. None where that cannot be seen: on another system than Linux, or
    when it is another user's process."""
    inodes = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not inodes:
        return None
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link) in inodes:
                pid = link.split("/")[2]
                return f"{_command_of(pid)} (process {pid})"
        except OSError:
            continue  # It has just ended, or it is another's.
    return None


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        for row in rows:
            if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port:
                found.add(row[9])
    return found


def _command_of(pid: str) -> str:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().decode(errors="replace").split("\0")
    command = " ".join([os.path.basename(words[0]), *words[1:]]).strip()
    command = re.sub(r"[^ -~]", "?", command)
    if len(command) > _COMMAND_LENGTH_MAX:
        command = command[: _COMMAND_LENGTH_MAX - 1] + "…"
    return command

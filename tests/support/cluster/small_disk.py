"""A disk of few bytes, which can be filled up: a tmpfs of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_BALLAST = "ballast"


def missing() -> str | None:
    """What a machine lacks for this; None when nothing."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return "a tmpfs needs root"
    return None


class SmallDisk:
    """Made by a fixture, which removes it when nobody uses it any more."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path = path
        path.mkdir(parents=True)
        options = f"size={size_bytes}"
        command = ["mount", "-t", "tmpfs", "-o", options, "ottla-test", str(path)]
        subprocess.run(command, check=True)

    def fill(self) -> None:
        """To the last byte."""
        with open(self.path / _BALLAST, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def free(self) -> None:
        (self.path / _BALLAST).unlink()

    def remove(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)

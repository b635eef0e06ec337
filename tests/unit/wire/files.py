"""A file for slices that are only carried, never read from a disk."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.kernel.disk import Buffer


class FakeFile:
    def __init__(self, content: bytes) -> None:
        self.path = "fake"
        self._content = content

    def fileno(self) -> int:
        raise OSError("not a real file")

    def size(self) -> int:
        return len(self._content)

    def read_at(self, offset: int, length: int) -> bytes:
        return self._content[offset : offset + length]

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
        raise OSError("read only")

    def truncate(self, size: int) -> None:
        raise OSError("read only")

    def sync(self) -> None: ...

    def is_cached(self, offset: int, length: int) -> bool:
        return True

    def close(self) -> None: ...

"""A disk that takes as long as a test wants it to."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.replication.leader import Leader


class HeldWrites:
    """What a slow log dir writes is not heard of before it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._written = Leader._written
        self._held: list[tuple[Any, ...]] = []
        monkeypatch.setattr(Leader, "_written", lambda *args: self._held.append(args))

    def release(self) -> None:
        for args in self._held:
            self._written(*args)
        self._held.clear()

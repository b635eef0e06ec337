"""Timers of a shard: named, so that setting one anew replaces it, and gone with the shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.coordinators.result import Planned


class Timers(Protocol):
    def schedule(self, name: str, delay_ms: int, operation: Callable[[], Planned[Any]]) -> None:
        """Runs the operation like a request, unless it is cancelled or scheduled anew before. An
        operation whose records could not be written is tried again."""
        ...

    def cancel(self, name: str) -> None:
        """No error when there is none."""
        ...

    def is_scheduled(self, name: str) -> bool: ...

"""Asserts in tests that logs and partitions are changed on the loop, and nowhere else.

They have no locks: whatever a worker may do to them it is given as a function of files. In
production nobody asks, since an append takes microseconds.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.testing.workers import is_in_worker

MUTATORS: dict[type, tuple[str, ...]] = {
    Log: (
        "append_as_leader",
        "prepare",
        "commit",
        "append_as_follower",
        "roll",
        "begin_leader_epoch",
        "advance_log_start_offset",
        "delete_segments",
        "truncate_to",
        "truncate_fully_and_start_at",
    ),
    Partition: ("lead", "follow", "end_role", "advance_high_watermark", "config_changed"),
}


def guard_mutators(replace: Callable[[type, str, Any], None]) -> None:
    """`replace` is what `setattr` is, or a test's `monkeypatch.setattr`."""
    for owner, names in MUTATORS.items():
        for name in names:
            replace(owner, name, _guarded(getattr(owner, name)))


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        assert not _is_off_loop(), f"{method.__qualname__} was called off the loop"
        return method(*args, **kwargs)

    return guarded


def _is_off_loop() -> bool:
    """A thread without a loop is a worker's, except for the first, in which tests without any loop
    run."""
    if is_in_worker():
        return True
    is_first = threading.current_thread() is threading.main_thread()
    return not is_first and asyncio._get_running_loop() is None

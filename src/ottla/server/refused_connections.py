"""Says in the log which connections were closed for what their clients sent, and not too often.

A client that is set up wrongly comes back as fast as it can, twenty times a second and more, and
says nothing new. The first time is said at once; then, once a minute, how often it came since.
"""

from __future__ import annotations

import logging

from ottla.kernel.clock import Clock, Timer

log = logging.getLogger(__name__)

INTERVAL_S = 60.0

TOLD_APART_MAX = 256
"""Hosts times kinds of trouble. Beyond, all others are one: a scan of the port by many hosts must
fill neither the log nor the memory."""

_OTHERS = "other hosts"

_Trouble = tuple[str, str]
"""Host and kind."""


class _Minute:
    __slots__ = ("count", "last", "timer")

    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self.count = 0
        self.last = ""
        """The last of those counted: who it was, and why."""


class RefusedConnections:
    """One for a broker, owned by its server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._minutes: dict[_Trouble, _Minute] = {}

    def note(self, peer: str, host: str, reason: str, kind: str | None = None) -> None:
        """`kind` tells apart what one host may do wrong at the same time; by default the reason,
        so that must be one of few then."""
        trouble = (host, reason if kind is None else kind)
        if trouble not in self._minutes and len(self._minutes) >= TOLD_APART_MAX:
            trouble = (_OTHERS, "")
        minute = self._minutes.get(trouble)
        if minute is None:
            log.warning("closing connection peer=%s: %s", peer, reason)
            self._begin_minute(trouble)
        else:
            minute.count += 1
            minute.last = f"peer={peer}: {reason}"

    def close(self) -> None:
        for minute in self._minutes.values():
            minute.timer.cancel()
        self._minutes.clear()

    def _begin_minute(self, trouble: _Trouble) -> None:
        timer = self._clock.call_later(INTERVAL_S, lambda: self._end_minute(trouble))
        self._minutes[trouble] = _Minute(timer)

    def _end_minute(self, trouble: _Trouble) -> None:
        minute = self._minutes.pop(trouble)
        if minute.count:
            log.warning(
                "closed %d more from %s within %d s, the last %s",
                minute.count,
                trouble[0],
                INTERVAL_S,
                minute.last,
            )
            self._begin_minute(trouble)

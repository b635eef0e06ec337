"""Datagrams by which a process that wrote to the shared file wakes its peers.

They carry nothing: who is woken reads the numbered changes. One that is lost costs up to a
second, until the backstop looks.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable
from contextlib import suppress

_logger = logging.getLogger(__name__)


def _address(prefix: str, session_id: int) -> str:
    return f"{prefix}{session_id}.wake"


class Wakeup:
    """Owned by one session. After a crash its socket file stays until a peer that expires
    the session removes it."""

    def __init__(self, prefix: str, session_id: int) -> None:
        self._prefix = prefix
        self._address = _address(prefix, session_id)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self.is_bound = False
        try:
            with suppress(FileNotFoundError):
                os.unlink(self._address)
            self._socket.bind(self._address)
            self.is_bound = True
        except OSError as error:
            # Most likely the path is over the 104 to 108 bytes that a Unix socket may have.
            _logger.info("changes of peers are looked for once a second only: %s", error)

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._socket.recv(1)

    def wake(self, session_ids: Iterable[int]) -> None:
        """May be called from another thread than `drain`."""
        for session_id in session_ids:
            # Gone, not bound, or so full of wake-ups that one more changes nothing.
            with suppress(OSError):
                self._socket.sendto(b"", _address(self._prefix, session_id))

    def close(self) -> None:
        self._socket.close()
        if self.is_bound:
            with suppress(FileNotFoundError):
                os.unlink(self._address)


def remove_leftover(prefix: str, session_id: int) -> None:
    """For a session whose process is gone."""
    with suppress(FileNotFoundError):
        os.unlink(_address(prefix, session_id))

"""What a handler may know of a request besides its body."""

from __future__ import annotations

from typing import NamedTuple


class RequestContext(NamedTuple):
    """Made for one request; a handler that answers later may keep it."""

    api_version: int
    client_id: str | None
    listener_name: str
    peer_host: str

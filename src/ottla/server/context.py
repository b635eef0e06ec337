"""What a handler may know of a request besides its body."""

from __future__ import annotations


class RequestContext:
    """Made for one request; a handler that answers later may keep it."""

    __slots__ = ("api_version", "client_id", "listener_name", "peer_host")

    def __init__(
        self, api_version: int, client_id: str | None, listener_name: str, peer_host: str
    ) -> None:
        self.api_version = api_version
        self.client_id = client_id
        self.listener_name = listener_name
        self.peer_host = peer_host

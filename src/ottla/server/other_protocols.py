"""Clients that speak another protocol than Kafka's, recognised by their first bytes."""

from __future__ import annotations

_TLS_HANDSHAKE = b"\x16\x03"  # Then the minor version: every TLS since 1.0 begins like this.
_HTTP_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ")


def remedy_for(head: bytes) -> str | None:
    """What it is and what to do about it; None where it is nothing that is known. Kafka's own
    requests begin with their size: with these bytes that would be over 300 MB."""
    if head.startswith(_TLS_HANDSHAKE):
        return (
            "the client speaks TLS to a PLAINTEXT listener; TLS is not supported yet: set "
            "security.protocol=PLAINTEXT in the client"
        )
    if head.startswith(_HTTP_METHODS):
        return (
            "the client speaks HTTP; this port is for Kafka clients: check the address it was given"
        )
    return None

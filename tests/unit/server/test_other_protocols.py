from __future__ import annotations

import socket
import ssl

import pytest

from ottla.server.other_protocols import remedy_for
from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.support.raw_client import frame_of


def client_hello() -> bytes:
    """As this Python's TLS sends it."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_tls() -> None:
    remedy = remedy_for(client_hello()[:4]) or ""
    assert "TLS is not supported yet" in remedy
    assert "security.protocol=PLAINTEXT" in remedy


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "CONNECT"])
def test_http(method: str) -> None:
    remedy = remedy_for(f"{method} / HTTP/1.1\r\n".encode()[:4]) or ""
    assert "speaks HTTP" in remedy


def test_what_is_not_known() -> None:
    assert remedy_for(b"\xff\xff\xff\xff") is None
    assert remedy_for(b"SSH-") is None
    assert remedy_for(frame_of(ApiVersionsRequest(), 0)[:4]) is None
    assert remedy_for(socket.htonl(100 << 20).to_bytes(4, "little")) is None

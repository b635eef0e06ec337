"""The page as it is served, and what is refused."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from ottla.cli.demo.snapshot import Snapshot
from ottla.cli.demo.web import PageServer
from tests.support.demo_snapshot import a_snapshot, a_spark_snapshot


class Shown:
    def __init__(self) -> None:
        self.snapshot: Snapshot = a_snapshot(spark=a_spark_snapshot())


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def address(shown: Shown) -> Iterator[tuple[str, int]]:
    with PageServer(lambda: shown.snapshot) as server:
        parts = urlsplit(server.url)
        assert parts.hostname is not None
        assert parts.port is not None
        yield parts.hostname, parts.port


def ask(
    address: tuple[str, int], path: str, method: str = "GET", host: str | None = None
) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection(*address, timeout=30)
    try:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())
    finally:
        connection.close()


def test_the_page_and_what_renews_it(address: tuple[str, int], shown: Shown) -> None:
    status, text, headers = ask(address, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert text.startswith("<!doctype html>")
    assert "123,456" in text

    shown.snapshot = a_snapshot(written=234_567)
    status, text, _ = ask(address, "/live")
    assert status == 200
    assert text.startswith('<dl class="facts">')
    assert "234,567" in text


def test_only_this_machine_reaches_it(address: tuple[str, int]) -> None:
    assert address[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/etc/passwd", "/../page.css", "/?x", "/live/", "/page.js"])
def test_there_is_nothing_else(address: tuple[str, int], path: str) -> None:
    assert ask(address, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_nothing_can_be_changed(address: tuple[str, int], method: str) -> None:
    assert ask(address, "/", method)[0] == 501


def test_a_name_that_was_made_to_resolve_to_this_machine_gets_nothing(
    address: tuple[str, int],
) -> None:
    port = address[1]
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", ""):
        status, text, _ = ask(address, "/live", host=host)
        assert (status, "123,456" in text) == (421, False), host
    assert ask(address, "/live", host=f"localhost:{port}")[0] == 200


def test_no_other_site_may_use_it(address: tuple[str, int]) -> None:
    headers = ask(address, "/")[2]

    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; connect-src 'self'")
    assert "frame-ancestors 'none'" in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]


def test_connections_that_say_nothing_do_not_pile_up(address: tuple[str, int]) -> None:
    silent = [socket.create_connection(address) for _ in range(40)]
    try:
        # Those beyond the limit are closed.
        for connection in silent:
            connection.settimeout(30)
        closed = 0
        for connection in silent[32:]:
            closed += connection.recv(1) == b""
        assert closed == 8
    finally:
        for connection in silent:
            connection.close()
    while True:
        try:
            status = ask(address, "/live")[0]
        except (http.client.HTTPException, OSError):
            time.sleep(0.05)  # their threads have not noticed yet
        else:
            break
    assert status == 200

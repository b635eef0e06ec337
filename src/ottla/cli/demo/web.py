"""The demo's page, served to this machine: two paths, nothing from disk, nothing to change.

Any site that a browser visits may send requests to 127.0.0.1. What keeps them out: only GET is
answered; the Host must be ours, so that a name that was made to resolve to 127.0.0.1 gets nothing;
and the answers say that no other origin may use them."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from types import TracebackType
from typing import Any

from ottla.cli.demo.page import content, page, script
from ottla.cli.demo.snapshot import Snapshot

_HOST = "127.0.0.1"
_REQUEST_S_MAX = 5.0
_CONNECTIONS_MAX = 32


class PageServer:
    """One thread that accepts, and one for each connection, from `with` to its end. They call
    `snapshot`."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._server = _Server(snapshot)
        self.url = f"http://{_HOST}:{self._server.port}/"
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.1},
            name="demo-page",
            daemon=True,
        )

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingTCPServer):
    # Not HTTPServer, which asks a name server what this machine is called.
    daemon_threads = True
    request_queue_size = 2 * _CONNECTIONS_MAX
    block_on_close = False

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self.snapshot = snapshot
        self._room = threading.BoundedSemaphore(_CONNECTIONS_MAX)
        super().__init__((_HOST, 0), _Handler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away is no news for the screen."""


class _Handler(BaseHTTPRequestHandler):
    """One request: a connection is closed after its answer."""

    server: _Server
    server_version = "ottla"
    sys_version = ""
    timeout = _REQUEST_S_MAX

    def do_GET(self) -> None:
        names = {f"{name}:{self.server.port}" for name in (_HOST, "localhost")}
        if self.headers.get_all("Host", []) not in [[name] for name in names]:
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, "This is not the server you asked for.\n")
        elif self.path == "/":
            self._answer(HTTPStatus.OK, page(self.server.snapshot(), is_live=True), "text/html")
        elif self.path == "/live":
            self._answer(HTTPStatus.OK, content(self.server.snapshot()), "text/html")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "There is only one page here: /\n")

    def _answer(self, status: HTTPStatus, text: str, kind: str = "text/plain") -> None:
        body = text.encode()
        self.send_response(status)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": _policy(),
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """The screen has no room for it."""


def _policy() -> str:
    """The page's own script and style, requests to where it came from, and nothing else."""
    digest = hashlib.sha256(f"\n{script()}".encode()).digest()
    allowed = {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data:",
        "script-src": f"'sha256-{base64.b64encode(digest).decode()}'",
        "style-src": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())

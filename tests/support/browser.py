"""A real browser for tests: Chromium without a window, told what to do by its DevTools protocol
over two pipes. It needs nothing but Chromium itself."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

_FLAGS = (
    "--headless",
    "--no-sandbox",  # tests run as root in containers, where Chromium would refuse to start
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-first-run",
    # No name but those of this machine is ever looked up.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--remote-debugging-pipe",
)
_ANSWER_S = 60.0

Scheme = Literal["light", "dark"]


class Browser:
    """From `with` to its end. One page at a time, in `open`."""

    def __init__(self, path: str, folder: Path) -> None:
        self._path = path
        self._folder = folder
        self._number = 0
        self._target: str | None = None
        self._session: str | None = None
        self._unread = b""
        self._events: deque[dict[str, Any]] = deque()
        self.complaints: list[str] = []
        """What the page has written to the console as an error, thrown or could not load."""

    def __enter__(self) -> Browser:
        their_input, self._to = os.pipe()
        self._from, their_output = os.pipe()
        # Chromium reads from 3 and writes to 4. A shell moves them there: a function between fork
        # and exec would not be safe where there are threads. Others than bash know one digit only.
        moved = f'exec "$0" "$@" 3<&{their_input} 4>&{their_output}'
        self._process = subprocess.Popen(
            ["bash", "-c", moved, self._path, *_FLAGS, f"--user-data-dir={self._folder}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(their_input, their_output),
            start_new_session=True,
        )
        os.close(their_input)
        os.close(their_output)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._session = None
        try:
            self._call("Browser.close")
        except (OSError, TimeoutError):
            self._process.kill()
        self._process.wait(_ANSWER_S)
        os.close(self._to)
        os.close(self._from)

    def open(self, url: str) -> None:
        """In a new tab, until it is loaded. The one before is closed."""
        self._session = None
        if self._target is not None:
            self._call("Target.closeTarget", targetId=self._target)
        self._target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._events.clear()
        self.complaints.clear()
        self._call("Page.navigate", url=url)
        deadline_s = time.monotonic() + _ANSWER_S
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._receive(deadline_s)

    def size(self, width: int, height: int = 900) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def scheme(self, name: Scheme) -> None:
        feature = {"name": "prefers-color-scheme", "value": name}
        self._call("Emulation.setEmulatedMedia", features=[feature])

    def run(self, expression: str) -> Any:
        """JavaScript, and what it comes to; a promise is waited for."""
        found = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, expression: str, timeout_s: float = 30.0) -> Any:
        """Until it is true, as JavaScript has it."""
        deadline_s = time.monotonic() + timeout_s
        while not (value := self.run(expression)):
            assert time.monotonic() < deadline_s, f"it never came true: {expression}"
            time.sleep(0.05)
        return value

    def move(self, x: float, y: float) -> None:
        """The pointer."""
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path) -> None:
        """Of the whole page, as PNG."""
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        found = self._call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(found["data"]))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline_s = time.monotonic() + _ANSWER_S
        while (answer := self._receive(deadline_s)).get("id") != number:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self, deadline_s: float) -> dict[str, Any]:
        """The next answer or event; events are looked at and kept."""
        while b"\0" not in self._unread:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([self._from], [], [], left_s)[0]:
                raise TimeoutError("Chromium does not answer")
            read = os.read(self._from, 1 << 20)
            if not read:
                raise OSError(f"Chromium ended: {self._process.poll()}")
            self._unread += read
        text, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._events.append(message)
            self._listen(message["method"], message["params"])
        return message

    def _listen(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str([one.get("value") for one in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url')}")

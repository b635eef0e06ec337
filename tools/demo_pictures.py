"""Makes docs/images from a real run of the demo: `python -m tools.demo_pictures`. Its terminal as
SVG, its page of plots as PNG, taken by Chromium a moment later."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import tempfile
import termios
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.support.browser import Browser

_ROOT = Path(__file__).resolve().parent.parent
_IMAGES = _ROOT / "docs" / "images"
_COLUMNS, _LINES = 100, 34
_PAGE_WIDTH = 1000
_SECONDS_MIN, _SECONDS_MAX = 90.0, 900.0
_ALL_IS_THERE = re.compile(r"sessions ended\D*[1-9].*searches[^\n]*\n[^\n]*\w", re.DOTALL)
"""On the screen: sessions have ended, and pages and searches are ranked."""
_ADDRESS = re.compile(r"http://(?:localhost|127\.0\.0\.1):\d+[^\s\x1b]*")
_ERASED = re.compile(r"(?:\r?\x1b\[2K|\x1b\[1A)+")
"""What rich writes before it draws a frame in the place of the one before."""


def main() -> None:
    _IMAGES.mkdir(parents=True, exist_ok=True)
    terminal, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    with tempfile.TemporaryDirectory() as folder:
        command = ["./ottla", "demo", "--page", f"{folder}/page.html"]
        environment = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        demo = subprocess.Popen(
            command,
            stdin=its,
            stdout=its,
            stderr=its,
            cwd=_ROOT,
            env=environment,
            start_new_session=True,
        )
        os.close(its)
        try:
            shown = _read(terminal, _SECONDS_MIN)
            deadline_s = time.monotonic() + _SECONDS_MAX - _SECONDS_MIN
            while not _ALL_IS_THERE.search(_plain(_last_frame(shown))):
                assert time.monotonic() < deadline_s, "the demo never showed all that it can"
                shown += _read(terminal, 5)
            _save_terminal(_last_frame(shown))
            _save_page(_ADDRESS.search(shown), Path(folder))
        finally:
            demo.terminate()
            _read(terminal, 5)
            demo.wait(30)


def _read(terminal: int, seconds: float) -> str:
    """What was written to it in that time, or until nobody has it open."""
    chunks: list[bytes] = []
    deadline_s = time.monotonic() + seconds
    while (left_s := deadline_s - time.monotonic()) > 0:
        if select.select([terminal], [], [], left_s)[0]:
            try:
                chunks.append(os.read(terminal, 1 << 16))
            except OSError:
                break
    return b"".join(chunks).decode(errors="replace")


def _last_frame(shown: str) -> str:
    """The last that is whole: the one after it may be cut off."""
    frames = [frame for frame in _ERASED.split(shown) if frame.strip()]
    return frames[-2].replace("\r\n", "\n").rstrip()


def _plain(frame: str) -> str:
    return Text.from_ansi(frame).plain


def _save_terminal(frame: str) -> None:
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=_COLUMNS, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(frame))
        console.save_svg(str(_IMAGES / "demo.svg"), title="ottla demo")
    print("docs/images/demo.svg")


def _save_page(address: re.Match[str] | None, folder: Path) -> None:
    assert address is not None, "the demo names the address of its page"
    with Browser("chromium", folder / "chromium") as browser:
        browser.open(address[0])
        browser.size(_PAGE_WIDTH)
        browser.scheme("light")
        browser.wait_for("document.querySelector('svg') !== null")
        browser.screenshot(_IMAGES / "demo-page.png")
    print(f"docs/images/demo-page.png, of {address[0]}")


if __name__ == "__main__":
    main()

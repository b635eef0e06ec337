"""The line that tells how fast it goes."""

from __future__ import annotations

import pytest

from ottla.cli.live_line import LiveLine


def test_the_live_line_comes_once_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = [100.0]
    live = LiveLine(lambda: now_s[0])
    for now_s[0], records in ((100.5, 50), (102.0, 4000), (102.9, 5000)):
        live.update(records, 1000)

    (line,) = capsys.readouterr().err.splitlines()
    assert line.split() == ["4,000", "records", "2,000/s", "2.0", "MB/s"]

from __future__ import annotations

import io
import sys

import pytest

from ottla.cli.simulate.progress import Progress, shown


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(0, 100, 0, 0.5), "0 of 100 seeds"),
        (Progress(20, 100, 0, 10.0), "20 of 100 seeds, 2.0/s, 40.0 s left"),
        (Progress(20, 100, 1, 10.0), "20 of 100 seeds, 2.0/s, 40.0 s left, 1 failed"),
        (Progress(100, 100, 0, 50.0), "100 of 100 seeds, 2.0/s"),
        (Progress(100, 100, 2, 50.0), "100 of 100 seeds, 2.0/s, 2 failed, shrinking"),
    ],
)
def test_how_far_it_is(progress: Progress, text: str) -> None:
    assert str(progress) == text


def test_a_pipe_gets_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    times_s = iter([0.0, 1.0, 6.0, 6.0, 7.0])
    with shown(lambda: next(times_s)) as show:
        for done in (1, 2, 3):
            show(Progress(done, 10, 0, 1.0))
    assert capsys.readouterr().err == "2 of 10 seeds, 2.0/s, 4.0 s left\n"


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    with shown() as show:
        show(Progress(5, 10, 0, 1.0))
    *_, bar, left = terminal.getvalue().split("\r\x1b[K")
    assert bar == ("━" * 10 + "╌" * 10 + " 5 of 10 seeds, 5.0/s, 1.0 s left")[:39]
    assert left == ""

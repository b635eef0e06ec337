from __future__ import annotations

import pytest

from ottla.cli.progress_lines import progress_lines


def test_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    times_s = iter([0.0, 4.9, 5.0, 9.9, 10.0])
    show = progress_lines(lambda: next(times_s))
    for number in range(4):
        show(f"{number} of 4")
    assert capsys.readouterr().err == "1 of 4\n3 of 4\n"

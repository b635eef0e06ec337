from __future__ import annotations

import pytest

from ottla.cli.plan_first import say_only_planned


def test_a_plan_says_that_nothing_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    say_only_planned()

    out, err = capsys.readouterr()
    assert out == ""
    assert err == "ottla: this is the plan, nothing was changed; --execute does it\n"

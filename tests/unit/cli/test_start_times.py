from __future__ import annotations

import pytest

from ottla.cli.start_times import StartTimes


def test_each_part_has_its_time_and_what_of_it_was_the_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, cpu_s = 50.0, 0.03
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    monkeypatch.setattr("time.process_time", lambda: cpu_s)
    times = StartTimes()
    now_s, cpu_s = 50.0105, 0.0325
    times.passed("store")
    now_s = 50.02
    times.passed("log dirs")

    assert times.began_s == 50.0
    assert str(times) == (
        "Python and command line 30.0 ms (CPU 30.0), store 10.5 ms (CPU 2.5), "
        "log dirs 9.5 ms (CPU 0.0)"
    )

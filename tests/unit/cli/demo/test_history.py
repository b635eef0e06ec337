"""Counts over time become rates."""

from __future__ import annotations

from ottla.cli.demo.history import History, Rate


def test_a_rate_is_over_the_last_seconds() -> None:
    history = History()
    assert history.now() == Rate(0.0, 0.0, 0.0)
    history.add(2.0, 200, 0)
    assert history.now() == Rate(2.0, 100.0, 0.0)
    history.add(6.0, 600, 300)
    history.add(8.0, 600, 900)

    # The beginning is too long ago.
    assert history.now() == Rate(8.0, 0.0, 300.0)


def test_one_rate_a_second_is_kept() -> None:
    history = History()
    for tenth in range(1, 31):
        history.add(tenth / 10, tenth * 10, tenth)

    assert [round(rate.at_s, 1) for rate in history.rates()] == [0.1, 1.1, 2.1]
    assert all(round(rate.written) == 100 for rate in history.rates())

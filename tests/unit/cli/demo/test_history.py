"""How the demo went, over time."""

from __future__ import annotations

from itertools import pairwise

from ottla.cli.demo.history import RECENT, SAMPLES_MAX, History, Sample, Totals, merged
from ottla.cli.latency import Summary

WEEK_S = 7 * 86_400


def test_what_is_written_a_second_is_over_the_last_seconds() -> None:
    history = History()
    assert history.rates() == (0.0, 0.0)
    history.count(2.0, Totals(200, 0))
    assert history.rates() == (100.0, 0.0)
    history.count(6.0, Totals(600, 0))
    history.count(8.0, Totals(600, 0))

    # The beginning is too long ago.
    assert history.rates() == (0.0, 0.0)


def test_a_batch_of_spark_counts_for_the_time_since_the_one_before() -> None:
    history = History()
    history.count(20.0, Totals(20_000, 20_000))
    assert history.rates()[1] == 1000.0
    history.count(24.0, Totals(24_000, 24_800))
    assert history.rates()[1] == 1200.0
    history.count(27.0, Totals(27_000, 24_800))
    assert history.rates()[1] == 1200.0
    # When none comes for longer, it becomes less.
    history.count(32.0, Totals(32_000, 24_800))
    assert history.rates()[1] == 600.0


def test_a_sample_has_all_that_is_plotted() -> None:
    history = History()
    assert history.samples() == []
    assert history.is_due(0.1)
    history.count(2.0, Totals(200, 50))
    history.add(Summary(1.0, 2.0, 3.0, 4.0), 40_000_000)

    assert history.samples() == [Sample(2.0, 100.0, 25.0, 150, 1.0, 3.0, 40_000_000)]
    assert not history.is_due(2.9)
    assert history.is_due(3.0)


def test_two_become_one() -> None:
    one = Sample(1.0, 100.0, 10.0, 5, None, None, None)
    other = Sample(2.0, 300.0, 20.0, 4, 2.0, 9.0, 30)

    assert merged([one, other]) == Sample(2.0, 200.0, 15.0, 5, 2.0, 9.0, 30)
    assert merged([one]) == one


def test_a_week_has_as_many_samples_as_some_minutes() -> None:
    history = History()
    for second in range(10, WEEK_S + 1, 10):
        history.count(float(second), Totals(second * 1000, second * 999))
        history.add(Summary(1.0, 2.0, 3.0, 4.0), second)

    samples = history.samples()
    assert SAMPLES_MAX / 2 <= len(samples) <= SAMPLES_MAX
    assert len(history.recent) == RECENT
    # From the first to the last second, all as far apart.
    steps = {round(after.at_s - one.at_s) for one, after in pairwise(samples[:-1])}
    assert len(steps) == 1
    assert samples[0].at_s <= steps.pop()
    assert samples[-1].at_s == WEEK_S
    assert samples[-1].memory_bytes == WEEK_S

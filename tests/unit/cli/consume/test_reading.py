"""The loop: what is shown, what counts as written, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ottla.cli.consume.key_filter import Filter
from ottla.cli.consume.lines import TextLines
from ottla.cli.consume.reading import Ending, Reading
from ottla.cli.errors import ExitCode, Failure
from ottla.cli.offsets import Partition
from tests.unit.cli.consume.fakes import FakeConsumer, a_message, end_of


class FakeAssignment:
    def __init__(self) -> None:
        self.unfinished: set[Partition] | None = {("t", 0), ("t", 1)}
        self.written: list[dict[Partition, int]] = []
        self.is_finished = False

    def begin(self) -> None: ...

    def between_polls(self) -> None: ...

    def wrote(self, offsets: Mapping[Partition, int]) -> None:
        self.written.append(dict(offsets))

    def finish(self) -> None:
        self.is_finished = True


def read(
    *batches: list[Any],
    ending: Ending | None = None,
    is_wanted: Filter | None = None,
    assignment: FakeAssignment | None = None,
) -> int:
    consumer: Any = FakeConsumer(*batches)
    assignment = assignment or FakeAssignment()
    reading = Reading(
        consumer,
        assignment,
        TextLines().line,
        ending or Ending(),
        topics="t",
        is_wanted=is_wanted,
    )
    try:
        return reading.run(consumer.stop)
    finally:
        assert assignment.is_finished


def test_it_ends_after_max_and_has_written_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    messages = [a_message(b"%d" % number, offset=number) for number in range(5)]
    assignment = FakeAssignment()

    ending = Ending(max_count=3)
    assert read(messages[:2], messages[2:], ending=ending, assignment=assignment) == 0
    assert capsys.readouterr().out == "0\n1\n2\n"
    assert assignment.written == [{("t", 0): 2}, {("t", 0): 3}]


def test_it_ends_where_every_partition_ends_and_shows_nothing_newer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assignment = FakeAssignment()
    first = [
        a_message(b"a", offset=3),
        end_of(0, 5),  # between 3 and 5: the marker of a transaction
        a_message(b"newer", offset=5),
        end_of(0, 6),
        a_message(b"b", partition=1),
    ]

    assert read(first, [end_of(1)], ending=Ending(until_end=True), assignment=assignment) == 0
    assert capsys.readouterr().out == "a\nb\n"
    assert assignment.written == [{("t", 0): 5, ("t", 1): 8}, {("t", 1): 8}]


def test_it_does_not_end_before_it_knows_its_partitions() -> None:
    assignment = FakeAssignment()
    assignment.unfinished = None

    assert read(ending=Ending(until_end=True), assignment=assignment) == 130


def test_a_filter_leaves_out_what_is_still_written_off(capsys: pytest.CaptureFixture[str]) -> None:
    assignment = FakeAssignment()
    messages = [a_message(b"%d" % number, offset=number) for number in range(4)]

    def is_odd(message: Any) -> bool:
        return bool(message.offset() % 2)

    assert read(messages, is_wanted=is_odd, assignment=assignment) == 130
    out, err = capsys.readouterr()
    assert out == "1\n3\n"
    assert err == "ottla: 2 records shown, of 4 read from t\n"
    assert assignment.written == [{("t", 0): 4}]


def test_what_could_not_be_written_is_not_written_off(monkeypatch: pytest.MonkeyPatch) -> None:
    class ClosedPipe:
        def write(self, _: bytes) -> None:
            raise BrokenPipeError

    assignment = FakeAssignment()
    stdout = SimpleNamespace(buffer=ClosedPipe(), isatty=lambda: False)
    monkeypatch.setattr("sys.stdout", stdout)
    with pytest.raises(BrokenPipeError):
        read([a_message()], assignment=assignment)
    assert assignment.written == []


def test_ctrl_c_ends_it_and_it_says_how_much_it_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert read([a_message()]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "ottla: 1 record read from t\n"


def test_a_lost_connection_is_waited_out() -> None:
    lost = a_message(error=KafkaError._TRANSPORT)

    assert read([lost, a_message()], ending=Ending(max_count=1)) == 0


@pytest.mark.parametrize(("topic", "where"), [("t", "t-0"), (None, "t")])
def test_another_error_ends_it_after_what_came_before_was_shown(
    topic: str | None, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = a_message(topic=topic, error=KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(Failure, match=rf"reading {where} failed: .*AUTHORIZATION_FAILED"):
        read([a_message(b"before"), refused])
    assert capsys.readouterr().out == "before\n"

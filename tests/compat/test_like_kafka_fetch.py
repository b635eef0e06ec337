"""Fetch: Ottla and Apache Kafka answer alike."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, ForgottenTopic
from tests.support.raw_client import as_dict
from tests.support.side_by_side import Both, Subject, a_batch, assert_alike, fetch_request

TOPIC_IDS_SINCE = 13
UNKNOWN_ID = TopicId(bytes(range(16)))


def fill(subject: Subject, topic: str, batch_count: int = 3, partition_count: int = 1) -> None:
    """Batches of two records each."""
    subject.create(topic, partition_count)
    for number in range(batch_count):
        for partition in range(partition_count):
            subject.produce(topic, a_batch(b"%d" % number, b"x" * 50), partition=partition)


@pytest.mark.parametrize("version", FetchRequest.VERSIONS)
def test_every_version(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        fill(subject, topic)
        asked: list[dict[str, Any]] = [
            {"offset": 0},
            {"offset": 3},  # in the middle of a batch
            {"offset": 6},  # at the end
            {"offset": 7},
            {"offset": -1},
            {"partitions": [0, 5]},
            {"leader_epoch": 0},
            {"leader_epoch": 3},
            {"isolation_level": 1},
            {"partition_max_bytes": 1},
            {"partition_max_bytes": 200},
            {"max_bytes": 1},
            {"max_bytes": 0},
        ]
        return [as_dict(subject.fetch(topic, version=version, **options)) for options in asked]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_unknown_topics(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        answer = subject.fetch(topic, version=version, topic_id=UNKNOWN_ID)
        return as_dict(answer)

    assert_alike(both, scenario)


def test_at_least_one_batch(both: Both, topic: str) -> None:
    """The first batch is sent whole, whatever the limits; nothing beyond them follows."""

    def scenario(subject: Subject) -> Any:
        fill(subject, topic, partition_count=3)
        size = len(a_batch(b"0", b"x" * 50))
        asked: list[dict[str, Any]] = [
            {"partition_max_bytes": 1},
            {"partition_max_bytes": size},
            {"partition_max_bytes": 2 * size - 1},
            {"max_bytes": size},
            {"max_bytes": size + 1, "partition_max_bytes": size},
            {"max_bytes": 3 * size, "partition_max_bytes": size},
            {"max_bytes": 2 * size, "partition_max_bytes": size},
        ]
        return [
            [
                len(partition.records or b"")
                for partition in sorted(
                    subject.fetch(topic, partitions=[0, 1, 2], **limits).responses[0].partitions,
                    key=lambda one: one.partition_index,
                )
            ]
            for limits in asked
        ]

    assert_alike(both, scenario)


def test_waiting_for_records(both: Both, topic: str) -> None:
    """Until `min_bytes` are there, or the time is over."""

    def scenario(subject: Subject) -> Any:
        fill(subject, topic, 1)
        empty = subject.fetch(topic, 2, max_wait_ms=50, min_bytes=1)
        enough = subject.fetch(topic, 0, max_wait_ms=60_000, min_bytes=1)
        waiting = Subject(subject.name, subject.bootstrap)
        waited: list[Any] = []

        def wait() -> None:
            waited.append(waiting.fetch(topic, 2, max_wait_ms=60_000, min_bytes=200))

        thread = threading.Thread(target=wait)
        thread.start()
        for _ in range(3):
            subject.produce(topic, a_batch(b"0", b"x" * 50))
        thread.join(30)
        waiting.close()
        assert len(waited[0].responses[0].partitions[0].records) >= 200
        return [as_dict(empty), as_dict(enough)]

    assert_alike(both, scenario)


def test_waiting_ends_with_an_error(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        fill(subject, topic, 1)
        return [
            as_dict(subject.fetch(topic, 99, max_wait_ms=60_000, min_bytes=1)),
            as_dict(subject.fetch(topic, 0, partitions=[7], max_wait_ms=60_000, min_bytes=1)),
            as_dict(subject.fetch(topic, partitions=[], max_wait_ms=60_000, min_bytes=1)),
        ]

    assert_alike(both, scenario)


class Session:
    """A client's side of a fetch session."""

    def __init__(self, subject: Subject, topic: str, version: int) -> None:
        self._subject = subject
        self._topic = topic
        self._version = version
        self.id = 0
        self.epoch = 0

    def fetch(
        self, offsets: dict[int, int], forgotten: tuple[int, ...] = (), **options: Any
    ) -> Any:
        topic_id = self._subject.topic_ids[self._topic]
        request = fetch_request(
            self._topic,
            [
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                for index, offset in offsets.items()
            ],
            topic_id=topic_id,
            session_id=self.id,
            session_epoch=self.epoch,
            **options,
        )
        if forgotten:
            request.forgotten_topics_data = [
                ForgottenTopic(topic=self._topic, topic_id=topic_id, partitions=list(forgotten))
            ]
        answer = self._subject.ask(request, self._version)
        if answer.error_code == 0:
            self.id = answer.session_id
            self.epoch += 1
        for one in answer.responses:
            one.partitions.sort(key=lambda partition: partition.partition_index)
        return as_dict(answer)


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_sessions(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        fill(subject, topic, 1, partition_count=3)
        session = Session(subject, topic, version)
        seen = [
            session.fetch({0: 0, 1: 2, 2: 2}),
            session.fetch({}),  # what was not consumed comes again
            session.fetch({0: 2}),  # all consumed: nothing is new
            session.fetch({}),
        ]
        subject.produce(topic, a_batch(b"new"), partition=1)
        seen += [session.fetch({}), session.fetch({1: 3}), session.fetch({})]
        subject.produce(topic, a_batch(b"new"), partition=1)
        subject.produce(topic, a_batch(b"new"), partition=2)
        seen.append(session.fetch({}, forgotten=(1,)))
        seen.append(session.fetch({2: 3}))
        seen.append(session.fetch({1: 0}))  # back again
        seen.append(session.fetch({1: 99, 2: 3}))  # out of range
        seen.append(session.fetch({}))  # still is
        seen.append(session.fetch({1: 4}))
        seen.append(session.fetch({9: 0}))  # no such partition
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", [12, 18])
def test_a_session_whose_last_partition_is_forgotten_is_over(
    both: Both, topic: str, version: int
) -> None:
    def scenario(subject: Subject) -> Any:
        fill(subject, topic)
        session = Session(subject, topic, version)
        seen = [session.fetch({0: 0})]
        known = session.id
        seen.append(session.fetch({}, forgotten=(0,)))
        session.id = known
        seen.append(session.fetch({}))
        seen.append(session.fetch({0: 0}))
        return seen

    assert_alike(both, scenario)


def test_session_errors(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        fill(subject, topic)
        session = Session(subject, topic, 12)
        seen = [session.fetch({0: 0})]
        known = session.id
        session.epoch = 5
        seen.append(session.fetch({}))
        session.epoch = 1
        session.id = known ^ 1
        seen.append(session.fetch({}))
        session.id = known
        seen.append(session.fetch({}))
        session.epoch = -1  # closes it
        seen.append(session.fetch({}))
        session.id, session.epoch = known, 2
        seen.append(session.fetch({}))
        session.id, session.epoch = 0, 7
        seen.append(session.fetch({}))
        session.id, session.epoch = 0, 0  # a session of nothing
        seen.append(session.fetch({}))
        return seen

    assert_alike(both, scenario)


def test_a_session_changes_from_names_to_ids(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        fill(subject, topic)
        session = Session(subject, topic, 12)
        session.fetch({0: 0})
        session._version = 13
        return session.fetch({})

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", [12, 13])
def test_a_session_outlives_its_topic(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        fill(subject, topic)
        session = Session(subject, topic, version)
        session.fetch({0: 6})
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
        assert subject.ask(request).responses[0].error_code == 0
        while not (answer := session.fetch({}, max_wait_ms=100))["responses"]:
            pass
        partition = answer["responses"][0]["partitions"][0]
        if version >= TOPIC_IDS_SINCE and partition["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID:
            # Kafka's sessions remember the name that an id had, Ottla's do not; to a client
            # both are a reason to fetch metadata anew.
            partition["error_code"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return answer

    assert_alike(both, scenario)


def test_divergence_by_epoch(both: Both, topic: str) -> None:
    """Of a consumer that says what epoch it read last (KIP-595)."""

    def scenario(subject: Subject) -> Any:
        fill(subject, topic)
        answers = []
        for epoch, offset in ((0, 2), (0, 6), (1, 2), (7, 6)):
            partition = FetchPartition(
                partition=0,
                fetch_offset=offset,
                last_fetched_epoch=epoch,
                partition_max_bytes=1 << 20,
            )
            answers.append(as_dict(subject.ask(fetch_request(topic, [partition]), 12)))
        return answers

    assert_alike(both, scenario)

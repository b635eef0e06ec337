"""The transaction coordinator, answer by answer and record by record beside Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.coordinators.record import decode_record, encode_record
from ottla.coordinators.transactions.records import (
    RECORD_TYPES,
    TransactionLogKey,
    TransactionLogValue,
)
from ottla.coordinators.transactions.state import TransactionState
from ottla.kernel.errors import ErrorCode
from ottla.kernel.internal_topics import TRANSACTION_STATE
from ottla.kernel.java import abs_hash
from ottla.records.batch import iter_headers
from ottla.records.record import iter_records
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.schema import Request
from tests.support.counts import IS_FULL
from tests.support.side_by_side import Both, Subject, a_batch, assert_alike

TIMEOUT_S = 60
TIMEOUT_MS = 60_000
MAX_TIMEOUT_MS = 900_000
LAST_EPOCH = 2**15 - 2

INIT_VERSIONS = range(6)
EXPECTED_SINCE = 3
ADD_VERSIONS = range(6)
BATCHED_SINCE = 4
OFFSETS_VERSIONS = range(5)
END_VERSIONS = range(6)
BUMPING_SINCE = 5

_AGAIN = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}

Identity = tuple[int, int]


class Id:
    """A transactional id at one of the brokers; answers of it that can be compared."""

    def __init__(self, subject: Subject, name: str) -> None:
        self.subject = subject
        self.name = name
        self._numbers: dict[int, int] = {-1: -1}

    def number(self, producer_id: int) -> int:
        """Which producer id it is of those that this id has had."""
        return self._numbers.setdefault(producer_id, len(self._numbers))

    def wait(self) -> Id:
        """Apache Kafka makes the topic of the coordinators in the background."""
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.name])
        until(lambda: self.subject.ask(find, 4).coordinators[0].error_code == ErrorCode.NONE)
        until(lambda: self.describe()["error"] == "TRANSACTIONAL_ID_NOT_FOUND")
        return self

    def init(
        self,
        expected: Identity = (-1, -1),
        *,
        version: int = 5,
        timeout_ms: int = TIMEOUT_MS,
        name: str | None = "",
    ) -> tuple[str, int, int]:
        """Error, producer id, epoch."""
        request = InitProducerIdRequest(
            transactional_id=self.name if name == "" else name,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        answer = self._ask(request, version)
        return ErrorCode(answer.error_code).name, answer.producer_id, answer.producer_epoch

    def begin(self) -> Identity:
        error, *identity = self.init()
        assert error == "NONE", error
        return identity[0], identity[1]

    def add(
        self,
        identity: Identity,
        *partitions: int,
        version: int = 3,
        topic: str | None = None,
        name: str | None = None,
        verify: bool = False,
    ) -> Any:
        """By topic and partition: the error."""
        name = self.name if name is None else name
        topics = [AddPartitionsToTxnTopic(name=topic or self.name, partitions=list(partitions))]
        if version < BATCHED_SINCE:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=identity[0],
                v3_and_below_producer_epoch=identity[1],
                v3_and_below_topics=topics,
            )
            return _codes(self._ask(request, version).results_by_topic_v3_and_below)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=identity[0],
            producer_epoch=identity[1],
            verify_only=verify,
            topics=topics,
        )
        answer = self._ask(AddPartitionsToTxnRequest(transactions=[transaction]), version)
        (result,) = answer.results_by_transaction
        return answer.error_code, result.transactional_id == name, _codes(result.topic_results)

    def add_offsets(self, identity: Identity, version: int, name: str | None = None) -> str:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name if name is None else name,
            producer_id=identity[0],
            producer_epoch=identity[1],
            group_id="group",
        )
        return ErrorCode(self._ask(request, version).error_code).name

    def end(
        self, identity: Identity, is_commit: bool, *, version: int = 5, name: str | None = None
    ) -> tuple[str, int, int]:
        request = EndTxnRequest(
            transactional_id=self.name if name is None else name,
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=is_commit,
        )
        answer = self._ask(request, version)
        error = ErrorCode(answer.error_code).name
        return error, self.number(answer.producer_id), answer.producer_epoch

    def ended(self, identity: Identity, is_commit: bool = True, version: int = 5) -> Identity:
        """Complete: its markers are written. What the producer is then."""
        error, *_ = self.end(identity, is_commit, version=version)
        assert error == "NONE", error
        return self.settled()

    def settled(self) -> Identity:
        until(lambda: not self.describe()["state"].startswith("Prepare"))
        state = self._described()
        return state.producer_id, state.producer_epoch

    def _described(self, name: str | None = None) -> Any:
        names = [self.name if name is None else name]
        request = DescribeTransactionsRequest(transactional_ids=names)
        return self.subject.ask(request, 0).transaction_states[0]

    def describe(self, name: str | None = None) -> dict[str, Any]:
        state = self._described(name)
        return {
            "error": ErrorCode(state.error_code).name,
            "id": state.transactional_id,
            "state": state.transaction_state,
            "timeout": state.transaction_timeout_ms,
            "has_started": state.transaction_start_time_ms > 0,
            "producer": (self.number(state.producer_id), state.producer_epoch),
            "topics": sorted((topic.topic, sorted(topic.partitions)) for topic in state.topics),
        }

    def _ask(self, request: Request, version: int) -> Any:
        """Again while the transaction before is being completed, or producer ids are being had: how
        long that takes is not compared."""
        while True:
            answer = self.subject.ask(request, version)
            if not _AGAIN & _all_codes(answer):
                return answer
            time.sleep(0.02)


def begin(subject: Subject, topic: str) -> Id:
    subject.create(topic, 3)
    return Id(subject, topic).wait()


def until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def _codes(topics: Any) -> dict[str, dict[int, str]]:
    return {
        topic.name: {
            one.partition_index: ErrorCode(one.partition_error_code).name
            for one in topic.results_by_partition
        }
        for topic in topics
    }


def _all_codes(answer: Any) -> set[int]:
    codes = {getattr(answer, "error_code", 0)}
    topics = list(getattr(answer, "results_by_topic_v3_and_below", ()))
    for result in getattr(answer, "results_by_transaction", ()):
        topics += result.topic_results
    return codes | {one.partition_error_code for t in topics for one in t.results_by_partition}


# -- InitProducerId -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", INIT_VERSIONS)
def test_init(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)

        def init(**options: Any) -> Any:
            error, producer_id, epoch = one.init(version=version, **options)
            return error, one.number(producer_id), epoch

        no_id = one.init(version=version, name=None)
        empty = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=TIMEOUT_MS)
        return [
            init(),
            init(),
            init(timeout_ms=1),
            one.describe(),
            init(timeout_ms=MAX_TIMEOUT_MS),
            init(timeout_ms=MAX_TIMEOUT_MS + 1),
            init(timeout_ms=0),
            init(timeout_ms=-1),
            (no_id[0], no_id[1] >= 0, no_id[2]),
            one.init(version=version, name=None, timeout_ms=-1)[0],
            subject.ask(empty, version),
            one.describe(),
        ]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", range(EXPECTED_SINCE, INIT_VERSIONS.stop))
def test_init_of_a_producer_that_goes_on(both: Both, topic: str, version: int) -> None:
    """KIP-360."""

    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)

        def init(producer_id: int, epoch: int, **options: Any) -> Any:
            error, found_id, found_epoch = one.init(
                (producer_id, epoch), version=version, **options
            )
            return error, one.number(found_id), found_epoch

        unknown = init(123_456_789, 7)
        producer_id, _ = one.begin()
        return [
            unknown,
            init(producer_id, 1),
            init(producer_id, 1),
            init(producer_id, 0),
            init(producer_id, 2),
            init(producer_id, 9),
            init(producer_id + 1_000_000, 3),
            init(producer_id, -1),
            init(-1, 3),
            init(producer_id, -1, name=None),
            init(producer_id, 3, name=None)[0],
            one.describe(),
        ]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", INIT_VERSIONS)
def test_init_aborts_what_is_open(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        first = one.begin()
        added = one.add(first, 0)
        # The first answer says that it is being aborted; `init` comes again.
        error, producer_id, epoch = one.init(version=version)
        late = [
            one.add(first, 1),
            one.end(first, True),
            one.end(first, False),
            one.end(first, True, version=4),
            one.init(first, version=max(version, EXPECTED_SINCE))[0],
        ]
        return [added, (error, one.number(producer_id), epoch), late, one.describe()]

    assert_alike(both, scenario)


def test_the_first_answer_to_a_start_while_a_transaction_is_open(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        one.add(one.begin(), 0)
        request = InitProducerIdRequest(transactional_id=topic, transaction_timeout_ms=TIMEOUT_MS)
        answer = subject.ask(request, 5)
        one.settled()
        return [answer, one.describe()]

    assert_alike(both, scenario)


def test_a_producer_goes_on_while_its_transaction_is_open(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        first = one.begin()
        one.add(first, 0)
        error, producer_id, epoch = one.init(first)
        again = one.init(first)
        return [
            (error, one.number(producer_id), epoch),
            (again[0], one.number(again[1]), again[2]),
            one.describe(),
        ]

    assert_alike(both, scenario)


# -- AddPartitionsToTxn, AddOffsetsToTxn --------------------------------------------------------


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_add_partitions(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        producer_id, epoch = identity = one.begin()

        def add(who: Identity, *partitions: int, **options: Any) -> Any:
            return one.add(who, *partitions, version=version, **options)

        return [
            add(identity, 0),
            add(identity, 0, 1),
            add(identity, 0),
            one.describe(),
            add(identity, 0, 3),
            add(identity, -1),
            add(identity, 0, topic=f"{topic}-missing"),
            add((producer_id + 1_000_000, epoch), 0),
            add((producer_id, epoch + 1), 0),
            add((producer_id, epoch - 1), 0),
            add(identity),
            add(identity, 0, name=f"{topic}-unknown"),
            add(identity, 0, name="") if version >= BATCHED_SINCE else None,
            one.describe(),
            one.end(identity, True, version=4),
        ]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", range(BATCHED_SINCE, ADD_VERSIONS.stop))
def test_verify_partitions(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        producer_id, epoch = identity = one.begin()

        def verify(who: Identity, *partitions: int, **options: Any) -> Any:
            return one.add(who, *partitions, version=version, verify=True, **options)

        before = verify(identity, 0)
        one.add(identity, 0, 1)
        during = [
            verify(identity, 0),
            verify(identity, 0, 1, 2),
            verify(identity, 0, 7),
            verify((producer_id + 1_000_000, epoch), 0),
            verify((producer_id, epoch + 1), 0),
            verify((producer_id, epoch - 1), 0),
            verify(identity, 0, name=f"{topic}-unknown"),
            verify(identity, 0, name=""),
        ]
        one.ended(identity, version=4)
        return [before, during, verify(identity, 0), one.describe()]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", range(BATCHED_SINCE, ADD_VERSIONS.stop))
def test_several_transactions_in_one_request(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        other = Id(subject, f"{topic}-2").wait()
        transactions = []
        for which, verify in ((one, False), (other, True)):
            producer_id, epoch = which.begin()
            topics = [AddPartitionsToTxnTopic(name=topic, partitions=[0])]
            transactions.append(
                AddPartitionsToTxnTransaction(
                    transactional_id=which.name,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    verify_only=verify,
                    topics=topics,
                )
            )
        answer = subject.ask(AddPartitionsToTxnRequest(transactions=transactions), version)
        results = {
            result.transactional_id: _codes(result.topic_results)
            for result in answer.results_by_transaction
        }
        return [answer.error_code, results, one.describe(), other.describe()]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", OFFSETS_VERSIONS)
def test_add_offsets(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
        until(lambda: subject.ask(find, 4).coordinators[0].error_code == ErrorCode.NONE)
        producer_id, epoch = identity = one.begin()
        return [
            one.add_offsets(identity, version),
            one.add_offsets(identity, version),
            one.describe(),
            one.add_offsets((producer_id + 1_000_000, epoch), version),
            one.add_offsets((producer_id, epoch + 1), version),
            one.add_offsets((producer_id, epoch - 1), version),
            one.add_offsets(identity, version, f"{topic}-unknown"),
            one.add_offsets(identity, version, ""),
            one.end(identity, False, version=4),
            one.settled()[1],
            one.describe(),
        ]

    assert_alike(both, scenario)


# -- EndTxn -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", END_VERSIONS)
def test_end(both: Both, topic: str, version: int, is_commit: bool) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        producer_id, epoch = identity = one.begin()

        def end(who: Identity, is_commit: bool, **options: Any) -> Any:
            answer = one.end(who, is_commit, version=version, **options)
            one.settled()
            return answer

        refused = [
            end((producer_id + 1_000_000, epoch), is_commit),
            end((producer_id, epoch + 1), is_commit),
            end((producer_id, epoch - 1), is_commit),
            end(identity, is_commit, name=f"{topic}-unknown"),
            end(identity, is_commit, name=""),
            end(identity, True),
        ]
        one.add(identity, 0, 1)
        refused_while_open = [
            end((producer_id + 1_000_000, epoch), is_commit),
            end((producer_id, epoch + 1), is_commit),
            end((producer_id, epoch - 1), is_commit),
        ]
        first = end(identity, is_commit)
        after_first = one.describe()
        retried = [end(identity, is_commit), end(identity, not is_commit)]
        following = one.settled()
        one.add(following, 2)
        late = []
        if version >= BUMPING_SINCE:  # Before, it would end the one that is open now.
            late = [end(identity, is_commit), end(identity, not is_commit)]
        second = end(following, not is_commit)
        return [
            refused,
            refused_while_open,
            first,
            after_first,
            retried,
            late,
            second,
            one.describe(),
        ]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", END_VERSIONS)
def test_an_end_of_nothing(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        identity = one.begin()
        seen: list[Any] = []
        for _ in range(2):
            # From Empty and CompleteAbort, then from CompleteCommit.
            for is_commit in (True, False):
                seen.append(one.end(identity, is_commit, version=version))
                following = one.settled()
                seen += [
                    one.describe(),
                    one.end(identity, is_commit, version=version),
                    one.settled()[1],
                    one.end(identity, not is_commit, version=version),
                    one.settled()[1],
                ]
                identity = following
            identity = one.settled()
            one.add(identity, 0)
            identity = one.ended(identity, version=version)
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize(("first", "second"), [(4, 5), (5, 4)])
def test_a_client_that_changes_its_version(both: Both, topic: str, first: int, second: int) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        identity = one.begin()
        seen: list[Any] = []
        for version in (first, second, first):
            one.add(identity, 0)
            seen.append(one.end(identity, True, version=version))
            following = one.settled()
            seen += [
                one.end(identity, True, version=first),
                one.end(identity, True, version=second),
                one.describe(),
            ]
            one.settled()
            identity = following
        return seen

    assert_alike(both, scenario)


def test_a_fenced_producer_hears_so_where_kafka_tells_it_of_success(both: Both, topic: str) -> None:
    """The one difference that is meant. A producer of version 2 was replaced by an older client,
    which has ended a transaction; Kafka takes the epoch of the successor for that which an end of
    the fenced one made, and gives it to it: two producers with one epoch."""

    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        fenced = one.begin()
        successor = one.begin()
        one.add(successor, 0, version=3)
        one.ended(successor, version=4)
        one.number(fenced[0])
        return one.end(fenced, True)

    ottla, kafka = (scenario(subject) for subject in both)
    assert ottla == ("PRODUCER_FENCED", -1, -1)
    assert kafka[::2] == ("NONE", 1)


# -- time ---------------------------------------------------------------------------------------


def test_time_outs(both: Both, topic: str) -> None:
    """Of a client of each version, and what it may do when it comes too late."""

    def open_one(subject: Subject, name: str) -> tuple[Id, Identity]:
        one = Id(subject, name).wait()
        error, producer_id, epoch = one.init(timeout_ms=100)
        assert error == "NONE"
        one.add((producer_id, epoch), 0, topic=topic)
        return one, (producer_id, epoch)

    for subject in both:
        subject.create(topic, 3)
    opened = {
        subject.name: [open_one(subject, f"{topic}-{n}") for n in range(3)] for subject in both
    }

    def scenario(subject: Subject) -> Any:
        ids = opened[subject.name]
        for one, _ in ids:
            until(lambda one=one: one.describe()["state"] == "CompleteAbort")  # type: ignore[misc]
        (by_old, old), (by_new, new), (goes_on, last) = ids
        return [
            [one.describe() for one, _ in ids],
            by_old.end(old, True, version=4),
            by_old.end(old, False, version=4),
            by_old.add(old, 1, topic=topic),
            by_new.add(new, 1, topic=topic, version=5),
            by_new.end(new, True),
            by_new.end(new, False),
            by_new.init(new)[0],
            goes_on.init(last)[::2],
            [one.describe() for one, _ in ids],
        ]

    assert_alike(both, scenario)


# -- ListTransactions, DescribeTransactions -----------------------------------------------------


def test_describe(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        other = Id(subject, f"{topic}-2").wait()
        one.begin()
        one.add(one.begin(), 0, 2)
        other.begin()
        # Each once: of one that is named twice Kafka answers twice, and Ottla once, so that a short
        # question cannot have an endless answer.
        names = [topic, f"{topic}-2", f"{topic}-unknown", ""]
        answer = subject.ask(DescribeTransactionsRequest(transactional_ids=names), 0)
        return [
            [one.describe(name) for name in names],
            [state.transactional_id for state in answer.transaction_states],
            subject.ask(DescribeTransactionsRequest(), 0),
        ]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", ListTransactionsRequest.VERSIONS)
def test_list(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        busy = begin(subject, topic)
        idle = Id(subject, f"{topic}-idle").wait()
        identity = busy.begin()
        busy.add(identity, 0)
        idle_id, _ = idle.begin()
        time.sleep(0.02)

        def listed(**filters: Any) -> Any:
            answer = subject.ask(ListTransactionsRequest(**filters), version)
            states = sorted(
                (state.transactional_id.removeprefix(topic), state.transaction_state)
                for state in answer.transaction_states
                if state.transactional_id.startswith(topic)
            )
            return ErrorCode(answer.error_code).name, sorted(answer.unknown_state_filters), states

        found = [
            listed(),
            listed(state_filters=["Ongoing"]),
            listed(state_filters=["Ongoing", "Empty", "ongoing", "Nonsense", "Nonsense"]),
            listed(state_filters=["Dead", "PrepareEpochFence", "CompleteAbort"]),
            listed(producer_id_filters=[idle_id]),
            listed(producer_id_filters=[idle_id, identity[0]], state_filters=["Ongoing"]),
            listed(producer_id_filters=[2**62]),
        ]
        if version >= 1:
            found += [
                listed(duration_filter=0),
                listed(duration_filter=0, state_filters=["Ongoing"]),
                listed(duration_filter=1_000_000),
                listed(duration_filter=-5),
            ]
        if version >= 2:
            found += [
                listed(transactional_id_pattern=pattern)
                for pattern in (f"{topic}.*", topic, f"{topic}-id", ".*-idle", "", "(", "nothing")
            ]
        busy.end(identity, False)
        return found

    assert_alike(both, scenario)


# -- the records --------------------------------------------------------------------------------


def records_of(one: Id) -> list[Any]:
    """Those of its id in `__transaction_state`: numbers for producer ids, and no times. What is
    left is as it was written: to write it again gives the same bytes."""
    partition = abs_hash(one.name) % 50
    found: list[Any] = []
    for header, batch in one.subject.batches_of(TRANSACTION_STATE, partition):
        for record in iter_records(batch):
            decoded = decode_record(RECORD_TYPES, record.key or b"", record.value)
            assert decoded is not None
            assert encode_record(decoded) == (record.key, record.value)
            assert isinstance(decoded.key, TransactionLogKey)
            if decoded.key.transactional_id == one.name:
                assert isinstance(decoded.value, TransactionLogValue)
                shown = _shown_record(one, decoded.value)
                found.append((header.attributes, decoded.value_version, shown))
    return found


def _shown_record(one: Id, value: TransactionLogValue) -> dict[str, Any]:
    partitions = value.transaction_partitions
    return {
        "producer": (one.number(value.producer_id), value.producer_epoch),
        "previous": one.number(value.previous_producer_id),
        "next": (one.number(value.next_producer_id), value.next_producer_epoch),
        "timeout": value.transaction_timeout_ms,
        "status": TransactionState(value.transaction_status).text,
        "partitions": partitions
        and sorted((listed.topic, sorted(listed.partition_ids)) for listed in partitions),
        "is_null": partitions is None,
        "is_updated": value.transaction_last_update_timestamp_ms > 0,
        "has_started": value.transaction_start_timestamp_ms > 0,
        "is_start_update": value.transaction_start_timestamp_ms
        == value.transaction_last_update_timestamp_ms
        # Of the first one that is added; a later one comes in the same millisecond or not.
        if value.transaction_status == TransactionState.ONGOING
        and [len(listed.partition_ids) for listed in partitions or ()] == [1]
        else None,
        "version": value.client_transaction_version,
    }


def test_records(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        identity = one.begin()
        # Version 2, with both outcomes, and nothing to abort.
        one.add(identity, 0, version=5)
        one.add(identity, 1, 2, version=5)
        identity = one.ended(identity)
        one.add(identity, 0, version=5)
        identity = one.ended(identity, is_commit=False)
        identity = one.ended(identity, is_commit=False)
        # The producer goes on, and is replaced; what it left is aborted.
        _, *going_on = one.init(identity)
        one.add((going_on[0], going_on[1]), 1)
        identity = one.begin()
        # Versions before 2.
        one.add(identity, 0, version=3)
        one.ended(identity, version=4)
        one.add_offsets(identity, version=3)
        one.ended(identity, is_commit=False, version=4)
        one.begin()
        return records_of(one)

    found = assert_alike(both, scenario)
    assert len(found) == 22


@pytest.mark.parametrize("version", [4, 5])
def test_markers(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        identity = one.begin()
        for is_commit in (True, False):
            one.add(identity, 0, version=5 if version >= BUMPING_SINCE else 3)
            batch = a_batch(
                producer_id=identity[0],
                producer_epoch=identity[1],
                base_sequence=0 if version >= BUMPING_SINCE or is_commit else 1,
                is_transactional=True,
            )
            written = subject.produce(topic, batch, version=11, transactional_id=topic)
            assert written.error_code == 0, written
            identity = one.ended(identity, is_commit, version=version)

        def batches() -> list[Any]:
            content = subject.fetch(topic).responses[0].partitions[0].records
            content = memoryview(bytes(content or b""))
            return [
                (
                    header.base_offset,
                    header.attributes,
                    header.producer_epoch,
                    header.base_sequence,
                    header.last_offset_delta,
                    [
                        (record.key, record.value) if header.is_control else None
                        for record in iter_records(content[position : position + header.size_bytes])
                    ],
                )
                for position, header in iter_headers(content)
            ]

        until(lambda: len(batches()) == 4)
        return batches()

    assert_alike(both, scenario)


# -- epochs that are used up --------------------------------------------------------------------


def age(one: Id, to_epoch: int) -> Identity:
    """Starts its producer until it has that epoch."""
    request = InitProducerIdRequest(transactional_id=one.name, transaction_timeout_ms=TIMEOUT_MS)
    producer_id, epoch = one.begin()
    while epoch < to_epoch:
        at_once = min(200, to_epoch - epoch)
        for _ in range(at_once):
            one.subject.client.tell(request, 5)
        for _ in range(at_once):
            answer = one.subject.client.response(request.API_KEY, 5)
            assert answer.error_code == 0, answer
        epoch += at_once
        assert (answer.producer_id, answer.producer_epoch) == (producer_id, epoch)
    return producer_id, epoch


USED_UP = ["commit", "abort", "start", "go on", "go on idle", "start idle"]


@pytest.mark.parametrize("end", USED_UP if IS_FULL else USED_UP[:1])  # Each takes half a minute.
def test_epochs_that_are_used_up(both: Both, topic: str, end: str) -> None:
    def scenario(subject: Subject) -> Any:
        one = begin(subject, topic)
        last = age(one, LAST_EPOCH)
        one.number(last[0])
        seen: list[Any] = []
        if not end.endswith("idle"):
            one.add(last, 0, version=5)
        for _ in range(2):
            match end:
                case "commit" | "abort":
                    seen.append(one.end(last, end == "commit"))
                case "start" | "start idle":
                    error, producer_id, epoch = one.init()
                    seen.append((error, one.number(producer_id), epoch))
                case _:
                    error, producer_id, epoch = one.init(last)
                    seen.append((error, one.number(producer_id), epoch))
            identity = one.settled()
            seen.append(one.describe())
        one.add(identity, 0, version=5)
        seen += [one.end(last, True), one.end(identity, True)]
        one.settled()
        records = [shown for _, _, shown in records_of(one)[-8:]]
        return [seen, records]

    assert_alike(both, scenario)

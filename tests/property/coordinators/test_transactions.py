"""Transactions of clients that start, write, end, retry, vanish, and act long after they were
replaced; while time passes, records and markers cannot be written for a while, and the coordinator
is loaded anew from its log.

The model is what a reader of committed records sees: partitions that keep data until a marker comes
for it. Each transaction is there whole or not at all, and as its producer was told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.coordinators.record import CoordinatorRecord, encode_record
from ottla.coordinators.result import Result
from ottla.coordinators.transactions.records import TransactionLogKey, TransactionLogValue
from ottla.coordinators.transactions.state import ALLOWED_PREVIOUS, TransactionState
from ottla.coordinators.transactions.transaction import EPOCH_MAX, Transaction
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from tests.support.counts import count
from tests.support.transactions import TransactionLog

T = TypeVar("T")

IDS = ("young", "old")
PARTITIONS = tuple(TopicPartition("t", number) for number in range(3))
TIMEOUTS_MS = (20_000, 60_000)
PASSING_MS = (1_000, 1_000, 1_000, 15_000, 61_000)
EXPIRY_MS = 8 * 24 * 60 * 60 * 1000
OUTCOMES = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}
AGAIN = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE}


@dataclass(eq=False)
class Written:
    """What one client wrote between its begin and its end."""

    promised: bool | None = None
    """Committed or aborted, as its client was told."""
    outcomes: list[bool | None] = field(default_factory=list)
    """Of each of its records; None while there is no marker."""


@dataclass(eq=False)
class Client:
    transactional_id: str
    version: int
    producer: ProducerIdAndEpoch | None = None
    written: Written | None = None
    """Open, as it believes."""
    unanswered_end: bool | None = None
    """It asked for this outcome and heard nothing: it can only ask for the same again."""
    is_end_done: bool = False
    """What it heard nothing of has happened."""
    is_out: bool = False
    """It was told that it is fenced. It may try to go on (KIP-360)."""
    ends: list[tuple[ProducerIdAndEpoch, bool]] = field(default_factory=list)
    """What it sent, and what may arrive again."""


class FlakyLog(TransactionLog):
    """Whose next writes fail."""

    failure_count = 0

    def write(self, result: Result[T]) -> T:
        self.failure = None
        if result.records and self.failure_count:
            self.failure_count -= 1
            self.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return super().write(result)


class PartitionModel:
    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.open: dict[int, list[tuple[Written, int]]] = {}

    def append(self, producer: ProducerIdAndEpoch, written: Written) -> None:
        producer_id, epoch = producer
        assert epoch >= self.epochs.get(producer_id, -1), "a verified producer is not fenced"
        self.epochs[producer_id] = epoch
        self.open.setdefault(producer_id, []).append((written, len(written.outcomes)))
        written.outcomes.append(None)

    def has_open(self, producer: ProducerIdAndEpoch) -> bool:
        return (
            producer.producer_id in self.open
            and self.epochs[producer.producer_id] == producer.producer_epoch
        )

    def end(self, decided: Transaction) -> None:
        producer_id, epoch = decided.producer
        last = self.epochs.get(producer_id, -1)
        assert epoch >= last, "markers are never fenced"
        if producer_id in self.open:
            raised = 1 if decided.transaction_version >= 2 else 0
            assert epoch == last + raised, "markers carry the epoch of their transaction"
        self.epochs[producer_id] = epoch
        for written, number in self.open.pop(producer_id, []):
            assert written.outcomes[number] is None, "a record has one outcome"
            written.outcomes[number] = decided.state is TransactionState.PREPARE_COMMIT


class Transactions(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.log = FlakyLog()
        # One whose epochs will be used up.
        old = TransactionLogValue(
            producer_id=500,
            previous_producer_id=500,
            producer_epoch=EPOCH_MAX - 4,
            transaction_timeout_ms=TIMEOUTS_MS[0],
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=self.log.timers.now_ms(),
            transaction_start_timestamp_ms=-1,
        )
        key = TransactionLogKey(transactional_id="old")
        self.log.log.append(encode_record(CoordinatorRecord(key, old, 1)))
        self.log.reload()
        self.clients: list[Client] = []
        self.owners: dict[str, Client] = {}
        """Who got its identity last: all others are fenced."""
        self.given: set[ProducerIdAndEpoch] = set()
        self.partitions = {at: PartitionModel() for at in PARTITIONS}
        self.marked: dict[tuple[str, ProducerIdAndEpoch], set[TopicPartition]] = {}
        """Of transactions that are being completed: which have their marker."""
        self.completed: list[Transaction] = []
        self.bumped_outcomes: dict[ProducerIdAndEpoch, TransactionState] = {}
        self.seen: dict[str, tuple[int, int]] = {}
        self.left_producer_ids: set[int] = set()
        self.checked_records = 0
        self.statuses: dict[str, TransactionState] = {}
        self.histories: list[Written] = []
        for transactional_id, version in ((IDS[0], 2), (IDS[1], 2), (IDS[0], 0)):
            self.appear(transactional_id, version)

    # -- clients ----------------------------------------------------------------------------

    def pick(self, number: int) -> Client:
        return self.clients[number % len(self.clients)]

    @rule(transactional_id=st.sampled_from(IDS), version=st.sampled_from([0, 2]))
    def appear(self, transactional_id: str, version: int) -> None:
        if len(self.clients) >= 4:
            self.clients.pop(0)  # It vanishes; what it left open stays so.
        self.clients.append(Client(transactional_id, version))
        self.init(len(self.clients) - 1, False, False, TIMEOUTS_MS[1])

    def tell(self, client: Client, operation: Callable[[], None], *, is_lost: bool = False) -> None:
        """Runs what a client asks. Nobody who was replaced hears of success."""
        try:
            operation()
        except KafkaError as error:
            if error.code not in AGAIN and not is_lost:
                client.is_out = True
                client.written = client.unanswered_end = None
                client.is_end_done = False
            return
        owner = self.owners.get(client.transactional_id)
        assert owner is client, "a fenced producer never succeeds"

    @rule(
        number=st.integers(0, 99),
        goes_on=st.booleans(),
        is_lost=st.booleans(),
        timeout_ms=st.sampled_from(TIMEOUTS_MS),
    )
    def init(self, number: int, goes_on: bool, is_lost: bool, timeout_ms: int) -> None:
        client = self.pick(number)
        expected = client.producer if goes_on else None

        def ask() -> None:
            if client.transactional_id not in self.log.listed():
                # Expired, and with it who was who: whoever comes first goes on as a new producer.
                self.owners[client.transactional_id] = client
            producer = self.log.init(
                expected, transactional_id=client.transactional_id, timeout_ms=timeout_ms
            )
            if producer is None:
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
            if expected is None:
                self.owners[client.transactional_id] = client
            is_own = self.owners.get(client.transactional_id, client) is client
            assert producer not in self.given or is_own, "an identity has one client"
            self.given.add(producer)
            client.is_end_done = False  # What it held itself to be is no more.
            if is_lost:
                return
            client.producer = producer
            client.written = client.unanswered_end = None
            client.is_out = False

        self.tell(client, ask, is_lost=is_lost)

    @rule(number=st.integers(0, 99), at=st.sampled_from(PARTITIONS), is_lost=st.booleans())
    def produce(self, number: int, at: TopicPartition, is_lost: bool) -> None:
        """Adds the partition and writes to it; or only adds it, the rest is lost."""
        client = self.pick(number)
        producer = client.producer
        if producer is None or client.unanswered_end is not None:
            return

        def ask() -> None:
            self.log.add(
                producer, at, version=client.version, transactional_id=client.transactional_id
            )
            if not is_lost:
                self.write(client, producer, at)

        self.tell(client, ask, is_lost=is_lost)

    @rule(number=st.integers(0, 99), at=st.sampled_from(PARTITIONS))
    def write_late(self, number: int, at: TopicPartition) -> None:
        """Without adding it: records that were on their way. The leader asks the coordinator,
        unless the transaction is open there."""
        client = self.pick(number)
        producer = client.producer
        if producer is None:
            return
        if not self.partitions[at].has_open(producer):
            try:
                verified = self.log.shard.verify_partitions(client.transactional_id, producer, [at])
            except KafkaError:
                return
            if verified[at] is not ErrorCode.NONE:
                return
        if client.written is not None and client.unanswered_end is None:
            self.write(client, producer, at)

    def write(self, client: Client, producer: ProducerIdAndEpoch, at: TopicPartition) -> None:
        if client.written is None:
            client.written = Written()
            self.histories.append(client.written)
        self.partitions[at].append(producer, client.written)

    @rule(number=st.integers(0, 99), is_commit=st.booleans(), is_lost=st.booleans())
    def end(self, number: int, is_commit: bool, is_lost: bool) -> None:
        client = self.pick(number)
        producer = client.producer
        if producer is None or (client.written is None and (is_commit or client.version < 2)):
            return  # Client libraries do not send it.
        wanted = is_commit if client.unanswered_end is None else client.unanswered_end
        client.ends.append((producer, wanted))
        client.unanswered_end = wanted

        def ask() -> None:
            try:
                following = self.log.end(
                    producer,
                    wanted,
                    version=client.version,
                    transactional_id=client.transactional_id,
                )
            except KafkaError as error:
                self.check_retry(client, error.code)
                raise
            if is_lost:
                client.is_end_done = True
                return
            if client.version >= 2:
                assert following > producer or following.producer_id != producer.producer_id
                self.given.add(following)
                client.producer = following
            if client.written is not None:
                client.written.promised = wanted
            client.written = client.unanswered_end = None
            client.is_end_done = False

        self.tell(client, ask, is_lost=is_lost)

    def check_retry(self, client: Client, code: ErrorCode) -> None:
        is_known = client.transactional_id in self.log.listed()
        if client.is_end_done and is_known and self.owners[client.transactional_id] is client:
            assert code in AGAIN, "who retries what has happened hears of success, if late"

    @rule(
        number=st.integers(0, 99),
        at=st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3),
        is_commit=st.booleans(),
        is_complete=st.booleans(),
        is_retried=st.booleans(),
    )
    def transact(
        self,
        number: int,
        at: list[TopicPartition],
        is_commit: bool,
        is_complete: bool,
        is_retried: bool,
    ) -> None:
        """As it goes when little goes wrong."""
        client = self.pick(number)
        if client.is_out or client.producer is None:
            self.init(number, client.version == 2, False, TIMEOUTS_MS[1])
        for each in at:
            self.produce(number, each, False)
        self.end(number, is_commit, is_retried)
        if is_complete:
            self.write_all_markers()
        if is_retried:
            self.end(number, is_commit, False)

    @precondition(lambda self: any(client.version == 2 and client.ends for client in self.clients))
    @rule(data=st.data())
    def end_arrives_again(self, data: st.DataObject) -> None:
        """Whatever it answers, it ends nothing that began later."""
        ended = [client for client in self.clients if client.version == 2 and client.ends]
        client = data.draw(st.sampled_from(ended))
        producer, is_commit = data.draw(st.sampled_from(client.ends))
        if producer == client.producer:
            return  # That would be its first arrival.
        before = len(self.log.log)
        try:
            self.log.end(producer, is_commit, transactional_id=client.transactional_id)
        except KafkaError:
            pass
        assert len(self.log.log) == before

    # -- the world --------------------------------------------------------------------------

    @precondition(lambda self: self.log.prepared)
    @rule(data=st.data())
    def write_marker(self, data: st.DataObject) -> None:
        decided = data.draw(st.sampled_from(self.log.prepared))
        marked = self.marked.setdefault((decided.transactional_id, decided.producer), set())
        missing = sorted(decided.partitions - marked)
        if missing:
            at = data.draw(st.sampled_from(missing))
            self.partitions[at].end(decided)
            marked.add(at)
        if decided.transaction_version >= 2:
            first = self.bumped_outcomes.setdefault(decided.producer, decided.state)
            assert first is decided.state, "a producer's epoch has one outcome"
        if len(missing) <= 1:
            try:
                self.log.complete(decided)
            except KafkaError:
                return
            self.completed.append(decided)
            del self.marked[decided.transactional_id, decided.producer]

    @rule()
    def write_all_markers(self) -> None:
        for decided in list(self.log.prepared):
            marked = self.marked.pop((decided.transactional_id, decided.producer), set())
            for at in sorted(decided.partitions - marked):
                self.partitions[at].end(decided)
            try:
                self.log.complete(decided)
            except KafkaError:
                continue  # All of them again, later: that changes nothing.
            self.completed.append(decided)

    @precondition(lambda self: self.completed)
    @rule(data=st.data())
    def report_markers_again(self, data: st.DataObject) -> None:
        """Of a transaction that is complete: it completes no later one."""
        decided = data.draw(st.sampled_from(self.completed))
        before = len(self.log.log)
        result = self.log.shard.complete(decided.transactional_id, decided.producer)
        if decided.transaction_version >= 2:
            self.log.write(result)
            assert len(self.log.log) == before

    @rule(ms=st.sampled_from(PASSING_MS))
    def pass_time(self, ms: int) -> None:
        self.log.timers.advance(ms)

    @rule(is_long=st.integers(0, 9))
    def let_ids_expire(self, is_long: int) -> None:
        if is_long == 9:
            self.log.timers.advance(EXPIRY_MS)

    @rule(failure_count=st.integers(1, 3))
    def fail_to_write(self, failure_count: int) -> None:
        self.log.failure_count = failure_count

    @rule()
    def restart(self) -> None:
        """Markers may be half written; the next leader writes them all again."""
        self.marked.clear()
        self.log.reload()

    # -- what must hold ---------------------------------------------------------------------

    @invariant()
    def epochs_never_go_back(self) -> None:
        if not hasattr(self, "log"):
            return
        for listed in self.log.listed():
            described = self.log.describe(listed)
            now = (described.producer_id, described.producer_epoch)
            before = self.seen.get(listed, now)
            if now[0] == before[0]:
                assert now[1] >= before[1]
            else:
                self.left_producer_ids.add(before[0])
            assert now[0] not in self.left_producer_ids
            self.seen[listed] = now
        assert len({now[0] for now in self.seen.values()}) == len(self.seen)

    @invariant()
    def what_was_prepared_is_completed_with_that_outcome(self) -> None:
        if not hasattr(self, "log"):
            return
        for record in self.log.records[self.checked_records :]:
            assert isinstance(record.key, TransactionLogKey)
            transactional_id = record.key.transactional_id
            before = self.statuses.pop(transactional_id, None)
            if record.value is None:
                assert before is not None
                assert before.is_idle
                continue
            assert isinstance(record.value, TransactionLogValue)
            status = TransactionState(record.value.transaction_status)
            if before is not None:
                assert before in ALLOWED_PREVIOUS[status]
                assert OUTCOMES.get(before, status) is status
            self.statuses[transactional_id] = status
        self.checked_records = len(self.log.log)

    @invariant()
    def outcomes_are_what_clients_were_told(self) -> None:
        if not hasattr(self, "log"):
            return
        for written in self.histories:
            outcomes = {outcome for outcome in written.outcomes if outcome is not None}
            assert len(outcomes) <= 1, "a transaction is there whole or not at all"
            if written.promised is not None:
                assert outcomes <= {written.promised}

    def teardown(self) -> None:
        """Once all can be written, nothing hangs: what is left open times out."""
        if not hasattr(self, "log"):
            return
        self.log.failure_count = 0
        self.restart()
        for _ in range(2):
            self.write_all_markers()
            self.log.timers.advance(2 * max(TIMEOUTS_MS))
        self.outcomes_are_what_clients_were_told()
        for model in self.partitions.values():
            assert not model.open, "a transaction hangs"
        for written in self.histories:
            if written.promised is not None:
                assert set(written.outcomes) == {written.promised}


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(
    max_examples=count(full=1000), stateful_step_count=80, deadline=None
)

"""What a history says, put together by record, transaction and partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.kernel.ids import TopicPartition
from ottla.testing.history.committed_log import CommittedLog
from ottla.testing.history.events import (
    Acknowledged,
    AskCommit,
    Begin,
    Ended,
    Event,
    Outcome,
    Polled,
    Send,
    SendFailed,
    SendOffsets,
)


@dataclass(slots=True)
class SentRecord:
    at: int
    send: Send
    is_acknowledged: bool = False
    has_failed: bool = False
    offset: int | None = None
    """Where it was acknowledged to be, or else was seen."""


@dataclass(slots=True)
class Transaction:
    name: str
    client: str
    commit_asked_at: int | None = None
    ended_at: int | None = None
    told: Outcome | None = None
    records: list[SentRecord] = field(default_factory=list)
    offsets: list[SendOffsets] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        """One that nobody asked to commit cannot be committed, whatever became of its client."""
        if self.commit_asked_at is None:
            return Outcome.ABORTED
        return self.told or Outcome.UNKNOWN


class Facts:
    """Made once for all checks, from a history and, where it is over, the logs."""

    def __init__(
        self, history: Iterable[Event], logs: Mapping[TopicPartition, CommittedLog]
    ) -> None:
        self.events = list(enumerate(history))
        self.logs = logs
        self.sent: dict[str, SentRecord] = {}
        self.transactions: dict[str, Transaction] = {}
        self.polls: list[tuple[int, Polled]] = []
        self.seen: defaultdict[TopicPartition, dict[int, str]] = defaultdict(dict)
        """The first value that was seen at each offset: acknowledged, polled or in the log."""
        for at, event in self.events:
            self._take(at, event)
        for partition, log in logs.items():
            for offset, record in log.records.items():
                self._see(partition, offset, record.value)

    def is_visible(
        self, partition: TopicPartition, offset: int, *, is_read_committed: bool
    ) -> bool:
        """Whether there is certainly a record that such a reader is to be given."""
        value = self.seen[partition].get(offset)
        if value is None or value not in self.sent:
            return False
        log = self.logs.get(partition)
        if log is not None and offset not in log.records:
            return False  # Lost or deleted: the reader is not to blame.
        record = self.sent[value]
        if not is_read_committed or record.send.transaction is None:
            return True
        return self.outcome_of(record) is Outcome.COMMITTED

    def is_deleted(self, record: SentRecord) -> bool:
        """Below the log's start: whether it ever was there nobody can say any more."""
        log = self.logs.get(record.send.partition)
        if log is None:
            return False
        return log.start_offset > (0 if record.offset is None else record.offset)

    def outcome_of(self, record: SentRecord) -> Outcome:
        """As its producer was told; what that does not know, the log may."""
        told = self._told(record)
        log = self.logs.get(record.send.partition)
        if told is not Outcome.UNKNOWN or log is None or record.offset not in log.records:
            return told
        return log.records[record.offset].outcome

    def _told(self, record: SentRecord) -> Outcome:
        if record.has_failed:
            return Outcome.ABORTED
        if record.send.transaction is not None:
            return self.transactions[record.send.transaction].outcome
        return Outcome.COMMITTED if record.is_acknowledged else Outcome.UNKNOWN

    def _take(self, at: int, event: Event) -> None:
        match event:
            case Send():
                assert event.value not in self.sent, f"{event.value!r} is sent twice"
                self.sent[event.value] = record = SentRecord(at, event)
                if event.transaction is not None:
                    self.transactions[event.transaction].records.append(record)
            case Acknowledged():
                record = self.sent[event.value]
                record.is_acknowledged = True
                if event.offset is not None:
                    self._see(record.send.partition, event.offset, event.value)
            case SendFailed():
                self.sent[event.value].has_failed = True
            case Polled():
                self.polls.append((at, event))
                for polled in event.records:
                    self._see(polled.partition, polled.offset, polled.value)
            case Begin():
                assert event.transaction not in self.transactions, "begun twice"
                self.transactions[event.transaction] = Transaction(event.transaction, event.client)
            case SendOffsets():
                self.transactions[event.transaction].offsets.append(event)
            case AskCommit():
                self.transactions[event.transaction].commit_asked_at = at
            case Ended():
                transaction = self.transactions[event.transaction]
                transaction.told, transaction.ended_at = event.outcome, at

    def _see(self, partition: TopicPartition, offset: int, value: str) -> None:
        self.seen[partition].setdefault(offset, value)
        record = self.sent.get(value)
        if record is not None and record.offset is None and record.send.partition == partition:
            record.offset = offset

"""What must hold of records: none lost, none twice, one value at an offset, in their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.records.batch import NO_SEQUENCE, SEQUENCE_MODULUS
from ottla.testing.history.anomaly import Anomaly, AnomalyKind
from ottla.testing.history.events import Acknowledged, Outcome
from ottla.testing.history.facts import Facts, SentRecord

Place = tuple[TopicPartition, int]


def check_writes(facts: Facts) -> Iterator[Anomaly]:
    places = _places(facts)
    yield from _unsent(facts, places)
    yield from _duplicates(facts, places)
    yield from _inconsistent_offsets(facts, places)
    yield from _lost_writes(facts)
    yield from _unseen(facts)
    yield from _nonmonotonic_sends(facts)
    yield from _sequences(facts)


def _places(facts: Facts) -> dict[str, dict[Place, None]]:
    """Where each value was seen, in order."""
    places: defaultdict[str, dict[Place, None]] = defaultdict(dict)
    for _, event in facts.events:
        if isinstance(event, Acknowledged) and event.offset is not None:
            places[event.value][facts.sent[event.value].send.partition, event.offset] = None
    for _, poll in facts.polls:
        for record in poll.records:
            places[record.value][record.partition, record.offset] = None
    for partition, log in facts.logs.items():
        for offset, logged in log.records.items():
            places[logged.value][partition, offset] = None
    return places


def _unsent(facts: Facts, places: dict[str, dict[Place, None]]) -> Iterator[Anomaly]:
    for value, where in places.items():
        record = facts.sent.get(value)
        if record is None:
            yield Anomaly(AnomalyKind.UNSENT_READ, f"{value!r} {_at(where)} was sent by nobody")
        elif any(partition != record.send.partition for partition, _ in where):
            yield Anomaly(
                AnomalyKind.UNSENT_READ,
                f"{value!r} {_at(where)} was sent to {record.send.partition}",
            )


def _duplicates(facts: Facts, places: dict[str, dict[Place, None]]) -> Iterator[Anomaly]:
    for value, where in places.items():
        if len(where) > 1:
            yield Anomaly(AnomalyKind.DUPLICATE, f"{value!r} is {_at(where)}")
    copies: defaultdict[object, list[SentRecord]] = defaultdict(list)
    for record in facts.sent.values():
        if record.send.source is not None and facts.outcome_of(record) is Outcome.COMMITTED:
            copies[record.send.source, record.send.partition.topic].append(record)
    for same in copies.values():
        if len(same) > 1:
            source = same[0].send.source
            assert source is not None
            values = " and ".join(repr(record.send.value) for record in same)
            yield Anomaly(
                AnomalyKind.DUPLICATE,
                f"{values} are both committed, and made from {source.partition} at {source.offset}"
                f" by the group {source.group}",
            )


def _inconsistent_offsets(facts: Facts, places: dict[str, dict[Place, None]]) -> Iterator[Anomaly]:
    values: defaultdict[Place, list[str]] = defaultdict(list)
    for value, where in places.items():
        for place in where:
            values[place].append(value)
    for (partition, offset), different in values.items():
        if len(different) > 1:
            yield Anomaly(
                AnomalyKind.INCONSISTENT_OFFSETS, f"{partition} has {different} at {offset}"
            )


def _lost_writes(facts: Facts) -> Iterator[Anomaly]:
    polled: set[str] = set()
    read_up_to: defaultdict[TopicPartition, int] = defaultdict(int)
    for _, poll in facts.polls:
        for read in poll.records:
            polled.add(read.value)
            read_up_to[read.partition] = max(read_up_to[read.partition], read.offset)
    for value, record in facts.sent.items():
        is_acknowledged = record.is_acknowledged and facts.outcome_of(record) is Outcome.COMMITTED
        if not is_acknowledged and value not in polled:
            continue
        how = "acknowledged" if is_acknowledged else "read"
        where = f"{value!r} was {how} at {record.offset} of {record.send.partition}"
        partition = record.send.partition
        if partition in facts.logs:
            if not _is_in_log(facts, record):
                yield Anomaly(AnomalyKind.LOST_WRITE, f"{where} and is not in the log")
        elif value not in polled and (record.offset or 0) < read_up_to[partition]:
            yield Anomaly(
                AnomalyKind.LOST_WRITE,
                f"{where}, readers went on to {read_up_to[partition]}, and none has seen it",
            )


def _is_in_log(facts: Facts, record: SentRecord) -> bool:
    """Or was deleted from it, as old records are."""
    log = facts.logs[record.send.partition]
    if record.offset is None:
        return log.start_offset > 0  # Nobody knows where it was.
    logged = log.records.get(record.offset)
    if logged is None:
        return record.offset < log.start_offset
    return logged.value == record.send.value


def _unseen(facts: Facts) -> Iterator[Anomaly]:
    polled = {record.value for _, poll in facts.polls for record in poll.records}
    topics = {record.partition.topic for _, poll in facts.polls for record in poll.records}
    for value, record in facts.sent.items():
        if record.send.partition.topic not in topics or value in polled:
            continue
        if facts.is_deleted(record):
            continue
        if record.is_acknowledged and facts.outcome_of(record) is Outcome.COMMITTED:
            yield Anomaly(
                AnomalyKind.UNSEEN,
                f"{value!r} was acknowledged at {record.offset} of {record.send.partition} and "
                "is committed, and nobody has read it",
            )


def _nonmonotonic_sends(facts: Facts) -> Iterator[Anomaly]:
    last: dict[tuple[str, TopicPartition], SentRecord] = {}
    for record in facts.sent.values():
        if record.offset is None:
            continue
        before = last.get(key := (record.send.client, record.send.partition))
        if before is not None and before.offset is not None and before.offset > record.offset:
            yield Anomaly(
                AnomalyKind.NONMONOTONIC_SEND,
                f"{record.send.client} sent {before.send.value!r}, which is at {before.offset} of "
                f"{record.send.partition}, before {record.send.value!r}, which is at "
                f"{record.offset}",
            )
        else:
            last[key] = record


def _sequences(facts: Facts) -> Iterator[Anomaly]:
    for partition, log in facts.logs.items():
        expected: dict[ProducerIdAndEpoch, int] = {}
        for batch in log.batches:
            header = batch.header
            if batch.is_control or header.base_sequence == NO_SEQUENCE:
                continue
            producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
            sequence = header.base_sequence
            wanted = expected.get(producer, sequence)
            if sequence != wanted:
                kind = AnomalyKind.SKIPPED_SEND if sequence > wanted else AnomalyKind.DUPLICATE
                yield Anomaly(
                    kind,
                    f"{producer} goes on in {partition} at offset {header.base_offset} with "
                    f"sequence {sequence}, not {wanted}",
                )
            expected[producer] = (header.last_sequence + 1) % SEQUENCE_MODULUS


def _at(where: dict[Place, None]) -> str:
    return " and ".join(f"at {offset} of {partition}" for partition, offset in where)

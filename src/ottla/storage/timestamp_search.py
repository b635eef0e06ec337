"""Finding a record by its timestamp. Reads whole batches and decompresses, so it runs off the
loop, on what does not change any more: closed segments, and the active one up to where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.kernel.disk import File
from ottla.kernel.workers import giving_way
from ottla.records.errors import CorruptRecord
from ottla.records.record import iter_records
from ottla.storage.batch_scan import ScannedBatch, scan_batches
from ottla.storage.errors import CorruptFile
from ottla.storage.segment import ActiveSegment, Segment

if TYPE_CHECKING:
    from ottla.storage.log import Log


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class ClosedView(NamedTuple):
    """A closed segment, and how much of it was in its file when the search began."""

    segment: Segment
    end: int


class ActiveView(NamedTuple):
    """The active segment as it was on the loop when the search began."""

    file: File
    position: int
    end: int
    largest_timestamp: int


def view_active(active: ActiveSegment, end: int, timestamp: int | None) -> ActiveView:
    if timestamp is None:
        timestamp = active.largest_timestamp
    # The entry that names the timestamp itself lies at the end of the batch that holds it.
    position = active.position_before_timestamp(timestamp - 1)
    return ActiveView(active.file, position, end, active.largest_timestamp)


class TimestampSearch(NamedTuple):
    closed: list[ClosedView]
    active: ActiveView
    timestamp: int | None
    log_start_offset: int


async def search(
    log: Log, timestamp: int | None, find: Callable[[TimestampSearch], TimestampOffset | None]
) -> TimestampOffset | None:
    """Looks off the loop. Raises `StorageFailure`, or KafkaError when the log is gone."""
    while True:
        log.folder.check_online()
        closed, active = log.view(timestamp)
        view = TimestampSearch(closed, active, timestamp, log.log_start_offset)
        try:
            found = await log.folder.workers.submit(find, view)
            log.check_not_deleted()  # Its files may have been those of another by then.
            return found
        except FileNotFoundError as error:
            log.check_not_deleted()
            if [each.segment for each in closed] == log.segments[:-1]:
                raise log.read_failed(error) from error
            # Retention was quicker. Look at what is left.
        except OSError as error:
            raise log.read_failed(error) from error
        except CorruptFile as error:
            log.check_not_deleted()
            raise CorruptRecord(str(error)) from error


def find_timestamp(search: TimestampSearch) -> TimestampOffset | None:
    """The first record that is not older and not below the log's start."""
    _, active, timestamp, log_start_offset = search
    assert timestamp is not None, "a timestamp to look for"
    for segment, end in search.closed:
        if segment.largest().timestamp >= timestamp:
            position = segment.position_before_timestamp(timestamp - 1)
            batches = segment.scan(position, end, headers_only=False)
            found = _find_in(batches, timestamp, log_start_offset)
            if found is not None:
                return found
    if active.largest_timestamp < timestamp:
        return None
    batches = scan_batches(active.file, active.position, active.end, headers_only=False)
    return _find_in(batches, timestamp, log_start_offset)


def find_max_timestamp(search: TimestampSearch) -> TimestampOffset | None:
    """The first record that has the largest timestamp of all."""
    largest = max(
        search.active.largest_timestamp,
        max((each.segment.largest().timestamp for each in search.closed), default=-1),
    )
    return find_timestamp(search._replace(timestamp=largest)) if largest >= 0 else None


def _find_in(
    batches: Iterable[ScannedBatch], timestamp: int, log_start_offset: int
) -> TimestampOffset | None:
    for batch in batches:
        if batch.header.max_timestamp < timestamp or batch.header.last_offset < log_start_offset:
            continue
        for record in giving_way(iter_records(batch.content)):
            if record.timestamp >= timestamp and record.offset >= log_start_offset:
                return TimestampOffset(
                    record.timestamp, record.offset, batch.header.partition_leader_epoch
                )
    return None

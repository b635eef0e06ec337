"""The batches of a log, from first to last: what a coordinator loads its state from."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from ottla.records.batch import BatchHeader, iter_headers
from ottla.records.errors import CorruptRecord
from ottla.storage.batch_scan import Cold
from ottla.storage.log import Log

_READ_BYTES = 1024 * 1024


async def written_batches(
    log: Log, offset: int
) -> AsyncGenerator[tuple[BatchHeader, memoryview], None]:
    """From this offset up to the log's end, also such as are written meanwhile. Raises
    StorageFailure, and CorruptRecord where there is something else than a batch."""
    while offset < log.log_end_offset:
        found = log.read(offset, _READ_BYTES, max_offset=log.log_end_offset, at_least_one=True)
        if found is None:
            return
        try:
            content = memoryview(
                await log.folder.workers.submit(found.file.read_at, found.offset, found.length)
            )
        except OSError as error:
            raise log.read_failed(error) from error
        if isinstance(found, Cold):
            continue
        began_at = offset
        for position, header in iter_headers(content, allow_partial=True):
            if header.next_offset <= offset:
                break
            offset = header.next_offset
            yield header, content[position : position + header.size_bytes]
        if offset == began_at:
            raise CorruptRecord(f"what lies at offset {offset} is no record batch")

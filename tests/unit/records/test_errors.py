from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.records.errors import CorruptRecord, RecordError, RecordsRejected


def test_corrupt_bytes_have_the_code_that_makes_clients_send_again() -> None:
    error = CorruptRecord("the crc is wrong")
    assert isinstance(error, KafkaError)
    assert (error.code, error.message) == (ErrorCode.CORRUPT_MESSAGE, "the crc is wrong")


def test_a_refused_batch_names_its_bad_records() -> None:
    bad = [RecordError(3, "no key")]
    error = RecordsRejected(ErrorCode.INVALID_RECORD, "1 of 5 records", bad)
    assert isinstance(error, KafkaError)
    assert (error.code, error.message) == (ErrorCode.INVALID_RECORD, "1 of 5 records")
    assert error.record_errors == [(3, "no key")]

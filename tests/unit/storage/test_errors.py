from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.storage.errors import StorageFailure


def test_a_client_looks_for_another_leader() -> None:
    failure = StorageFailure("log dir /data is offline: I/O error")
    assert failure.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "/data" in str(failure)

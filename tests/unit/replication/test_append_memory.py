from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.replication.append_memory import AppendMemory


def test_what_was_given_back_can_be_taken_again() -> None:
    memory = AppendMemory(10)
    for _ in range(3):
        memory.take(6)
        memory.take(4)
        with pytest.raises(KafkaError) as caught:
            memory.take(1)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        memory.give_back(6)
        memory.give_back(4)

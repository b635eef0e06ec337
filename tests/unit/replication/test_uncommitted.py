from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.replication.uncommitted import Uncommitted


def test_steps_are_committed_in_the_order_of_their_places() -> None:
    committed: list[tuple[int, int]] = []
    heard: list[str] = []
    uncommitted = Uncommitted(lambda end, size: committed.append((end, size)))
    first = uncommitted.begin(1, 10)
    uncommitted.when_committed(lambda error: heard.append("first"))
    second = uncommitted.begin(3, 20)
    uncommitted.when_committed(lambda error: heard.append("second"))
    uncommitted.finish(second)
    assert (committed, heard) == ([], [])
    uncommitted.finish(first)
    assert (committed, heard) == ([(1, 10), (3, 20)], ["first", "second"])
    uncommitted.when_committed(lambda error: heard.append("at once"))
    assert heard[-1] == "at once"


def test_a_failure_is_told_to_all_who_wait_and_ends_all_steps() -> None:
    heard: list[KafkaError | None] = []
    uncommitted = Uncommitted(lambda end, size: None)
    step = uncommitted.begin(1, 10)
    uncommitted.when_committed(heard.append)
    error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    uncommitted.fail(error)
    uncommitted.finish(step)
    assert heard == [error]
    uncommitted.when_committed(heard.append)
    assert heard == [error, error]
    assert not uncommitted.steps
    assert not uncommitted.is_empty, "it was lost, not committed"


@pytest.mark.parametrize("error", [None, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)])
def test_one_who_raises_holds_up_nobody(
    error: KafkaError | None, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(_: KafkaError | None) -> None:
        raise ValueError("a bug of ours")

    heard: list[KafkaError | None] = []
    uncommitted = Uncommitted(lambda end, size: None)
    step = uncommitted.begin(1, 10)
    uncommitted.when_committed(stumble)
    uncommitted.when_committed(heard.append)
    if error is None:
        uncommitted.finish(step)
    else:
        uncommitted.fail(error)
    assert heard == [error]
    assert "a bug of ours" in caplog.text
